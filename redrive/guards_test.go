package redrive_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestBeginRefusesRule: a plan whose edit rule cannot be applied never begins; it
// does not begin and skip each of its jobs.
func TestBeginRefusesRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	d, err := w.draft(w.editing(".a = 2", "r"))
	w.must(err)
	rule := *d.Plan.Lifts.Edit
	rule.JQ = ".a |"
	d.Plan.Lifts.Edit = &rule
	d.ID, d.Bytes, err = redrive.Canonical(d.Plan)
	w.must(err)
	w.must(w.planner().Save(w.ctx, d))
	_, err = w.approver("approver").Approve(w.ctx, string(d.ID), 1, "fine")
	w.must(err)
	_, err = w.run(d.ID)
	rs, listErr := w.store.ListRuns(w.ctx, "")
	if !errors.Is(err, redrive.ErrRefused) || listErr != nil || len(rs) != 0 {
		t.Errorf("%v, %d runs %v", err, len(rs), listErr)
	}
}

// TestEditAgainChanged: between plan and run the edited copy's row came to another
// state from which it could be redriven as well. It is not what was approved, so
// not even an intent is recorded.
func TestEditAgainChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	w.fault = failAt("publish", 1)
	_, err := w.run(w.plan(w.editing(".a = 2", "r")))
	w.must(err)
	again := w.plan(w.editing(".a = 2", "r"))
	w.move(ledger.Change{
		Key: ledger.Key{JobKey: "k~r", Consumer: "mailer"}, From: ledger.Queued, FromAttempt: 1, FromRun: "run1", To: ledger.Failed, Attempt: 1,
		Actor: "worker", ErrorClass: "throttled", Effect: ledger.EffectNone, Run: "run1",
	})
	e, err := w.runner("run2").Run(w.ctx, string(again))
	w.must(err)
	if d := cmp.Diff(map[string]int{"changed_ledger": 1}, e.Report.Skipped); d != "" || w.depth("src") != 0 {
		t.Errorf("%s: %+v", d, e.Report)
	}
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run2", Phase: audit.Intent}, func(e audit.Entry) error {
		t.Errorf("an intent is recorded: %+v", e.Record)
		return nil
	}))
}

// TestEditAgainWithoutHash: a row in an original's place that does not tell of which
// payload it is may be of any edit, so that no edit takes it up.
func TestEditAgainWithoutHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	k := ledger.Key{JobKey: "k", Consumer: "mailer"}
	w.move(ledger.Change{
		Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Replaced, Run: "gone", Actor: "operator",
		Replace: &ledger.NewRow{Key: ledger.Key{JobKey: "k~r", Consumer: "mailer"}},
	})
	w.move(ledger.Change{
		Key: ledger.Key{JobKey: "k~r", Consumer: "mailer"}, From: ledger.Queued, FromAttempt: 1, FromRun: "gone", To: ledger.Failed, Attempt: 1,
		Actor: "worker", ErrorClass: "throttled", Effect: ledger.EffectNone,
	})
	if got := w.why(w.editing(".a = 2", "r")); got != "replaced" {
		t.Error(got)
	}
}

// halfSeen is a broker that never shows its queue whole.
type halfSeen struct{ broker.Broker }

func (halfSeen) Browse(context.Context, int, func(broker.Message) error) (broker.Completeness, error) {
	return broker.Completeness{Why: "some messages are hidden"}, nil
}

// TestImportNotSeenWhole: into a queue of which nobody can tell what is in it already
// nothing is imported, and nothing is recorded of it.
func TestImportNotSeenWhole(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	w.im.Broker = halfSeen{w.queue}
	copies := func(_ context.Context, each func(broker.Message) error) error {
		return each(broker.Message{Copy: broker.CopyID{Entity: "dlq", ID: "7"}, MessageID: "m", Body: []byte("b")})
	}
	for name, do := range map[string]func(context.Context, redrive.Copies) (redrive.Imported, error){"import": w.im.Import, "survey": w.im.Survey} {
		if done, err := do(t.Context(), copies); !errors.Is(err, redrive.ErrRefused) || done.Imported != 0 {
			t.Errorf("%s: %+v %v", name, done, err)
		}
	}
	d, err := w.queue.Describe(t.Context())
	if err != nil || d.Depth.Total() != 0 || len(w.log.records) != 0 {
		t.Errorf("%+v %v, %d records", d.Depth, err, len(w.log.records))
	}
}
