package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Reference is the table of every key, by section, as it stands in
// docs/configuration.md.
func Reference() string {
	var b strings.Builder
	section := ""
	types := typesByPath()
	for _, k := range keys() {
		if k.section() != section {
			section = k.section()
			fmt.Fprintf(&b, "\n### %s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n", section)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", docPath(k.path), types[k.path], k.shown(), k.doc)
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func docPath(path string) string { return strings.ReplaceAll(path, "*", "NAME") }

// typesByPath says in a word or two what is written at each path.
func typesByPath() map[string]string {
	m := map[string]string{}
	describeTypes(m, reflect.TypeFor[Config](), "", "")
	return m
}

func describeTypes(m map[string]string, t reflect.Type, tag reflect.StructTag, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	m[path] = written(t, tag)
	switch {
	case isScalar(t):
	case t.Kind() == reflect.Map:
		describeTypes(m, t.Elem(), "", path+".*")
	case t.Kind() == reflect.Struct:
		for i, name := range fieldNames(t) {
			if f := t.Field(i); name != "" {
				describeTypes(m, f.Type, f.Tag, strings.TrimPrefix(path+"."+name, "."))
			}
		}
	}
}

func written(t reflect.Type, tag reflect.StructTag) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Rate]():
		return "rate"
	case reflect.TypeFor[Secret]():
		return "secret"
	}
	words := splitList(tag.Get("enum"))
	switch t.Kind() {
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Int:
		return "whole number"
	case reflect.Map, reflect.Struct:
		return "mapping"
	case reflect.Slice:
		if tag.Get("format") == "one-or-list" {
			return "text or list"
		}
		return "list"
	}
	switch {
	case tag.Get("format") == "path":
		return "path"
	case words != nil:
		return "`" + strings.Join(words, "`, `") + "`"
	}
	return "text"
}
