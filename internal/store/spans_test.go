package store_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// What is told of a copy far apart in the log is found together, by any of its
// names.
func TestFindsAcrossTheLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	plan := f.plan(t, "1", item(1), item(2))
	log := f.Fenced(f.begin(t, plan, "aa01"))
	var want []int64
	for _, s := range []struct {
		phase        audit.Phase
		step, result string
	}{{audit.Intent, "", ""}, {audit.Outcome, "publish", "unknown"}, {audit.Outcome, "close", "failed"}} {
		one, other := step(1, s.phase, s.step, s.result), step(2, s.phase, s.step, s.result)
		one.MessageID, one.Customer, one.Plan = "m-one", "c-one", string(plan)
		h, err := log.Append(ctx, other, one)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, h.Seq)
		appendN(t, f.Store, 5000)
	}
	for name, q := range map[string]audit.Query{
		"job": {JobKey: "job-1", Run: "aa01"}, "prefix": {JobKeyPrefix: "job-1", Run: "aa01"}, "message": {MessageID: "m-one"},
		"copy": {CopyID: "a/dlq/c1"}, "customer": {Customer: "c-one"},
	} {
		q.OldestFirst = true
		var got []int64
		if err := f.FindAudit(ctx, q, func(e audit.Entry) error { got = append(got, e.Record.Seq); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by %s: %s", name, diff)
		}
	}
	ps, err := f.PublishedOf(ctx, []redrive.Identity{{JobKey: "job-1"}}, "")
	if err != nil || ps[0].Count != 1 || ps[0].LastRun != "aa01" {
		t.Errorf("%+v, %v", ps, err)
	}
	for _, text := range []string{"m-on", "a/dlq/c1"} {
		if names, err := f.Names(ctx, text); err != nil || len(names) != 1 || names[0].CopyID != "a/dlq/c1" {
			t.Errorf("%s: %+v, %v", text, names, err)
		}
	}
	f.verified(t)
}
