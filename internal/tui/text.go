package tui

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/redrivectl/redrivectl/internal/term"
)

// longest is how many bytes of one text the screen takes in: more than any screen
// shows, and little enough that a line of a megabyte costs nothing.
const longest = 4 << 10

// nothing stands where there is no value.
const nothing = "-"

// oneMoment stands where the first answer has not come yet.
const oneMoment = "one moment"

// tidy makes a text from outside harmless and of bearable length. Every text that
// a desk gives passes it once, when the screen takes it in.
func tidy(s string) string {
	if len(s) > longest {
		n := longest
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return term.Clean(s)
}

// why words an error for the screen.
func why(err error) string {
	if errors.Is(err, context.Canceled) {
		return "given up before it was done"
	}
	return tidy(term.Mask(err.Error()))
}

// width is the number of columns that a cleaned text takes, by whichever of two
// measures is wider: terminals disagree about some characters, and no row may be
// wider than it was meant.
func width(s string) int {
	if plain(s) {
		return len(s)
	}
	return max(term.Width(s), ansi.StringWidth(s))
}

// plain reports that every byte is one column.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// cut shortens a cleaned text to at most so many columns.
func cut(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if width(s) <= limit {
		return s
	}
	s = cutPlain(s, limit+1) // the rest is of no matter
	for most := limit; most > 0; most-- {
		if short := term.Cut(s, most); width(short) <= limit {
			return short
		}
	}
	return ""
}

// cutMiddle shortens a name in its middle: what tells it from its like is often its end.
func cutMiddle(s string, limit int) string {
	if width(s) <= limit || limit < 8 {
		return cut(s, limit)
	}
	end := tail(s, limit/2)
	return cutPlain(s, limit-1-width(end)) + "…" + end
}

// pad makes a cleaned text exactly so wide.
func pad(s string, limit int) string {
	s = cut(s, limit)
	return s + strings.Repeat(" ", max(limit-width(s), 0))
}

// padLeft is pad for numbers.
func padLeft(s string, limit int) string {
	s = cut(s, limit)
	return strings.Repeat(" ", max(limit-width(s), 0)) + s
}

// wrapped breaks a cleaned text into lines of at most so many columns: at spaces
// where that leaves no line nearly empty, else anywhere.
func wrapped(s string, limit int) []string {
	var lines []string
	for rest := s; ; {
		head := cutPlain(rest, limit)
		if len(head) == len(rest) || head == "" {
			return append(lines, cut(rest, limit))
		}
		if i := strings.LastIndexByte(head, ' '); i > len(head)/3 && rest[len(head)] != ' ' {
			head = head[:i]
		}
		lines = append(lines, head)
		rest = strings.TrimPrefix(rest[len(head):], " ")
	}
}

// wrappedLines is wrapped with every line as wide as the screen.
func wrappedLines(s string, limit int) []string {
	lines := wrapped(s, limit)
	for i := range lines {
		lines[i] = pad(lines[i], limit)
	}
	return lines
}

// fewLines is wrappedLines of which the last says that there is more.
func fewLines(s string, limit, most int) []string {
	lines := wrapped(cutPlain(s, limit*(most+1)), limit)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] = cutPlain(lines[most-1], limit-1) + "…"
	}
	for i := range lines {
		lines[i] = pad(lines[i], limit)
	}
	return lines
}

// cutFront shortens a path at its front: its end is where one is.
func cutFront(s string, limit int) string {
	if width(s) <= limit {
		return s
	}
	return "…" + tail(s, limit-1)
}

// tail is the longest end of a cleaned text that takes at most so many columns.
func tail(s string, limit int) string {
	columns := 0
	for i := len(s); i > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if columns += width(string(r)); columns > limit {
			return s[i:]
		}
		i -= size
	}
	return s
}

// cutPlain is the longest beginning of a cleaned text that takes at most so many
// columns.
func cutPlain(s string, limit int) string {
	if plain(s[:min(len(s), limit)]) && len(s) <= limit {
		return s
	}
	columns := 0
	for i, r := range s {
		columns += width(string(r))
		if columns > limit {
			return s[:i]
		}
	}
	return s
}

// age says for how long something has stood; a dash where that is not known.
func age(now, at time.Time) string {
	if at.IsZero() {
		return nothing
	}
	return term.Duration(max(now.Sub(at), 0).Truncate(time.Second))
}

// left says how much time there is until a moment.
func left(now, at time.Time) string {
	switch {
	case at.IsZero():
		return nothing
	case !at.After(now):
		return "expired"
	default:
		return term.Duration(at.Sub(now).Truncate(time.Second))
	}
}

// or is the text, or a dash where there is none.
func or(s string) string {
	if s == "" {
		return nothing
	}
	return s
}

// plural is a number with its word.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return term.Count(int64(n)) + " " + one + "s"
}
