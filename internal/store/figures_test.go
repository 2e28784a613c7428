package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestFigures: what is counted is of one queue, live plans alone, and tells a run
// that lives from one that was killed.
func TestFigures(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	if got, err := f.Figures(ctx, queue); err != nil || len(got.Plans)+len(got.Runs)+len(got.Verdicts)+len(got.Answers) != 0 {
		t.Fatal(got, err)
	}
	f.plan(t, "expires", item(1))
	f.clock.add(3 * time.Hour)
	f.plan(t, "waits", item(2))
	finished := f.begin(t, f.plan(t, "finished", item(3), item(4)), "aa01")
	if err := f.end(finished, redrive.RunFinished); err != nil {
		t.Fatal(err)
	}
	f.begin(t, f.plan(t, "killed", item(5), item(6), item(7)), "bb01")
	f.clock.add(ttl)
	f.begin(t, f.plan(t, "lives", item(8)), "cc01")
	looks := []provider.Evidence{{HTTPStatus: 200}, {HTTPStatus: 503}, {}}
	for _, v := range []reconcile.Found{
		{Queue: queue, JobKey: "a", Verdict: reconcile.Accepted, Evidence: reconcile.Evidence{Looks: looks}},
		{Queue: queue, JobKey: "a", Verdict: reconcile.Accepted, Evidence: reconcile.Evidence{Looks: looks[:1]}},
		{Queue: queue, JobKey: "b", Verdict: reconcile.TooOld},
		{Queue: "other", JobKey: "b", Verdict: reconcile.Rejected, Evidence: reconcile.Evidence{Looks: looks}},
	} {
		if err := f.SaveVerdicts(ctx, v); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.Figures(ctx, queue)
	want := store.Figures{
		Plans: map[redrive.PlanState]int{redrive.PlanWaiting: 1, redrive.PlanRunning: 2},
		Runs: []store.RunFigures{
			{State: redrive.RunFinished, Left: true, Items: 2},
			{State: redrive.RunRunning, Items: 3},
			{State: redrive.RunRunning, Lives: true, Items: 1},
		},
		Verdicts: map[reconcile.Verdict]int{reconcile.Accepted: 2, reconcile.TooOld: 1},
		Answers:  map[int]int{0: 1, 2: 2, 5: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
