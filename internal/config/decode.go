package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// decoder fills a Config from a syntax tree. The library's own decoder stops at
// the first problem and keeps no positions; this one goes on, so that a file is
// corrected in one round, and remembers where everything stood.
type decoder struct {
	file, dir string
	keys      map[string]key
	spots     map[string]spot
	problems  Problems
}

// place is one value of the file: its path, the path with chosen names as "*"
// (what keys are listed under), and where it stands.
type place struct {
	path, pattern string
	at            Position
}

func (p place) child(name, pattern string, at Position) place {
	if p.path == "" {
		return place{name, pattern, at}
	}
	return place{p.path + "." + name, p.pattern + "." + pattern, at}
}

func (d *decoder) reject(at Position, format string, args ...any) {
	d.problems = append(d.problems, Problem{at, fmt.Sprintf(format, args...)})
}

func (d *decoder) position(n ast.Node) Position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return d.position(m.Values[0].Key)
	}
	t := n.GetToken().Position
	return Position{d.file, t.Line, t.Column}
}

// value decodes n into v, which keeps its zero value when n is refused.
func (d *decoder) value(v reflect.Value, tag reflect.StructTag, n ast.Node, p place) {
	if !d.plain(n, p) {
		return
	}
	switch {
	case isScalar(v.Type()):
		d.scalar(v, tag, n, p)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(v.Elem(), tag, n, p)
	case v.Kind() == reflect.Slice:
		d.list(v, tag, n, p)
	case v.Kind() == reflect.Map:
		d.mapping(v, n, p)
	default:
		d.fields(v, n, p)
	}
}

// plain refuses the parts of YAML whose reading surprises: a setting must mean
// what stands in its place.
func (d *decoder) plain(n ast.Node, p place) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.reject(p.at, "anchors and aliases are not supported: write the value out")
		return false
	case *ast.TagNode:
		d.reject(p.at, "tags are not supported: write the plain value")
		return false
	}
	return true
}

// pair is one key of a mapping with its value.
type pair struct {
	name  string
	key   Position
	value ast.Node
}

// pairs reads a mapping. An empty value (a section whose keys are all
// commented) is a mapping without keys.
func (d *decoder) pairs(n ast.Node, p place) ([]pair, bool) {
	m, ok := n.(*ast.MappingNode)
	if _, empty := n.(*ast.NullNode); empty || n == nil {
		return nil, true
	}
	if !ok {
		d.reject(p.at, "%s must be a mapping of keys to values, not %s", p.named(), kindOf(n))
		return nil, false
	}
	var out []pair
	for _, mv := range m.Values {
		at := d.position(mv.Key)
		switch k := mv.Key.(type) {
		case *ast.MergeKeyNode:
			d.reject(at, "merge keys are not supported: write the keys out")
		case *ast.MappingKeyNode:
			d.reject(at, "a key must be plain text")
		default:
			out = append(out, pair{k.GetToken().Value, at, mv.Value})
		}
	}
	return out, true
}

// remember keeps where p and its value stand. What is wrong with a scalar or a
// list is reported at the value; what a mapping lacks, at its key.
func (d *decoder) remember(p place, value ast.Node) place {
	s := spot{key: p.at, value: p.at, node: value}
	switch value.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		s.value = d.position(value)
	default:
		s.value = d.position(value)
		p.at = s.value
	}
	d.spots[p.path] = s
	return p
}

// fields decodes a mapping whose keys are known.
func (d *decoder) fields(v reflect.Value, n ast.Node, p place) {
	given, ok := d.pairs(n, p)
	if !ok {
		return
	}
	seen := map[string]bool{}
	for _, kv := range given {
		i := slices.Index(fieldNames(v.Type()), kv.name)
		if i < 0 {
			d.reject(kv.key, "%q is not a key of %s, which has %s", kv.name, p.named(), strings.Join(keyNames(v.Type()), ", "))
			continue
		}
		seen[kv.name] = true
		d.field(v.Field(i), v.Type().Field(i).Tag, kv, d.remember(p.child(kv.name, kv.name, kv.key), kv.value))
	}
	d.missing(v, seen, p)
}

func (d *decoder) field(v reflect.Value, tag reflect.StructTag, kv pair, p place) {
	before := len(d.problems)
	d.value(v, tag, kv.value, p)
	if tag.Get("required") != "" && v.IsZero() && len(d.problems) == before {
		d.reject(p.at, "%s must not be empty or zero", p.path)
	}
}

// missing gives every key that the file leaves out its default, or says that
// the file must have it.
func (d *decoder) missing(v reflect.Value, seen map[string]bool, p place) {
	for i, name := range fieldNames(v.Type()) {
		if name == "" || seen[name] {
			continue
		}
		f, tag := v.Field(i), v.Type().Field(i).Tag
		c := p.child(name, name, p.at)
		switch def := d.keys[c.pattern].value; {
		case tag.Get("required") != "":
			d.reject(p.at, "%s needs %s", p.named(), name)
		case f.Kind() == reflect.Struct && !isScalar(f.Type()):
			d.missing(f, nil, c)
		case def != "" && isScalar(f.Type()):
			if err := d.setText(f, tag, def); err != nil {
				d.reject(p.at, "%s: %v", c.path, err)
			}
		}
	}
}

// mapping decodes a mapping whose keys are names of the user's choice.
func (d *decoder) mapping(v reflect.Value, n ast.Node, p place) {
	given, _ := d.pairs(n, p)
	for _, kv := range given {
		elem := reflect.New(v.Type().Elem()).Elem()
		c := p.child(kv.name, "*", kv.key)
		if elem.Kind() == reflect.Struct && !isName(kv.name) {
			d.reject(kv.key, "%q is not a name: use letters, digits, dots, dashes and underscores, and begin with a letter or digit", kv.name)
			continue
		}
		d.value(elem, "", kv.value, d.remember(c, kv.value))
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(kv.name), elem)
	}
}

// list decodes a list of words. A field marked "one-or-list" takes one word too.
func (d *decoder) list(v reflect.Value, tag reflect.StructTag, n ast.Node, p place) {
	nodes := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		nodes = s.Values
	} else if _, null := n.(*ast.NullNode); null {
		return
	} else if tag.Get("format") != "one-or-list" {
		d.reject(p.at, "%s must be a list, not %s", p.path, kindOf(n))
		return
	}
	if v.Type().Elem() == reflect.TypeFor[Notification]() {
		if len(nodes) > 0 {
			d.reject(d.position(nodes[0]), "notifications are not in this build: leave %s empty", p.path)
		}
		return
	}
	for _, e := range nodes {
		elem := reflect.New(v.Type().Elem()).Elem()
		c := p
		c.at = d.position(e)
		d.value(elem, tag, e, c)
		if slices.ContainsFunc(listed(v), elem.Equal) {
			d.reject(c.at, "%s has %q twice", p.path, elem.String())
		}
		v.Set(reflect.Append(v, elem))
	}
}

func listed(v reflect.Value) []reflect.Value {
	out := make([]reflect.Value, v.Len())
	for i := range out {
		out[i] = v.Index(i)
	}
	return out
}

// scalar decodes one value. Kinds are never converted: 5 is no duration, and
// 123 is no text.
func (d *decoder) scalar(v reflect.Value, tag reflect.StructTag, n ast.Node, p place) {
	text, kind := scalarText(n)
	if want := wantedKind(v.Type()); kind != want {
		d.reject(p.at, "%s must be %s, not %s%s", p.path, want, kindOf(n), quoteHint(v.Type(), kind))
		return
	}
	if err := d.setText(v, tag, text); err != nil {
		d.reject(p.at, "%s: %v", p.path, err)
	}
}

// setText sets a scalar from its text; v stays as it is on an error.
func (d *decoder) setText(v reflect.Value, tag reflect.StructTag, text string) error {
	var x any
	var err error
	switch v.Interface().(type) {
	case time.Duration:
		x, err = ParseDuration(text)
	case Rate:
		x, err = ParseRate(text)
	case Secret:
		x, err = ParseSecret(text, d.dir)
	case bool:
		x, err = strconv.ParseBool(text)
	case int:
		x, err = parseCount(text)
	default:
		x, err = d.word(tag, text)
	}
	if err == nil {
		v.Set(reflect.ValueOf(x).Convert(v.Type()))
	}
	return err
}

// word checks text against the field's list, or resolves it where it is a path.
func (d *decoder) word(tag reflect.StructTag, text string) (string, error) {
	has := splitList(tag.Get("enum"))
	switch {
	case strings.TrimSpace(text) == "":
		return "", errors.New("must not be empty")
	case tag.Get("format") == "path":
		return d.path(text)
	case len(has) == 0 || slices.Contains(has, text):
		return text, nil
	case slices.Contains(splitList(tag.Get("later")), text):
		return "", fmt.Errorf("%q is not in this build, which has %s", text, strings.Join(has, ", "))
	default:
		return "", fmt.Errorf("%q is not one of %s", text, strings.Join(has, ", "))
	}
}

func (d *decoder) path(text string) (string, error) {
	if text == "~" || strings.HasPrefix(text, "~/") {
		return "", fmt.Errorf("%q: ~ is not expanded, write the whole path", text)
	}
	return absolute(d.dir, text), nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a whole number above zero", text)
	}
	return int(n), nil
}
