package redrive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// hold puts the job on manual hold as another person would.
func (w *world) hold(key string) {
	w.t.Helper()
	for _, j := range w.jobs() {
		if j.JobKey != key {
			continue
		}
		h := reconcile.ManualHold{HoldID: reconcile.HoldIDOf(j), Queue: "dlq", JobKey: key, Owner: "team", Reason: "look", By: "operator", At: w.clock()}
		_, err := w.store.SaveHold(w.ctx, h, audit.Record{Action: "hold", Phase: audit.Outcome, Result: audit.ResultDone, JobKey: key})
		w.must(err)
		return
	}
	w.t.Fatalf("no copy of %s", key)
}

// TestHoldBetweenApprovalAndRun: what a person holds after the approval is
// skipped, and its copy and its row stay as they are.
func TestHoldBetweenApprovalAndRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan()
	w.hold("k1")
	e, err := w.run(id)
	w.must(err)
	want := redrive.Report{Planned: 2, Redriven: 1, Skipped: map[string]int{"manual_hold": 1}}
	if diff := cmp.Diff(want, e.Report); diff != "" || e.State != redrive.RunFinished {
		t.Error(e.State, diff)
	}
	w.work()
	if w.sends["k1"] != 0 || w.sends["k2"] != 1 || w.depth("dlq") != 1 || w.state("k1") != "failed 1" {
		t.Errorf("sends %v, %d dead, row %s", w.sends, w.depth("dlq"), w.state("k1"))
	}
}

// TestHoldAfterCrash: wherever a run stopped, resume publishes nothing of a job
// that was held since. Only where the publish is on record the copy goes.
func TestHoldAfterCrash(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"ledger", "publish", "log:publish"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			dead := false
			w.fault = func(c string) error {
				dead = dead || c == call
				switch {
				case !dead:
					return nil
				case c == "publish" || c == "ledger":
					return errLost
				default:
					return errFault
				}
			}
			if _, err := w.run(id); err == nil {
				t.Fatal("the run did not stop")
			}
			before := w.depth("src")
			w.reset()
			w.pass(65 * time.Minute)
			w.hold("k1")
			e, err := w.resume()
			w.must(err)
			want := redrive.Report{Planned: 1, Skipped: map[string]int{"manual_hold": 1}}
			if diff := cmp.Diff(want, e.Report); diff != "" {
				t.Error(diff)
			}
			if w.depth("src") != before || w.depth("dlq") != 1 {
				t.Errorf("%d in the source, before %d; %d dead", w.depth("src"), before, w.depth("dlq"))
			}
		})
	}
}
