package redrive

import (
	"sync"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Results of an item, as closing records carry them.
const (
	endRedriven  = "redriven"
	endSettled   = "settled"
	endDiscarded = "discarded"
	endFailed    = "failed"
	endUnknown   = "unknown"
	endHeld      = "held"
	endSkipped   = "skipped"
)

// tracker knows how each item of the plan stands in this run. It is the only
// source of the report, so the report always adds up.
type tracker struct {
	mu      sync.Mutex
	plan    Plan
	at      map[string]int // CopyID.String to index
	ends    []ItemEnd      // by index; zero: open
	taken   []bool         // in the hands of a batch now
	asking  []bool         // a receive asks for it now
	blocked map[string]bool
}

func newTracker(p Plan, ends map[string]ItemEnd) *tracker {
	t := &tracker{
		plan:    p,
		at:      make(map[string]int, len(p.Items)),
		ends:    make([]ItemEnd, len(p.Items)),
		taken:   make([]bool, len(p.Items)),
		asking:  make([]bool, len(p.Items)),
		blocked: map[string]bool{},
	}
	for i, it := range p.Items {
		t.at[it.Copy.String()] = i
		t.end(i, ends[it.Copy.String()])
	}
	return t
}

// end closes item i, or notes that its outcome is unknown. On an ordered queue
// everything behind an item that did not go out waits for a person.
func (t *tracker) end(i int, e ItemEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends[i], t.taken[i] = e, false
	if key := t.plan.Items[i].OrderKey; key != "" && e.stays() {
		t.blocked[key] = true
	}
}

// stays reports that the copy was left where it is, or may have been.
func (e ItemEnd) stays() bool {
	switch e.Result {
	case "", endRedriven, endSettled, endDiscarded:
		return false
	default:
		return true
	}
}

// reopen makes an item that the store knows as ended open again, because its
// intent is.
func (t *tracker) reopen(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends[i], t.taken[i] = ItemEnd{}, false
}

// open lists up to n items of the set that no batch holds or asks for, in plan
// order, and notes that they are asked for until asked is called.
func (t *tracker) open(set []int, n int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var is []int
	for _, i := range set {
		if len(is) == n {
			break
		}
		if t.ends[i].Result == "" && !t.taken[i] && !t.asking[i] {
			is = append(is, i)
			t.asking[i] = true
		}
	}
	return is
}

// asked ends the asking that open began.
func (t *tracker) asked(is []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range is {
		t.asking[i] = false
	}
}

// left counts the open items of the set, and those of them in a batch's hands.
func (t *tracker) left(set []int) (open, held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range set {
		if t.ends[i].Result == "" {
			open++
			if t.taken[i] || t.asking[i] {
				held++
			}
		}
	}
	return open, held
}

// take claims the open item of this copy for one batch.
func (t *tracker) take(c broker.CopyID, set map[int]bool) (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.at[c.String()]
	if !ok || !set[i] || t.taken[i] || t.ends[i].Result != "" {
		return 0, false
	}
	t.taken[i] = true
	return i, true
}

// isBlocked reports that an earlier item of the same order key did not go out.
func (t *tracker) isBlocked(orderKey string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return orderKey != "" && t.blocked[orderKey]
}

// Report counts the items; what is open or in a batch's hands remains.
func (t *tracker) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Report{Planned: len(t.ends), Skipped: map[string]int{}}
	for _, e := range t.ends {
		r.count(e)
	}
	return r
}

func (r *Report) count(e ItemEnd) {
	switch e.Result {
	case "":
		r.Remaining++
	case endRedriven:
		r.Redriven++
	case endSettled:
		r.Settled++
	case endDiscarded:
		r.Discarded++
	case endFailed:
		r.Failed++
	case endHeld, endSkipped:
		r.Skipped[e.Reason]++
	default:
		r.Unknown++
	}
}

// Adds reports whether the counts add up to what was planned.
func (r Report) Adds() bool {
	n := r.Redriven + r.Settled + r.Discarded + r.Failed + r.Unknown + r.Remaining
	for _, k := range r.Skipped {
		n += k
	}
	return n == r.Planned
}

// isOpen reports that item i is not closed.
func (t *tracker) isOpen(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ends[i].Result == ""
}
