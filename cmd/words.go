package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/term"
)

// How single values are worded: what a JSON document has null for, a table has a
// dash for; times are RFC 3339 in UTC, and durations are seconds in JSON.

// nothing is what tables show where there is no value.
const nothing = "-"

// text is null for what is not known.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moment is null for the zero time, and UTC otherwise. A time that RFC 3339 cannot
// write tells nothing, and must not hide the others.
func moment(t time.Time) *time.Time {
	u := t.UTC()
	if u.IsZero() || u.Year() < 0 || u.Year() > 9999 {
		return nil
	}
	return &u
}

// or gives the text, or a dash where there is none.
func or(s *string) string {
	if s == nil {
		return nothing
	}
	return *s
}

// firstText is the first text that says something, or the dash.
func firstText(vs ...string) string {
	for _, v := range vs {
		if v != "" && v != nothing {
			return v
		}
	}
	return nothing
}

// counts words a map of counts, the largest first.
func counts(m map[string]int) string {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(x, y string) int { return m[y] - m[x] })
	var parts []string
	for _, k := range keys {
		if m[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// short is a long ID as a table shows it; JSON has it whole.
func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return firstText(id)
}

// utc is a moment as statements and outputs have it.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func timeText(t *time.Time) string {
	if t == nil {
		return nothing
	}
	return utc(*t)
}

// secondsOf is null for a duration of 0, which means none.
func secondsOf(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	return new(d.Seconds())
}

// span is a number of seconds as people read it; a negative age, as clocks that
// disagree give it, is none.
func span(seconds float64) string {
	return term.Duration(time.Duration(min(max(seconds, 0)*float64(time.Second), 1<<62)))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// age is for how many seconds something has stood; never negative, whatever the
// clocks say.
func (a *app) age(since time.Time) float64 { return max(a.now().Sub(since), 0).Seconds() }

func number(n *int) string {
	if n == nil {
		return nothing
	}
	return strconv.Itoa(*n)
}

// countedHow is how a broker counts, as all outputs say it.
func countedHow(d broker.Depth) string {
	if d.Exact {
		return "exact"
	}
	return "approximate"
}

// clip shortens a text to so many characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if rs := []rune(s); len(rs) > limit {
		return string(rs[:limit]) + "…"
	}
	return s
}
