package term

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Form is how a payload is shown.
type Form string

// JSON is laid out, text is shown line by line, and what is not UTF-8 is shown
// in hexadecimal.
const (
	FormEmpty Form = "empty"
	FormJSON  Form = "json"
	FormText  Form = "text"
	FormHex   Form = "hex"
)

// Bounds of what is shown.
const (
	// DefaultPayloadMax is the most bytes of output for one payload.
	DefaultPayloadMax = 64 << 10
	// maxPayloadRead is the largest payload that is looked into. A larger one
	// is not shown, because masking only a part of it could miss a secret.
	maxPayloadRead = 4 << 20
	hexLine        = 32 // bytes in one line of hexadecimal
)

// PayloadOptions say how a payload is shown. The zero value masks, and bounds
// the output by DefaultPayloadMax.
type PayloadOptions struct {
	Max    int  // bytes of output; 0 means DefaultPayloadMax
	Reveal bool // leave secrets as they are; whoever sets it writes an audit record
	Form   Form // how it is shown, where that is possible; empty: as suits it
}

// Rendering is a payload made fit for a terminal.
type Rendering struct {
	Form   Form
	Text   string // cleaned; lines end in "\n", the last one without
	Bytes  int    // length of the payload itself
	Cut    bool   // Text is not the whole
	Masked bool   // something was hidden
}

// Payload renders a payload: JSON laid out, other text line by line, and what
// is not UTF-8 in hexadecimal without a text column. The payload is not changed,
// and the rendering is bounded and, unless revealed, masked.
func Payload(b []byte, o PayloadOptions) Rendering {
	r := Rendering{Form: FormEmpty, Bytes: len(b)}
	if len(b) == 0 {
		return r
	}
	if len(b) > maxPayloadRead {
		r.Form, r.Cut = FormText, true
		r.Text = fmt.Sprintf("(%s, too large to be shown)", Bytes(int64(len(b))))
		return r
	}
	r.Form, r.Text, r.Masked = renderWhole(b, o)
	limit := o.Max
	if limit <= 0 {
		limit = DefaultPayloadMax
	}
	r.Text, r.Cut = cutBytes(r.Text, limit)
	return r
}

func renderWhole(b []byte, o PayloadOptions) (form Form, text string, masked bool) {
	reveal := o.Reveal
	if !utf8.Valid(b) || o.Form == FormHex {
		shown := string(b)
		if !reveal {
			shown = Mask(shown)
		}
		return FormHex, hexLines([]byte(shown)), shown != string(b)
	}
	if plain, err := layOutJSON(b, "  ", false); err == nil && o.Form != FormText {
		if reveal {
			return FormJSON, string(plain), false
		}
		if safe, err := layOutJSON(b, "  ", true); err == nil {
			return FormJSON, string(safe), string(safe) != string(plain)
		}
	}
	shown := string(b)
	if !reveal {
		shown = Mask(shown)
	}
	return FormText, CleanLines(strings.ReplaceAll(shown, "\r\n", "\n")), shown != string(b)
}

// hexLines writes bytes in hexadecimal, hexLine of them a line.
func hexLines(b []byte) string {
	var lines []string
	for len(b) > 0 {
		n := min(len(b), hexLine)
		lines = append(lines, hex.EncodeToString(b[:n]))
		b = b[n:]
	}
	return strings.Join(lines, "\n")
}

// cutBytes shortens a text to limit bytes at a character's boundary.
func cutBytes(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], true
}
