package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func doneRecord(action string) audit.Record {
	return audit.Record{Action: action, Phase: audit.Outcome, Result: audit.ResultDone}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	hold := func(n int, owner string) reconcile.ManualHold {
		j := wholeJob(n, f.clock.now())
		j.JobKey += "\x00\xff" // a key need not be text
		return reconcile.ManualHold{
			HoldID: reconcile.HoldIDOf(j), Queue: queue, MessageID: "m", CopyID: j.Message.Copy.String(),
			Owner: owner, Reason: "look", By: "operator", At: f.clock.now(),
		}
	}
	one, two := hold(1, "team-a"), hold(2, "team-a")
	for _, h := range []reconcile.ManualHold{one, two} {
		if before, err := f.SaveHold(ctx, h, doneRecord("hold")); err != nil || before != "" {
			t.Fatal(before, err)
		}
	}
	two.Owner = "team-b"
	if before, err := f.SaveHold(ctx, two, doneRecord("hold")); err != nil || before != "team-a" {
		t.Error(before, err)
	}
	other := reconcile.HoldIDOf(job.Job{JobKey: "job-1"})
	got, err := f.HoldsOf(ctx, []reconcile.HoldID{one.HoldID, two.HoldID, other})
	want := map[reconcile.HoldID]reconcile.ManualHold{one.HoldID: one, two.HoldID: two}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if err := f.ReleaseHold(ctx, one.HoldID, doneRecord("release")); err != nil {
		t.Error(err)
	}
	if err := f.ReleaseHold(ctx, one.HoldID, doneRecord("release")); !errors.Is(err, redrive.ErrNotFound) {
		t.Error("released twice:", err)
	}
	for entity, want := range map[string][]reconcile.ManualHold{"": {two}, one.Entity: {two}, "elsewhere": nil} {
		hs, err := f.ListHolds(ctx, entity)
		if diff := cmp.Diff(want, hs); diff != "" || err != nil {
			t.Error(entity, err, diff)
		}
	}
	var actions []string
	err = f.FindAudit(ctx, audit.Query{OldestFirst: true}, func(e audit.Entry) error {
		actions = append(actions, e.Record.Action+" "+e.Record.Details["owner"]+" "+e.Record.Details["previous_owner"])
		return nil
	})
	if diff := cmp.Diff([]string{"hold team-a ", "hold team-a ", "hold team-b team-a", "release  "}, actions); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
