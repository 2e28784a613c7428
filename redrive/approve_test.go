package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// lifted makes a plan that needs the given number of others, unapproved.
func (w *world) lifted(needs int) redrive.Draft {
	w.t.Helper()
	w.dead("k1")
	req := w.request()
	if needs > 0 {
		req.Lifts.To, req.Queue.Destination = "src", "elsewhere"
	}
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	if needs == 2 {
		d.Plan.Tier = redrive.TierTwo
		d.ID, d.Bytes, err = redrive.Canonical(d.Plan)
		w.must(err)
	}
	w.must(w.planner().Save(w.ctx, d))
	return d
}

func TestApprove(t *testing.T) {
	t.Parallel()
	type step struct {
		who     string
		solo    string
		items   int
		refused bool
		done    bool
	}
	tests := []struct {
		name  string
		needs int
		steps []step
	}{
		{"another person", 1, []step{{"a", "", 1, false, true}}},
		{"the requester", 1, []step{{"requester", "", 1, true, false}}},
		{"wrong count", 1, []step{{"a", "", 2, true, false}, {"a", "", 0, true, false}}},
		{"needs none", 0, []step{{"a", "", 1, true, false}}},
		{"approved already", 1, []step{{"a", "", 1, false, true}, {"b", "", 1, true, true}}},
		{"two persons", 2, []step{{"a", "", 1, false, false}, {"a", "", 1, true, false}, {"b", "", 1, false, true}}},
		{"solo", 2, []step{{"requester", "team of one", 1, false, false}, {"requester", "team of one", 1, false, true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.lifted(tt.needs)
			for i, s := range tt.steps {
				a := w.approver(s.who)
				a.Solo = s.solo
				st, err := a.Approve(w.ctx, string(d.ID), s.items, "fine")
				if errors.Is(err, redrive.ErrRefused) != s.refused || !s.refused && err != nil {
					t.Errorf("step %d: %v", i, err)
				}
				if !s.refused && st.Approved != s.done {
					t.Errorf("step %d: %+v", i, st)
				}
			}
		})
	}
}

// TestApprovalsInForce: what does not say exactly this, now, does not count.
func TestApprovalsInForce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	p := redrive.StoredPlan{ID: "id", Plan: redrive.Plan{
		Terms: redrive.Terms{Store: "s", Requester: "requester", Tier: redrive.TierOne}, Items: make([]redrive.Item, 3),
	}}.Frozen()
	good := redrive.Approval{
		Plan: "id", Items: 3, Store: "s", Requester: "requester", Approver: "a", Known: "account", Decision: redrive.DecisionApprove,
		NotBefore: now, ExpiresAt: now.Add(time.Hour),
	}
	tests := []struct {
		name   string
		change func(*redrive.Approval)
		solo   string
		ok     bool
	}{
		{"a declared name, where persons are accounts", func(a *redrive.Approval) { a.Known = "declared" }, "", false},
		{"good", func(*redrive.Approval) {}, "", true},
		{"other plan", func(a *redrive.Approval) { a.Plan = "other" }, "", false},
		{"other count", func(a *redrive.Approval) { a.Items = 4 }, "", false},
		{"other store", func(a *redrive.Approval) { a.Store = "x" }, "", false},
		{"other requester", func(a *redrive.Approval) { a.Requester = "x" }, "", false},
		{"nobody", func(a *redrive.Approval) { a.Approver = "" }, "", false},
		{"the requester", func(a *redrive.Approval) { a.Approver = "requester" }, "", false},
		{"the requester says solo, the settings do not", func(a *redrive.Approval) { a.Approver, a.Solo = "requester", "x" }, "", false},
		{"solo, not said", func(a *redrive.Approval) { a.Approver = "requester" }, "x", false},
		{"solo", func(a *redrive.Approval) { a.Approver, a.Solo = "requester", "x" }, "x", true},
		{"too early", func(a *redrive.Approval) { a.NotBefore = now.Add(time.Second) }, "", false},
		{"expired", func(a *redrive.Approval) { a.ExpiresAt = now }, "", false},
		{"too long", func(a *redrive.Approval) { a.ExpiresAt = now.Add(9 * time.Hour) }, "", false},
		{"reject", func(a *redrive.Approval) { a.Decision = redrive.DecisionReject }, "", false},
		{"revoke", func(a *redrive.Approval) { a.Decision = redrive.DecisionRevoke }, "", false},
		{"unknown word", func(a *redrive.Approval) { a.Decision = "Approve" }, "", false},
	}
	for _, tt := range tests {
		a := good
		tt.change(&a)
		if err := redrive.CheckApprovals(p, []redrive.Approval{a}, now, redrive.Persons{Solo: tt.solo}); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	declared := good
	declared.Known = "declared"
	if err := redrive.CheckApprovals(p, []redrive.Approval{declared}, now, redrive.Persons{Declared: true}); err != nil {
		t.Errorf("a declared name, where persons declare themselves: %v", err)
	}
	revoked := good
	revoked.Decision = redrive.DecisionRevoke
	if err := redrive.CheckApprovals(p, []redrive.Approval{good, revoked}, now, redrive.Persons{}); !errors.Is(err, redrive.ErrRefused) {
		t.Error("a revoked plan is approved")
	}
	two := p
	two.Tier = redrive.TierTwo
	if err := redrive.CheckApprovals(two, []redrive.Approval{good, good}, now, redrive.Persons{}); !errors.Is(err, redrive.ErrRefused) {
		t.Error("one person counts twice")
	}
}

// TestUnapprovedNeverBegins.
func TestUnapprovedNeverBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.lifted(2)
	for _, who := range []string{"", "a"} {
		if who != "" {
			_, err := w.approver(who).Approve(w.ctx, string(d.ID), 1, "fine")
			w.must(err)
		}
		if _, err := w.runner("run1").Run(w.ctx, string(d.ID)); !errors.Is(err, redrive.ErrRefused) {
			t.Errorf("after %q: %v", who, err)
		}
	}
	if w.depth("src") != 0 {
		t.Error("it published")
	}
}

// TestApprovalEnds: an approval's own expiry stops a run.
func TestApprovalEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.lifted(1)
	_, err := w.approver("a").Approve(w.ctx, string(d.ID), 1, "fine")
	w.must(err)
	w.pass(9 * time.Hour)
	if _, err := w.runner("run1").Run(w.ctx, string(d.ID)); !errors.Is(err, redrive.ErrRefused) {
		t.Error(err)
	}
}

// lateState is a store that dies between an approval and the plan's new state.
type lateState struct{ redrive.Plans }

func (lateState) SetPlanState(context.Context, redrive.PlanID, redrive.PlanState, redrive.PlanState, audit.Record) error {
	return audit.ErrNotWritable
}

// TestApprovedButWaiting: the approvals count, not the state that follows them.
func TestApprovedButWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.lifted(1)
	a := w.approver("a")
	a.Plans = lateState{w.store}
	if _, err := a.Approve(w.ctx, string(d.ID), 1, "fine"); !errors.Is(err, audit.ErrNotWritable) {
		t.Fatal(err)
	}
	ended, err := w.runner("run1").Run(w.ctx, string(d.ID))
	if err != nil || ended.Report.Redriven != 1 {
		t.Errorf("%+v, %v", ended.Report, err)
	}
}
