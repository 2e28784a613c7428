package redrive

import (
	"iter"
	"maps"
	"slices"
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
// source of the report, so the report always adds up. A set of items is a list of
// indexes in plan order; nil is all of them, whose counts are kept as they
// change, since they are asked for with every batch.
type tracker struct {
	mu      sync.Mutex
	items   *Items
	ends    []int32   // by index: which of kinds; 0: open
	kinds   []ItemEnd // how items ended, each way once
	kindOf  map[ItemEnd]int32
	taken   []bool        // in the hands of a batch now
	asking  []bool        // a receive asks for it now
	blocked map[int32]int // ordering group to its first item that did not go out
	counts  Report
	busy    int // open items that are taken or asked for
	lowest  int // no item before it is open
}

func newTracker(items *Items, ends map[string]ItemEnd) *tracker {
	n := items.Len()
	t := &tracker{
		items: items, ends: make([]int32, n), kinds: []ItemEnd{{}}, kindOf: map[ItemEnd]int32{{}: 0},
		taken: make([]bool, n), asking: make([]bool, n), blocked: map[int32]int{},
		counts: Report{Planned: n, Remaining: n, Skipped: map[string]int{}},
	}
	for name, e := range ends {
		if i, ok := items.find(name); ok {
			t.end(i, e)
		}
	}
	return t
}

// kind numbers a way to end. The caller holds the lock.
func (t *tracker) kind(e ItemEnd) int32 {
	k, ok := t.kindOf[e]
	if !ok {
		k = int32(len(t.kinds))
		t.kinds, t.kindOf[e] = append(t.kinds, e), k
	}
	return k
}

// set changes how item i stands, and the counts with it. The caller holds the
// lock.
func (t *tracker) set(i int, e ItemEnd, taken, asking bool) {
	t.busy -= t.isBusy(i)
	t.counts.count(t.kinds[t.ends[i]], -1)
	t.ends[i], t.taken[i], t.asking[i] = t.kind(e), taken, asking
	t.counts.count(e, 1)
	t.busy += t.isBusy(i)
	if e.Result == "" {
		t.lowest = min(t.lowest, i)
	}
}

// isBusy is 1 for an open item that a batch holds or asks for.
func (t *tracker) isBusy(i int) int {
	if t.ends[i] == 0 && (t.taken[i] || t.asking[i]) {
		return 1
	}
	return 0
}

// end closes item i, or notes that its outcome is unknown. On an ordered queue
// everything behind an item that did not go out waits for a person.
func (t *tracker) end(i int, e ItemEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(i, e, false, t.asking[i])
	if g := t.items.group(i); g != 0 && e.stays() {
		if first, ok := t.blocked[g]; !ok || i < first {
			t.blocked[g] = i
		}
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
	t.set(i, ItemEnd{}, false, t.asking[i])
}

// open lists up to n items of the set that no batch holds or asks for, in plan
// order, and notes that they are asked for until asked is called.
func (t *tracker) open(set []int, n int) []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var is []int
	for i := range t.members(set) {
		if len(is) == n {
			break
		}
		if t.ends[i] == 0 && !t.taken[i] && !t.asking[i] {
			is = append(is, i)
			t.set(i, ItemEnd{}, false, true)
		}
	}
	return is
}

// members yields the items of a set; of all, those from the lowest open one on.
func (t *tracker) members(set []int) iter.Seq[int] {
	if set != nil {
		return slices.Values(set)
	}
	for t.lowest < len(t.ends) && t.ends[t.lowest] != 0 {
		t.lowest++
	}
	return func(yield func(int) bool) {
		for i := t.lowest; i < len(t.ends) && yield(i); i++ {
		}
	}
}

// asked ends the asking that open began.
func (t *tracker) asked(is []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range is {
		t.set(i, t.kinds[t.ends[i]], t.taken[i], false)
	}
}

// left counts the open items of the set, and those of them in a batch's hands.
func (t *tracker) left(set []int) (open, held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if set == nil {
		return t.counts.Remaining, t.busy
	}
	for _, i := range set {
		if t.ends[i] == 0 {
			open++
			held += t.isBusy(i)
		}
	}
	return open, held
}

// take claims the open item of this copy for one batch, if it is in the set.
func (t *tracker) take(c broker.CopyID, set []int) (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.items.of(c)
	if !ok || t.taken[i] || t.ends[i] != 0 || set != nil && !slices.Contains(set, i) {
		return 0, false
	}
	t.set(i, ItemEnd{}, true, t.asking[i])
	return i, true
}

// isBlocked reports that an earlier item of item i's order key did not go out.
func (t *tracker) isBlocked(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.blocked[t.items.group(i)]
	return ok && first < i
}

// report counts the items; what is open or in a batch's hands remains.
func (t *tracker) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.counts
	r.Skipped = maps.Clone(r.Skipped)
	return r
}

// count adds n items that ended so.
func (r *Report) count(e ItemEnd, n int) {
	switch e.Result {
	case "":
		r.Remaining += n
	case endRedriven:
		r.Redriven += n
	case endSettled:
		r.Settled += n
	case endDiscarded:
		r.Discarded += n
	case endFailed:
		r.Failed += n
	case endHeld, endSkipped:
		if r.Skipped[e.Reason] += n; r.Skipped[e.Reason] == 0 {
			delete(r.Skipped, e.Reason)
		}
	default:
		r.Unknown += n
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
	return t.ends[i] == 0
}
