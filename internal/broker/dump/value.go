package dump

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// fields are the members of one JSON object, raw.
type fields map[string]json.RawMessage

// fieldsOf reads one level of an object. A key given twice is an error: which
// of the two the tool meant is not for a reader to say.
func fieldsOf(raw json.RawMessage) (fields, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errShape
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	o := fields{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := o[name]; twice {
			return nil, fmt.Errorf("key %q is given twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		o[name] = value
	}
	return o, nil
}

// has reports whether all the keys are there, null or not.
func (o fields) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			return false
		}
	}
	return true
}

// any is the first of the keys that is there and not null; nil if none is.
func (o fields) any(keys ...string) json.RawMessage {
	for _, k := range keys {
		if raw, ok := o[k]; ok && !isNull(raw) {
			return raw
		}
	}
	return nil
}

// object is the object under the first of the keys that has one; nil if none
// has. A key in it that is given twice is an error.
func (o fields) object(keys ...string) (fields, error) {
	raw := o.any(keys...)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, nil
	}
	return fieldsOf(raw)
}

// folded is the object with its keys in lower case and without underscores, for
// tools that write messageId, MessageId or message_id. A key with an exact twin
// keeps the first in the order of names.
func (o fields) folded() fields {
	out := make(fields, len(o))
	for _, k := range o.names() {
		name := strings.ToLower(strings.ReplaceAll(k, "_", ""))
		if _, taken := out[name]; !taken {
			out[name] = o[k]
		}
	}
	return out
}

func (o fields) names() []string {
	names := make([]string, 0, len(o))
	for k := range o {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// text is the value under the first key that has one, as text: the content of a
// string, all else as it is written. Numbers keep every digit.
func (o fields) text(keys ...string) (string, error) {
	b, err := textBytes(o.any(keys...))
	return string(b), err
}

// textBytes is what a value stands for as text: a string's content, the bytes
// of all else, nothing for null.
func textBytes(raw json.RawMessage) ([]byte, error) {
	switch {
	case isNull(raw):
		return nil, nil
	case raw[0] == '"':
		return unquote(raw)
	}
	return raw, nil
}

// unquote is the content of a JSON string, byte for byte: what is no UTF-8 in it
// stays as it is, since some tools print binary so. An escaped half of a
// surrogate pair stands for no bytes at all, and is an error.
func unquote(raw json.RawMessage) ([]byte, error) {
	s := raw[1 : len(raw)-1]
	if bytes.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if s[i] != 'u' {
			out = append(out, escapes[s[i]])
			continue
		}
		r, n := escaped(s[i+1:])
		if r < 0 {
			return nil, errors.New("a text has half a character in it, so its bytes are not certain")
		}
		out, i = utf8.AppendRune(out, r), i+n
	}
	return out, nil
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped is the character whose four hexadecimal digits s begins with, joined
// with a second half where it is the first, and how many bytes of s it takes;
// negative for a half that is alone.
func escaped(s []byte) (rune, int) {
	r := hex4(s)
	if !utf16.IsSurrogate(r) {
		return r, 4
	}
	if len(s) < 10 || s[4] != '\\' || s[5] != 'u' {
		return -1, 4
	}
	if r = utf16.DecodeRune(r, hex4(s[6:])); r == utf8.RuneError {
		return -1, 4
	}
	return r, 10
}

func hex4(s []byte) rune {
	n, err := strconv.ParseUint(string(s[:4]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

// decoded is what a base64 text under the first of the keys stands for.
func (o fields) decoded(keys ...string) ([]byte, error) {
	s, err := o.text(keys...)
	if err != nil || s == "" {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("field %q: %w", keys[0], err)
	}
	return b, nil
}

// count is a number under the first of the keys, 0 where there is none.
func (o fields) count(keys ...string) (int, error) {
	s, err := o.text(keys...)
	if err != nil || s == "" {
		return 0, err
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("field %q: %q is no count", keys[0], clip(s))
	}
	return n, nil
}

// clip bounds a text that an error quotes.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 64)], "") }

// typed is a value as an attribute of the type that JSON gives it.
func typed(name string, raw json.RawMessage) (broker.Attribute, error) {
	value, err := textBytes(raw)
	if err != nil {
		return broker.Attribute{}, fmt.Errorf("attribute %q: %w", name, err)
	}
	return broker.Attribute{Name: name, Type: typeOf(raw), Value: value}, nil
}

func typeOf(raw json.RawMessage) string {
	if isNull(raw) {
		return "Null"
	}
	switch raw[0] {
	case '"':
		return "String"
	case '{', '[':
		return "JSON"
	case 't', 'f':
		return "Boolean"
	}
	return "Number"
}

// attributes are the members of an object, sorted by name, less those that skip
// names.
func (o fields) attributes(skip func(string) bool) ([]broker.Attribute, error) {
	var as []broker.Attribute
	for _, name := range o.names() {
		if skip != nil && skip(name) {
			continue
		}
		a, err := typed(name, o[name])
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	return as, nil
}

// mark adds a system attribute, unless it has no value.
func mark(m *broker.Message, name, value string) {
	if value != "" {
		m.System = append(m.System, broker.Attribute{Name: name, Type: "String", Value: []byte(value)})
	}
}

// timeLayouts are the forms in which the tools print times. One without a zone
// is UTC.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999-07", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999"}

// timeOf reads a time: one of the layouts, or Unix time in seconds,
// milliseconds, microseconds or nanoseconds by its size. What it cannot read is
// the zero time: a message is not unreadable because its time is.
func timeOf(s string) time.Time {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	switch {
	case err != nil || n < 1e8:
		return time.Time{}
	case n < 1e11:
		return time.Unix(n, nanosOf(fraction)).UTC()
	case n < 1e14:
		return time.UnixMilli(n).UTC()
	case n < 1e17:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(0, n).UTC()
}

// nanosOf reads the digits after the point of a number of seconds.
func nanosOf(fraction string) int64 {
	n, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// stamp is a time as a system attribute's value, empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
