package term

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// CleanJSON escapes, in JSON that encoding/json wrote, every character that
// Clean would make visible: C1, bidirectional and zero-width characters and DEL
// become \uXXXX. The JSON means the same before and after, because a valid
// encoding has such characters in strings alone.
func CleanJSON(encoded []byte) []byte {
	out := make([]byte, 0, len(encoded))
	for i := 0; i < len(encoded); {
		c := encoded[i]
		if c < utf8.RuneSelf && c != 0x7f {
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(encoded[i:])
		if visible(r) {
			out = append(out, encoded[i:i+size]...)
		} else {
			out = appendJSONEscape(out, r)
		}
		i += size
	}
	return out
}

func appendJSONEscape(out []byte, r rune) []byte {
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// CleanCSV makes a text harmless in a CSV cell: it is cleaned like a table's
// cell, and one that a spreadsheet would run as a formula (it begins with
// = + - @, or their full-width forms) gets an apostrophe in front. A plain
// number keeps its sign. Quoting is the CSV writer's.
func CleanCSV(s string) string {
	s = Clean(s)
	if s == "" || !strings.ContainsRune("=+-@＝＋－＠", firstRune(s)) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
