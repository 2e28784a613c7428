package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// sorting is by which column a list is in order, and which way round.
type sorting struct {
	columns []string
	by      int
	back    bool
}

// sorted takes the keys that change the order; it reports whether this was one.
func (o *sorting) sorted(msg tea.KeyMsg) bool {
	switch {
	case keys.Sort.is(msg):
		o.by, o.back = (o.by+1)%len(o.columns), false
	case keys.Reverse.is(msg):
		o.back = !o.back
	default:
		return false
	}
	return true
}

// words say the order.
func (o *sorting) words() string {
	if o.back {
		return o.columns[o.by] + ", backwards"
	}
	return o.columns[o.by]
}

// way turns a comparison round where that was asked for.
func (o *sorting) way(by int) int {
	if o.back {
		return -by
	}
	return by
}

// byTime puts the older first, and what is not known last.
func byTime(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	default:
		return a.Compare(b)
	}
}

// expires is when the oldest copy of a queue is dropped by its broker; zero: never.
func (q *Queue) expires() time.Time {
	if q.Retention == 0 || q.OldestAt.IsZero() {
		return time.Time{}
	}
	return q.OldestAt.Add(q.Retention)
}
