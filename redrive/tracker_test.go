package redrive

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// The counts that are kept are the ones that counting gives, whatever happens to
// the items in whatever order.
func TestTrackerCounts(t *testing.T) {
	t.Parallel()
	const n = 40
	var p Plan
	for i := range n {
		p.Items = append(p.Items, Item{Copy: broker.CopyID{Entity: "q", ID: string(rune('A' + i))}})
	}
	results := []ItemEnd{{Result: endRedriven}, {Result: endSettled}, {Result: endDiscarded}, {Result: endFailed, Reason: "x"}, {Result: endUnknown}, {Result: endSkipped, Reason: "a"}, {Result: endHeld, Reason: "b"}}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := newTracker(inMemory(p.Items), map[string]ItemEnd{p.Items[3].Copy.String(): results[0]})
		for range 300 {
			i := r.IntN(n)
			switch r.IntN(5) {
			case 0:
				tr.asked(tr.open(nil, 1+r.IntN(5)))
			case 1:
				tr.open(nil, 1)
			case 2:
				tr.take(p.Items[i].Copy, nil)
			case 3:
				tr.end(i, results[r.IntN(len(results))])
			default:
				tr.reopen(i)
			}
		}
		want := Report{Planned: n, Skipped: map[string]int{}}
		held := 0
		first := -1
		for i, k := range tr.ends {
			e := tr.kinds[k]
			want.count(e, 1)
			held += tr.isBusy(i)
			if first < 0 && e.Result == "" && !tr.taken[i] && !tr.asking[i] {
				first = i
			}
		}
		if d := cmp.Diff(want, tr.report()); d != "" || !want.Adds() {
			t.Fatalf("seed %d: counted (-) and kept (+):\n%s", seed, d)
		}
		if open, busy := tr.left(nil); open != want.Remaining || busy != held {
			t.Fatalf("seed %d: left %d, %d; want %d, %d", seed, open, busy, want.Remaining, held)
		}
		if got := tr.open(nil, 1); first >= 0 && (len(got) != 1 || got[0] != first) || first < 0 && len(got) > 0 {
			t.Fatalf("seed %d: the next item is %v, want %d", seed, got, first)
		}
	}
}
