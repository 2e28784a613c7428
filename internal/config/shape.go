package config

import (
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// fieldNames is the key of each field of a struct, by index; empty for a field
// that is no key.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		if n := t.Field(i).Tag.Get("yaml"); n != "-" {
			names[i] = n
		}
	}
	return names
}

func keyNames(t reflect.Type) []string {
	var names []string
	for _, n := range fieldNames(t) {
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

func isScalar(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Rate](), reflect.TypeFor[Secret]():
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return true
	}
	return false
}

// wantedKind is the kind of value that a scalar is written as.
func wantedKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "text"
}

// scalarText is a scalar as written, with its kind in the words of wantedKind.
func scalarText(n ast.Node) (text, kind string) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, "text"
	case *ast.LiteralNode:
		return x.Value.Value, "text"
	case *ast.BoolNode:
		return x.GetToken().Value, "true or false"
	case *ast.IntegerNode:
		return x.GetToken().Value, "a whole number"
	}
	return "", ""
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	}
	if _, kind := scalarText(n); kind != "" {
		return kind
	}
	return "a number"
}

// quoteHint is what to do about a value that YAML took for something else.
func quoteHint(t reflect.Type, got string) string {
	switch {
	case got == "" || wantedKind(t) != "text":
		return ""
	case t == reflect.TypeFor[time.Duration]():
		return ": give a unit, as in 30s or 30d"
	case t == reflect.TypeFor[Rate]():
		return ": give a rate, as in 5/s"
	case t == reflect.TypeFor[Secret]():
		return ""
	}
	return ": put it in quotes"
}

// named is the place in words.
func (p place) named() string {
	if p.path == "" {
		return "the configuration"
	}
	return p.path
}

// isName reports whether s may name a queue, ledger, provider or policy. It can
// be taken neither for a file nor for a queue with its broker in front.
func isName(s string) bool {
	for i, r := range s {
		alnum := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !alnum && (i == 0 || !strings.ContainsRune("._-", r)) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
