package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds on what is parsed. Beyond them a message is opaque: still a job, with
// its bytes and hashes.
const (
	maxParsed  = 16 << 20 // bytes of one body, also after decompression
	maxNesting = 200      // levels of JSON
	maxWraps   = 6        // JSON in strings in JSON, errors in errors
)

var errDuplicate = errors.New("duplicate key")

// object is one level of a JSON object; what lies below stays raw, so that a
// payload keeps its bytes. Of a duplicate key the last value is kept.
type object map[string]json.RawMessage

// parseObject reads one level. The error is errDuplicate (the object is still
// returned), a syntax error, or that the text is no object, too large or too
// deep. It checks the text once and then cuts it, which takes a third of the
// time that a decoder of tokens takes.
func parseObject(raw []byte) (object, error) {
	if err := checkNesting(raw); err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, syntaxError(raw)
	}
	rest := skipSpace(raw)
	if rest[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	o, dup := object{}, error(nil)
	rest = skipSpace(rest[1:])
	for rest[0] != '}' {
		n := valueLen(rest)
		name := asText(json.RawMessage(rest[:n]))
		rest = skipSpace(skipSpace(rest[n:])[1:]) // the colon
		n = valueLen(rest)
		if _, seen := o[name]; seen {
			dup = fmt.Errorf("%w %q", errDuplicate, name)
		}
		o[name] = json.RawMessage(rest[:n:n])
		if rest = skipSpace(rest[n:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return o, dup
}

func skipSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// valueLen is the length of the value that valid JSON begins with.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringLen(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}

// stringLen is the length of the string, quotes included, that valid JSON
// begins with.
func stringLen(b []byte) int {
	if n := bytes.IndexByte(b[1:], '"'); n >= 0 && bytes.IndexByte(b[1:n+1], '\\') < 0 {
		return n + 2
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// checkNesting refuses what is too large or too deep, before any parser
// recurses into it.
func checkNesting(raw []byte) error {
	if len(raw) > maxParsed {
		return fmt.Errorf("larger than %d bytes", maxParsed)
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += stringLen(raw[i:]) - 1
		case '{', '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("nested deeper than %d levels", maxNesting)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// obj is the object under a key, or nil.
func (o object) obj(key string) object { return asObject(o[key]) }

func asObject(raw json.RawMessage) object {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	inner, err := parseObject(raw)
	if err != nil && !errors.Is(err, errDuplicate) {
		return nil
	}
	return inner
}

// text is the value under a key as text: a string's content, a number or a
// boolean as written; empty for all else.
func (o object) text(key string) string { return asText(o[key]) }

func asText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
			return string(inner)
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case '{', '[', 'n':
		return ""
	}
	return string(raw)
}

func (o object) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			return false
		}
	}
	return true
}

// isString reports whether the value under a key is a JSON string.
func (o object) isString(key string) bool { return len(o[key]) > 0 && o[key][0] == '"' }

// content is the payload that a value stands for: the content of a string, the
// raw bytes of all else.
func content(raw json.RawMessage) []byte {
	if len(raw) > 0 && raw[0] == '"' {
		return []byte(asText(raw))
	}
	return raw
}

// plain makes a field name comparable: lower case, without marks and without a
// leading "x-", so that error_code, errorCode and X-Error-Code are one.
func plain(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "x-"), "x_")
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, name)
}

// looksLikeJSON reports whether a body means to be a JSON object or array.
func looksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && (b[0] == '{' || b[0] == '[') && utf8.Valid(b)
}
