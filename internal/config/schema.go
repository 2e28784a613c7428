package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Patterns of the texts that the loader parses itself.
const (
	durationPattern = `^([0-9]+d)?([0-9.]+(ns|us|µs|ms|s|m|h))*$`
	ratePattern     = `^[1-9][0-9]*/[smh]$`
	secretPattern   = `^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`
	namePattern     = `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`
)

type object map[string]any

// Schema is the JSON Schema (draft 2020-12) of the configuration, for editors.
// It is made from the same types and the same table of keys that Load uses.
// What only Load can check (names that exist, keys that exclude each other) is
// not in it.
func Schema() ([]byte, error) {
	s := schemaOf(reflect.TypeFor[Config](), "", "", keysByPath())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "redrivectl configuration"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON Schema: %w", err)
	}
	return append(b, '\n'), nil
}

func schemaOf(t reflect.Type, tag reflect.StructTag, path string, ks map[string]key) object {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem(), tag, path, ks)
	}
	s := shapeOf(t, tag, path, ks)
	if k, ok := ks[path]; ok {
		describe(s, t, k)
	}
	return s
}

func shapeOf(t reflect.Type, tag reflect.StructTag, path string, ks map[string]key) object {
	switch {
	case isScalar(t):
		return scalarSchema(t, tag)
	case t.Kind() == reflect.Struct:
		return fieldsSchema(t, path, ks)
	case t.Kind() == reflect.Map:
		return mapSchema(t, path, ks)
	case t.Elem() == reflect.TypeFor[Notification]():
		return object{"type": "array", "maxItems": 0}
	}
	list := object{"type": "array", "items": scalarSchema(t.Elem(), tag), "uniqueItems": true}
	if tag.Get("format") == "one-or-list" {
		return object{"oneOf": []object{scalarSchema(t.Elem(), tag), list}}
	}
	return list
}

// fieldsSchema allows null where nothing is required: a section whose keys are
// all commented out is an empty value.
func fieldsSchema(t reflect.Type, path string, ks map[string]key) object {
	props, required := object{}, []string{}
	for i, name := range fieldNames(t) {
		if name == "" {
			continue
		}
		f := t.Field(i)
		props[name] = schemaOf(f.Type, f.Tag, strings.TrimPrefix(path+"."+name, "."), ks)
		if f.Tag.Get("required") != "" {
			required = append(required, name)
		}
	}
	s := object{"type": []string{"object", "null"}, "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["type"], s["required"] = "object", required
	}
	return s
}

func mapSchema(t reflect.Type, path string, ks map[string]key) object {
	s := object{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), "", path+".*", ks)}
	if t.Elem().Kind() == reflect.Struct {
		s["propertyNames"] = object{"pattern": namePattern}
	}
	return s
}

func scalarSchema(t reflect.Type, tag reflect.StructTag) object {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return object{"type": "string", "minLength": 1, "pattern": durationPattern}
	case reflect.TypeFor[Rate]():
		return object{"type": "string", "pattern": ratePattern}
	case reflect.TypeFor[Secret]():
		return object{"type": "string", "pattern": secretPattern}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer", "minimum": 1}
	}
	if words := splitList(tag.Get("enum")); words != nil {
		return object{"type": "string", "enum": words}
	}
	return object{"type": "string", "minLength": 1}
}

func describe(s object, t reflect.Type, k key) {
	s["description"] = k.doc
	if k.value == "" || !isScalar(t) {
		return
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int:
		s["default"] = json.RawMessage(k.value)
	default:
		s["default"] = k.value
	}
}
