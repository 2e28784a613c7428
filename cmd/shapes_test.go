package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// shapes are the tables of docs/json-output.md by their heading: the keys of each
// shape with the kind of value.
type shapes map[string]map[string]valueKind

// valueKind is the second column of a table: "list of [job](#job), optional".
type valueKind struct {
	base, shape              string // base is empty where it is a shape
	list, nullable, optional bool
}

var (
	shapeHeading = regexp.MustCompile(`^##+ (.+)$`)
	shapeRow     = regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| ([^|]+) \\|")
	shapeLink    = regexp.MustCompile(`^\[[^]]+\]\(#([a-z-]+)\)$`)
)

func readShapes() (shapes, error) {
	page, err := os.ReadFile("../docs/json-output.md")
	if err != nil {
		return nil, err
	}
	all, current := shapes{}, ""
	for line := range strings.Lines(string(page)) {
		line = strings.TrimRight(line, "\n")
		if m := shapeHeading.FindStringSubmatch(line); m != nil {
			current = strings.ReplaceAll(m[1], " ", "-")
			if all[current] != nil {
				return nil, fmt.Errorf("two headings %q", m[1])
			}
			all[current] = map[string]valueKind{}
		}
		if m := shapeRow.FindStringSubmatch(line); m != nil {
			all[current][m[1]] = parseKind(m[2])
		}
	}
	return all, nil
}

func parseKind(text string) (k valueKind) {
	text, k.optional = strings.CutSuffix(text, ", optional")
	text, k.nullable = strings.CutSuffix(text, " or null")
	text, k.list = strings.CutPrefix(text, "list of ")
	if m := shapeLink.FindStringSubmatch(text); m != nil {
		k.shape = m[1]
		return k
	}
	k.base = text
	return k
}

// check holds a value against the shape: no key that the page does not name, none
// missing that is not optional, each of the kind that it says.
func (s shapes) check(name string, v any) error {
	keys, ok := s[name]
	if !ok {
		return fmt.Errorf("the page has no shape %q", name)
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no object", name, v)
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		kind, ok := keys[key]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: key %q is not on the page", name, key))
			continue
		}
		if err := s.checkValue(kind, obj[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", name, key, err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if _, ok := obj[key]; !ok && !keys[key].optional {
			errs = append(errs, fmt.Errorf("%s: key %q is on the page and missing", name, key))
		}
	}
	return errors.Join(errs...)
}

func (s shapes) checkValue(k valueKind, v any) error {
	if v == nil && k.nullable {
		return nil
	}
	if !k.list {
		return s.checkOne(k, v)
	}
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%v is no list", v)
	}
	for i, e := range list {
		if err := s.checkOne(k, e); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func (s shapes) checkOne(k valueKind, v any) error {
	if k.shape != "" {
		return s.check(k.shape, v)
	}
	is, ok := valueChecks[k.base]
	if !ok {
		return fmt.Errorf("the page says %q, which is no kind of value", k.base)
	}
	if !is(v) {
		return fmt.Errorf("%v is no %s", v, k.base)
	}
	return nil
}

var valueChecks = map[string]func(any) bool{
	"text":    func(v any) bool { _, ok := v.(string); return ok },
	"boolean": func(v any) bool { _, ok := v.(bool); return ok },
	"number":  func(v any) bool { _, ok := v.(float64); return ok },
	"integer": isInteger,
	"object":  func(v any) bool { _, ok := v.(map[string]any); return ok },
	"counts":  func(v any) bool { return allValues(v, isInteger) },
	"texts":   func(v any) bool { return allValues(v, func(v any) bool { _, ok := v.(string); return ok }) },
	"flags":   func(v any) bool { return allValues(v, func(v any) bool { _, ok := v.(bool); return ok }) },
	"digits": func(v any) bool {
		s, ok := v.(string)
		return ok && s != "" && strings.Trim(s, "0123456789") == ""
	},
	"time": func(v any) bool {
		s, ok := v.(string)
		_, err := time.Parse(time.RFC3339, s)
		return ok && err == nil && strings.HasSuffix(s, "Z")
	},
}

func isInteger(v any) bool { f, ok := v.(float64); return ok && f == math.Trunc(f) }

func allValues(v any, is func(any) bool) bool {
	m, ok := v.(map[string]any)
	for _, e := range m {
		ok = ok && is(e)
	}
	return ok
}

// shape [-stderr] NAME holds the last output, as one JSON document, against
// docs/json-output.md. shape -lines ELEMENT NAME does so with JSON lines: at least
// one element, and the document last.
func scriptShape(ts *testscript.TestScript, neg bool, args []string) {
	all, err := readShapes()
	ts.Check(err)
	var options []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		options, args = append(options, args[0]), args[1:]
	}
	it, _ := scriptDocument(ts, options)
	if !slices.Contains(options, "-lines") {
		ts.Check(all.check(args[0], it))
		return
	}
	lines := it.([]any)
	if neg || len(args) != 2 || len(lines) < 2 {
		ts.Fatalf("usage: shape -lines ELEMENT NAME, for two lines or more")
	}
	for _, line := range lines[:len(lines)-1] {
		ts.Check(all.check(args[0], line))
	}
	last := lines[len(lines)-1].(map[string]any)
	for key, kind := range all[args[1]] {
		if _, ok := last[key]; !ok && kind.list {
			last[key] = []any{} // the lines before
		}
	}
	ts.Check(all.check(args[1], last))
}

// TestShapesPage: the page is sound, every shape on it is printed by a script or
// belongs to one that is, and names and kinds keep to the rules.
func TestShapesPage(t *testing.T) {
	t.Parallel()
	all, err := readShapes()
	if err != nil || len(all) < 30 {
		t.Fatalf("%d shapes, %v", len(all), err)
	}
	used := map[string]bool{"demo": true} // below
	for name, keys := range all {
		if len(keys) == 0 {
			t.Errorf("shape %s has no keys", name)
		}
		for key, k := range keys {
			used[k.shape] = true
			if k.shape == "" && valueChecks[k.base] == nil || k.shape != "" && all[k.shape] == nil {
				t.Errorf("%s.%s is %+v", name, key, k)
			}
			if strings.HasSuffix(key, "_seconds") && k.base != "number" || strings.HasSuffix(key, "_at") && k.base != "time" {
				t.Errorf("%s.%s is a %s", name, key, k.base)
			}
		}
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		for line := range strings.Lines(readFile(t, path)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "shape" {
				used[f[len(f)-1]] = true
			}
		}
	}
	for name := range all {
		if !used[name] {
			t.Errorf("nothing shows that shape %s is what is printed", name)
		}
	}
}

// TestDemoShape: the summary of a demo is as the page says.
func TestDemoShape(t *testing.T) {
	t.Parallel()
	all, err := readShapes()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(demoSummary{HeldJobs: []demoHeld{{}}})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if err := all.check("demo", v); err != nil {
		t.Error(err)
	}
}
