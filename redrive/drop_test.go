package redrive_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestDrop: a plan is withdrawn before its run, never after.
func TestDrop(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state   redrive.PlanState
		reach   func(*world, redrive.PlanID) error
		refused bool
	}{
		{redrive.PlanWaiting, func(*world, redrive.PlanID) error { return nil }, false},
		{redrive.PlanApproved, func(w *world, id redrive.PlanID) error {
			_, err := w.approver("a").Approve(w.ctx, string(id), 1, "fine")
			return err
		}, false},
		{redrive.PlanRejected, func(w *world, id redrive.PlanID) error {
			_, err := w.approver("a").Reject(w.ctx, string(id), "no")
			return err
		}, true},
		{redrive.PlanDropped, func(w *world, id redrive.PlanID) error {
			_, err := w.approver("a").Drop(w.ctx, string(id), "no")
			return err
		}, true},
		{redrive.PlanFinished, func(w *world, id redrive.PlanID) error {
			_, err := w.approver("a").Approve(w.ctx, string(id), 1, "fine")
			if err == nil {
				_, err = w.runner("run1").Run(w.ctx, string(id))
			}
			return err
		}, true},
	}
	for _, tt := range tests {
		t.Run(string(tt.state), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.lifted(1)
			w.must(tt.reach(w, d.ID))
			sp, err := w.approver("somebody").Drop(w.ctx, string(d.ID), "wrong selection")
			if errors.Is(err, redrive.ErrRefused) != tt.refused || !tt.refused && err != nil {
				t.Fatal(err)
			}
			if tt.refused {
				return
			}
			if sp.State != redrive.PlanDropped {
				t.Errorf("it is %s", sp.State)
			}
			if _, err := w.runner("run1").Run(w.ctx, string(d.ID)); !errors.Is(err, redrive.ErrRefused) {
				t.Errorf("a dropped plan runs: %v", err)
			}
			w.plan() // its job is free
			var moves []string
			w.must(w.store.FindAudit(w.ctx, audit.Query{Plan: string(d.ID), Action: "plan"}, func(e audit.Entry) error {
				moves = append(moves, e.Record.Transition)
				return nil
			}))
			if moves[0] != string(tt.state)+"→dropped" {
				t.Errorf("the log has %q", moves)
			}
		})
	}
}

// TestDropWhileApproved: an approval in the same moment does not keep a plan.
func TestDropWhileApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.lifted(1)
	a := w.approver("somebody")
	a.Plans = &approvedMeanwhile{Plans: w.store, once: sync.OnceFunc(func() {
		_, err := w.approver("a").Approve(w.ctx, string(d.ID), 1, "fine")
		w.must(err)
	})}
	if sp, err := a.Drop(w.ctx, string(d.ID), "no"); err != nil || sp.State != redrive.PlanDropped {
		t.Errorf("%s, %v", sp.State, err)
	}
}

// TestDropRaces: of a drop and the begin of a run, each through a store of its
// own on the same file, as two processes have them, exactly one wins.
func TestDropRaces(t *testing.T) {
	t.Parallel()
	won := map[string]int{}
	for range 20 {
		w := newWorld(t)
		id := w.lifted(1).ID
		_, err := w.approver("a").Approve(w.ctx, string(id), 1, "fine")
		w.must(err)
		other, err := store.Open(w.ctx, filepath.Join(w.dir, "store.db"), store.Options{Now: w.clock, GroupWait: -1})
		w.must(err)
		dropper := w.approver("somebody")
		dropper.Plans = other

		var dropErr, runErr error
		var ended redrive.Ended
		var wg sync.WaitGroup
		wg.Go(func() { _, dropErr = dropper.Drop(w.ctx, string(id), "no") })
		wg.Go(func() { ended, runErr = w.runner("run1").Run(w.ctx, string(id)) })
		wg.Wait()
		w.must(other.Close())
		switch sp, err := w.store.LoadPlan(w.ctx, string(id)); {
		case err != nil:
			t.Fatal(err)
		case dropErr == nil && errors.Is(runErr, redrive.ErrRefused):
			if sp.State != redrive.PlanDropped || w.depth("src") != 0 || w.depth("dlq") != 1 {
				t.Fatalf("dropped: the plan is %s, %d published", sp.State, w.depth("src"))
			}
			won["drop"]++
		case errors.Is(dropErr, redrive.ErrRefused) && runErr == nil:
			if sp.State != redrive.PlanFinished || ended.Report.Redriven != 1 || w.depth("src") != 1 {
				t.Fatalf("run: the plan is %s, %+v", sp.State, ended.Report)
			}
			won["run"]++
		default:
			t.Fatalf("drop: %v; run: %v", dropErr, runErr)
		}
	}
	t.Logf("who won: %v", won)
}

// TestWaiting: what waits for a person is what he may approve now.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := w.lifted(2).ID
	waits := func(who string) []redrive.PlanID {
		t.Helper()
		all, err := w.approver(who).Waiting(w.ctx, "")
		w.must(err)
		var ids []redrive.PlanID
		for _, s := range all {
			ids = append(ids, s.Plan.ID)
		}
		return ids
	}
	want := func(who string, ids ...redrive.PlanID) {
		t.Helper()
		if d := cmp.Diff(ids, waits(who)); d != "" {
			t.Errorf("for %s: %s", who, d)
		}
	}
	want("requester")
	want("a", two)
	_, err := w.approver("a").Approve(w.ctx, string(two), 1, "fine")
	w.must(err)
	want("a")
	want("b", two)
	if all, err := w.approver("b").Waiting(w.ctx, "another queue"); err != nil || all != nil {
		t.Errorf("%v, %v", all, err)
	}
	_, err = w.approver("b").Approve(w.ctx, string(two), 1, "fine")
	w.must(err)
	want("c")
}

// approvedMeanwhile is a store in which a plan is approved just before it moves.
type approvedMeanwhile struct {
	redrive.Plans
	once func()
}

func (p *approvedMeanwhile) SetPlanState(ctx context.Context, id redrive.PlanID, from, to redrive.PlanState, rec audit.Record) error {
	p.once()
	return p.Plans.SetPlanState(ctx, id, from, to, rec)
}
