package store_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestReplacedOf: an edit counts from its intent on, and no more once it was
// closed without a publish.
func TestReplacedOf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	keyless := item(2)
	keyless.JobKey = ""
	id := f.plan(t, "1", item(1), keyless, item(3), item(4), item(5), item(6))
	log := f.Fenced(f.begin(t, id, "aa01"))
	add := func(n int, phase audit.Phase, name, result, key, by string) {
		r := step(n, phase, name, result)
		r.JobKey, r.Plan, r.Details = key, string(id), map[string]string{}
		if by != "" {
			r.Details[audit.DetailReplacedBy] = by
		}
		if _, err := log.Append(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	ids := []redrive.Identity{
		{JobKey: "job-1"},
		{Origin: "src", PayloadSHA256: "p2"},
		{JobKey: "job-3"},
		{JobKey: "job-4"},
		{JobKey: "job-5"},
		{JobKey: "job-6"},
		{Origin: "elsewhere", PayloadSHA256: "p2"},
		{},
	}
	check := func(except redrive.RunID, want ...string) {
		t.Helper()
		got, err := f.ReplacedOf(ctx, ids, except)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Error(err, d)
		}
	}
	check("", "", "", "", "", "", "", "", "")
	add(1, audit.Intent, "", "", "job-1", "job-1~r")
	check("", "job-1~r", "", "", "", "", "", "", "")
	add(1, audit.Outcome, audit.StepPublish, "done", "job-1", "job-1~r")
	add(1, audit.Outcome, audit.StepAck, "done", "job-1", "job-1~r")
	add(2, audit.Intent, "", "", "", "sha256:x")
	add(2, audit.Outcome, audit.StepPublish, "unknown", "", "sha256:x")
	add(2, audit.Outcome, audit.StepClose, "held", "", "sha256:x")
	add(3, audit.Intent, "", "", "job-3", "job-3~r")
	add(3, audit.Outcome, audit.StepPublish, "refused", "job-3", "job-3~r")
	add(3, audit.Outcome, audit.StepClose, "failed", "job-3", "job-3~r")
	add(4, audit.Intent, "", "", "job-4", "")
	add(4, audit.Outcome, audit.StepPublish, "done", "job-4", "")
	add(5, audit.Intent, "", "", "job-5", "job-5~r")
	add(5, audit.Outcome, audit.StepAck, "unknown", "job-5", "job-5~r")
	check("", "job-1~r", "sha256:x", "", "", "job-5~r", "", "", "")
	check("aa01", "", "", "", "", "", "", "", "")

	ps, err := f.PublishedOf(ctx, []redrive.Identity{{JobKey: "job-1~r"}, {JobKey: "job-3~r"}, {Origin: "any", PayloadSHA256: "x"}}, "")
	if err != nil || ps[0].Count != 1 || ps[1].Count != 0 || ps[2].Count != 1 {
		t.Errorf("published edited copies: %+v %v", ps, err)
	}
	for key, want := range map[string]int{"job-1": 3, "job-1~r": 3, "job-3~r": 3, "job-2": 0} {
		for _, q := range []audit.Query{{JobKey: key, Action: "redrive"}, {JobKeyPrefix: key, Action: "redrive"}} {
			n := 0
			err := f.FindAudit(ctx, q, func(e audit.Entry) error {
				n++
				if !q.Match(e.Record) {
					t.Errorf("%+v does not match %+v", q, e.Record)
				}
				return nil
			})
			if n != want || err != nil {
				t.Errorf("%+v finds %d records, want %d: %v", q, n, want, err)
			}
		}
	}
}
