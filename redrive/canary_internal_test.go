package redrive

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/reconcile"
)

// itemsOf makes items in as many classes and regions, with an order key each where
// groups is not 0.
func itemsOf(n, classes, regions, groups int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{
			Copy: broker.CopyID{Entity: "dlq", ID: fmt.Sprint(i)}, Action: reconcile.Redrive,
			Class: classify.Class(fmt.Sprint("c", i%classes)), Region: fmt.Sprint("r", i/classes%regions),
		}
		if groups > 0 {
			items[i].OrderKey = fmt.Sprint("g", i%groups)
		}
	}
	return items
}

func TestCanaryOf(t *testing.T) {
	t.Parallel()
	settles := []Item{{Action: reconcile.Settle}, {Action: reconcile.Settle}}
	for _, tt := range []struct {
		name    string
		asked   int
		items   []Item
		ordered bool
		want    int
	}{
		{"none", 0, itemsOf(100, 1, 1, 0), false, 0},
		{"as asked", 7, itemsOf(100, 2, 3, 0), false, 7},
		{"one of each", 2, itemsOf(100, 2, 3, 0), false, 6},
		{"no more than there are", 50, itemsOf(9, 1, 1, 0), false, 9},
		{"auto, few", CanaryAuto, itemsOf(9, 1, 1, 0), false, 1},
		{"auto, 5 %", CanaryAuto, itemsOf(101, 1, 1, 0), false, 6},
		{"auto, at most 10", CanaryAuto, itemsOf(5000, 1, 1, 0), false, 10},
		{"auto, one of each", CanaryAuto, itemsOf(5000, 4, 3, 0), false, 12},
		{"nothing to send", 5, settles, false, 0},
		{"a class behind another's head", 1, []Item{{Action: reconcile.Redrive, Class: "a", OrderKey: "g"}, {Action: reconcile.Redrive, Class: "b", OrderKey: "g"}}, true, 1},
	} {
		if got := canaryOf(tt.asked, tt.items, tt.ordered); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestSampleOf(t *testing.T) {
	t.Parallel()
	for _, p := range []Plan{
		{Items: itemsOf(200, 4, 3, 0), Terms: Terms{Canary: 12}}, {Items: itemsOf(200, 4, 3, 0), Terms: Terms{Canary: 30}}, {Items: itemsOf(5, 1, 1, 0), Terms: Terms{Canary: 5}},
	} {
		got := sampled(t, "plan", p, false)
		want, strata := map[stratum]bool{}, map[stratum]bool{}
		for i := range p.Items {
			want[stratumOf(p.Items[i])] = true
		}
		for _, i := range got {
			strata[stratumOf(p.Items[i])] = true
		}
		if len(got) != p.Canary || len(strata) != len(want) || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("canary of %d: %v covers %d of %d", p.Canary, got, len(strata), len(want))
		}
		if again := sampled(t, "plan", p, false); !slices.Equal(got, again) {
			t.Errorf("%v is not %v", again, got)
		}
		if other := sampled(t, "other", p, false); len(p.Items) > 5 && slices.Equal(got, other) {
			t.Errorf("another plan has the same canary %v", got)
		}
	}
}

func sampled(t *testing.T, id PlanID, p Plan, ordered bool) []int {
	t.Helper()
	got, err := sampleOf(StoredPlan{ID: id, Plan: p}.Frozen(), ordered)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// On an ordered queue nothing goes before what stands before it in its group.
func TestSampleOfHeads(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 3, 40} {
		p := Plan{Items: itemsOf(40, 1, 1, groups), Terms: Terms{Canary: 10}}
		got := sampled(t, "plan", p, true)
		if len(got) != 10 {
			t.Errorf("%d groups: %v", groups, got)
		}
		for _, i := range got {
			if before := i - groups; before >= 0 && !slices.Contains(got, before) {
				t.Errorf("%d groups: %d goes before %d, %v", groups, i, before, got)
			}
		}
	}
}
