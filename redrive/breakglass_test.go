package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// alone is an approver whose policy lets one person run so many items alone.
func (w *world) alone(most int) *redrive.Approver {
	a := w.approver("operator")
	a.Alone, a.Log = most, w.store
	return a
}

// waiting is a saved plan of everything that lacks its approvals.
func (w *world) unapproved(change ...func(*redrive.Request)) redrive.PlanID {
	w.t.Helper()
	d, err := w.draft(change...)
	w.must(err)
	w.must(w.planner().Save(w.ctx, d))
	return d.ID
}

func fixed(r *redrive.Request) { r.Lifts.Fixed = "the template is there" }

// runAlone runs a plan under a policy that allows most items.
func (w *world) runAlone(run string, id redrive.PlanID, most int) (redrive.Ended, error) {
	r := w.runner(run)
	r.Persons.Alone = most
	return r.Run(w.ctx, string(id))
}

// TestBreakGlass: one person runs a plan alone, and each record says so. Without
// the policy's leave, neither the statement nor the run is possible.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.unapproved(fixed)
	if _, err := w.runAlone("run1", id, 5); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("without a statement: %v", err)
	}
	if _, err := w.alone(0).BreakGlass(w.ctx, string(id), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("without the policy's leave: %v", err)
	}
	s, err := w.alone(5).BreakGlass(w.ctx, string(id), "alone tonight")
	w.must(err)
	if s.Given != 0 || s.Plan.State != redrive.PlanWaiting {
		t.Errorf("it counts as an approval: %+v", s)
	}
	if _, err := w.runAlone("run1", id, 0); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("under a policy that does not allow it: %v", err)
	}
	if _, err := w.runAlone("run1", id, 1); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("under a policy that allows one item: %v", err)
	}
	e, err := w.runAlone("run1", id, 5)
	w.must(err)
	if e.Report.Redriven != 2 || e.BreakGlass != "alone tonight" || w.loaded().BreakGlass != "alone tonight" {
		t.Errorf("%+v", e)
	}
	loud, quiet := 0, 0
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run1"}, func(e audit.Entry) error {
		switch r := e.Record; {
		case r.Details["break_glass"] != "":
			loud++
		case r.CopyID != "" || r.Step == "start":
			quiet++
		}
		return nil
	}))
	found := 0
	w.must(w.store.FindAudit(w.ctx, audit.Query{BreakGlass: true}, func(audit.Entry) error { found++; return nil }))
	if quiet != 0 || loud < 7 || found != loud+1 { // the statement is of no run
		t.Errorf("%d records say it, %d do not, %d are found", loud, quiet, found)
	}
	digests, err := w.store.ApprovedDigests(w.ctx)
	w.must(err)
	if len(digests) != 0 {
		t.Errorf("it approved %v", digests)
	}
}

// TestBreakGlassRefuses is what no emergency outweighs.
func TestBreakGlassRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*world)
		change  func(*redrive.Request)
		most    int
	}{
		"more than the policy allows": {most: 1},
		"no approval needed":          {change: func(*redrive.Request) {}},
		"effects by flag": {
			prepare: func(w *world) { w.class.Effect = classify.EffectUnknown; w.noLedger = true },
			change:  func(r *redrive.Request) { r.Lifts.EffectsByFlag = true },
		},
		"accepted duplicates": {
			prepare: func(w *world) { w.class.Effect = classify.EffectUnknown; w.noLedger = true },
			change:  func(r *redrive.Request) { r.Lifts.AcceptDuplicates = "x" },
		},
		"a discard":              {change: func(r *redrive.Request) { r.Only = reconcile.Discard }},
		"another destination":    {change: func(r *redrive.Request) { r.Lifts.To = "elsewhere" }},
		"an unapproved policy":   {change: func(r *redrive.Request) { r.Digests.Policy = "own" }, prepare: func(w *world) { w.policy = "own" }},
		"unapproved settings":    {change: func(r *redrive.Request) { r.Digests.Settings = "own" }},
		"broken order":           {change: func(r *redrive.Request) { r.Lifts.BreakOrder = true }},
		"every consumer gets it": {change: func(r *redrive.Request) { r.Lifts.FanOut = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.prepare != nil {
				c.prepare(w)
			}
			w.dead("k1", "k2")
			if c.change == nil {
				c.change = fixed
			}
			if c.most == 0 {
				c.most = 100
			}
			id := w.unapproved(c.change)
			_, err := w.alone(c.most).BreakGlass(w.ctx, string(id), "alone tonight")
			if !errors.Is(err, redrive.ErrRefused) {
				t.Errorf("%v", err)
			}
			if as, err := w.store.Approvals(w.ctx, id); err != nil || len(as) != 0 {
				t.Errorf("%v %v", as, err)
			}
		})
	}
}

// TestBreakGlassHold: what is held stays held, whoever is alone.
func TestBreakGlassHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.unapproved(fixed)
	w.hold("k1")
	_, err := w.alone(5).BreakGlass(w.ctx, string(id), "alone tonight")
	w.must(err)
	e, err := w.runAlone("run1", id, 5)
	w.must(err)
	if e.Report.Redriven != 1 || e.Report.Skipped["manual_hold"] != 1 {
		t.Errorf("%+v", e.Report)
	}
	w.copy("unknown", "")
	w.row("unknown", ledger.Sending)
	if got := w.why(fixed, func(r *redrive.Request) { r.Select = redrive.Selection{Jobs: []string{"unknown"}} }); got == "redrive" {
		t.Errorf("an effect that is not known: %s", got)
	}
}

// TestBreakGlassTurnedDown: somebody who has rejected the plan, or another with one
// of its jobs, could be reached.
func TestBreakGlassTurnedDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.unapproved(fixed)
	_, err := w.approver("approver").Reject(w.ctx, string(id), "not tonight")
	w.must(err)
	if _, err := w.alone(5).BreakGlass(w.ctx, string(id), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("the same plan: %v", err)
	}
	w.pass(time.Second)
	again := w.unapproved(fixed)
	if _, err := w.alone(5).BreakGlass(w.ctx, string(again), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("the same jobs: %v", err)
	}
	w.pass(25 * time.Hour)
	later := w.unapproved(fixed)
	if _, err := w.alone(5).BreakGlass(w.ctx, string(later), "alone tonight"); err != nil {
		t.Errorf("a day later: %v", err)
	}
	_, err = w.approver("approver").Revoke(w.ctx, string(later), "I am here")
	w.must(err)
	if _, err := w.runAlone("run1", later, 5); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("a statement and a revocation: %v", err)
	}
}

// TestBreakGlassTurnedDownLately: the day after a no is counted from the no, however
// old the plan was that it turned down.
func TestBreakGlassTurnedDownLately(t *testing.T) {
	t.Parallel()
	for decision, turn := range map[string]func(*redrive.Approver, context.Context, string, string) (redrive.StoredPlan, error){
		redrive.DecisionReject: (*redrive.Approver).Reject, redrive.DecisionRevoke: (*redrive.Approver).Revoke,
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2")
			long := w.unapproved(fixed, func(r *redrive.Request) { r.Expires = 48 * time.Hour })
			w.pass(25 * time.Hour)
			_, err := turn(w.approver("approver"), w.ctx, string(long), "not tonight")
			w.must(err)
			w.pass(time.Hour)
			soon := w.unapproved(fixed)
			if _, err := w.alone(5).BreakGlass(w.ctx, string(soon), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
				t.Errorf("an hour later: %v", err)
			}
			w.pass(24 * time.Hour)
			later := w.unapproved(fixed)
			if _, err := w.alone(5).BreakGlass(w.ctx, string(later), "alone tonight"); err != nil {
				t.Errorf("25 hours later: %v", err)
			}
		})
	}
}

// TestBreakGlassTurnedDownRunning: a plan that was revoked while it ran is one that
// somebody turned down, whatever its run came to.
func TestBreakGlassTurnedDownRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan(fixed, func(r *redrive.Request) { r.Rate = 1 })
	w.onCall("publish", 1, func() {
		_, err := w.approver("approver0").Revoke(w.ctx, string(id), "stop")
		w.must(err)
	})
	e, err := w.run(id)
	if !errors.Is(err, redrive.ErrRefused) || e.Report.Redriven != 1 {
		t.Fatalf("%+v %v", e.Report, err)
	}
	w.pass(time.Hour)
	again := w.unapproved(fixed)
	if _, err := w.alone(5).BreakGlass(w.ctx, string(again), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// TestBreakGlassAddsUp: several plans together have no more items in a day than the
// policy allows, also where their statements were made at one time.
func TestBreakGlassAddsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3")
	only := func(k string) func(*redrive.Request) {
		return func(r *redrive.Request) { r.Select = redrive.Selection{Jobs: []string{k}} }
	}
	var ids []redrive.PlanID
	for i, k := range []string{"k1", "k2", "k3"} {
		ids = append(ids, w.unapproved(fixed, only(k)))
		if i < 2 {
			_, err := w.alone(2).BreakGlass(w.ctx, string(ids[i]), "alone tonight")
			w.must(err)
		}
	}
	if _, err := w.alone(2).BreakGlass(w.ctx, string(ids[2]), "alone tonight"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("a third: %v", err)
	}
	_, err := w.alone(3).BreakGlass(w.ctx, string(ids[2]), "alone tonight") // as if at the same moment
	w.must(err)
	if _, err := w.runAlone("run3", ids[2], 2); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("the run of the third: %v", err)
	}
	for i := range 2 {
		_, err := w.runAlone(fmt.Sprintf("run%d", i), ids[i], 2)
		w.must(err)
	}
}

// TestBreakGlassExpires: the statement ends with its plan, and with its own time; a
// run that goes on then stops.
func TestBreakGlassExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3", "k4", "k5")
	id := w.unapproved(fixed, func(r *redrive.Request) { r.Rate, r.Expires = 2, 12*time.Hour })
	_, err := w.alone(5).BreakGlass(w.ctx, string(id), "alone tonight")
	w.must(err)
	w.onCall("log:ack", 1, func() { w.pass(redrive.MaxApproval) })
	r := w.runner("run1")
	r.Persons.Alone, r.LeaseTTL = 5, 24*time.Hour
	e, err := r.Run(w.ctx, string(id))
	var stopped *redrive.StoppedError
	if !errors.As(err, &stopped) || stopped.Why != "approval_expired" || e.Report.Redriven != 2 {
		t.Errorf("%+v %v", e.Report, err)
	}
}

// TestBreakGlassInForce: between two batches a statement counts as long as the
// policy allows what the plan is.
func TestBreakGlassInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.unapproved(fixed)
	_, err := w.alone(5).BreakGlass(w.ctx, string(id), "alone tonight")
	w.must(err)
	as, err := w.store.Approvals(w.ctx, id)
	w.must(err)
	sp, err := w.store.LoadPlan(w.ctx, string(id))
	w.must(err)
	for most, want := range map[int]bool{0: false, 1: false, 2: true, 5: true} {
		by := redrive.Persons{Declared: true, Alone: most}
		if err := redrive.CheckApprovals(sp.Frozen(), as, w.clock(), by); (err == nil) != want {
			t.Errorf("a policy that allows %d: %v", most, err)
		}
	}
	risky := sp.Frozen()
	risky.TierWhy = []string{"not_proven"}
	if err := redrive.CheckApprovals(risky, as, w.clock(), redrive.Persons{Declared: true, Alone: 5}); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("a doubt: %v", err)
	}
}
