// Package term holds everything that a terminal may be given: cleaned and
// masked text, tables that fit, colour, progress and questions.
//
// Text that came from a message, a broker, a ledger or a provider is never
// printed as it is. It passes Mask, which hides secrets, and then Clean, which
// makes every character visible that could move a cursor, change a colour,
// reach a clipboard, reorder a line or hide a word. Mask comes first, because
// Clean cuts the white space on which some secrets are recognised.
package term

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// ellipsis ends a text that was cut.
const ellipsis = "…"

// widths measures text the same way on every machine, whatever its locale.
var widths = &runewidth.Condition{StrictEmojiNeutral: true}

// Clean makes a text harmless in one cell or on one line. Each character that
// is not plainly visible becomes an escape that is:
//
//	newline, carriage return, tab        \n \r \t
//	other C0 controls, ESC, DEL          \x1b
//	a byte that is not UTF-8             \xff
//	C1 controls                          \u009b
//	bidirectional and zero-width         \u202e \u200b
//	variation selectors, fillers, tags   \ufe0f \u3164 \U000e0041
//	line and paragraph separators        \u2028
//	spaces other than U+0020 and U+3000  \u00a0
//	private and unassigned characters    \ue000
//
// A backslash stays as it is, so that cleaning twice changes nothing. The
// mapping can therefore not be reversed; the JSON forms are for that.
func Clean(s string) string { return clean(s, false) }

// CleanLines is Clean for a pane of several lines: line feeds stay.
func CleanLines(s string) string { return clean(s, true) }

// Text is what a cell shows of a text from outside: masked, then cleaned.
func Text(s string) string { return Clean(Mask(s)) }

func clean(s string, keepLines bool) string {
	dirty := firstHidden(s, keepLines)
	if dirty < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:dirty])
	for i := dirty; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' && keepLines, visible(r):
			b.WriteString(s[i : i+size])
		default:
			b.WriteString(escape(r))
		}
		i += size
	}
	return b.String()
}

// firstHidden is the index of the first thing to escape, or -1.
func firstHidden(s string, keepLines bool) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
		if !visible(r) && (r != '\n' || !keepLines) {
			return i
		}
	}
	return -1
}

// visible says that a terminal draws the character where it stands, and that a
// reader sees it.
func visible(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= 0x20 && r != 0x7f
	case r == '\u3000':
		return true
	case !unicode.IsPrint(r):
		return false
	}
	return !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

func escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// Width is the number of terminal columns that a cleaned text takes.
func Width(s string) int { return widths.StringWidth(s) }

// Cut shortens a cleaned text to at most width columns; a text that was cut
// ends in "…". A width of zero or less gives the empty text.
func Cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if len(s) <= width || Width(s) <= width {
		return s
	}
	return widths.Truncate(s, width, ellipsis)
}
