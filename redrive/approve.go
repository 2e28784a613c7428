package redrive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// The decisions of an Approval.
const (
	DecisionApprove = "approve"
	DecisionReject  = "reject"
	DecisionRevoke  = "revoke"
)

// MaxApproval is the longest life of an approval.
const MaxApproval = 8 * time.Hour

// Persons is how the configuration in force knows them.
type Persons struct {
	Solo string // why a team of one approves for itself; empty: it does not
	// Declared: whoever acts may say who he is. Otherwise a statement by a name
	// that was only declared, under a configuration of its maker's, counts for
	// nothing.
	Declared bool
	// Files: approvals count that were carried here in files, whoever made them.
	Files bool
	// Alone is how many items one person may run alone in an emergency, as the policy
	// of the plan's queue says; 0: none.
	Alone int
}

// knownDeclared is Approval.Known of a person who only said who he is.
const knownDeclared = "declared"

// Approver takes statements over plans.
type Approver struct {
	Plans Plans
	audit.Who
	Persons
	Now func() time.Time
	Log Finder // for BreakGlass alone
}

// Approve states that the person acting agrees to exactly these items. Refusals
// are ErrRefused: a wrong count, the requester himself, the same person twice,
// a plan that waits for nothing.
func (a *Approver) Approve(ctx context.Context, prefix string, items int, reason string) (Tally, error) {
	s, err := a.Tally(ctx, prefix)
	if err != nil {
		return Tally{}, err
	}
	if err := a.mayApprove(s, a.Actor.Name, items); err != nil {
		return Tally{}, fmt.Errorf("approve plan %s: %w", s.Plan.ID, err)
	}
	st := a.statement(s.Plan, DecisionApprove, reason)
	return a.add(ctx, s, st, a.recordOf(s.Plan, st))
}

// add keeps one more approval, and moves the plan once it has all that it needs.
func (a *Approver) add(ctx context.Context, s Tally, st Approval, rec audit.Record) (Tally, error) {
	if err := a.save(ctx, st, rec); err != nil {
		return Tally{}, err
	}
	s = a.tally(s.Plan, append(s.Statements, st))
	if !s.Approved || st.Decision != DecisionApprove { // who breaks the glass approves nothing
		return s, nil
	}
	err := a.move(ctx, s.Plan, PlanApproved, st.Reason)
	if errors.Is(err, ErrRefused) {
		err = nil // another approver's statement moved it in the same moment
	}
	return s, err
}

// mayApprove says why a person's approval of so many items would not count.
func (a *Approver) mayApprove(s Tally, person string, items int) error {
	p := s.Plan.Plan
	switch {
	case s.Plan.State != PlanWaiting:
		return fmt.Errorf("it is %s: %w", s.Plan.State, ErrRefused)
	case !a.Now().Before(p.ExpiresAt):
		return fmt.Errorf("it expired at %s: %w", stamp(p.ExpiresAt), ErrRefused)
	case items != len(p.Items):
		return fmt.Errorf("it has %d items, not %d: %w", len(p.Items), items, ErrRefused)
	case p.Tier.Needed() == 0:
		return fmt.Errorf("it needs no approval: %w", ErrRefused)
	case a.Solo != "":
		return nil
	case person == p.Requester:
		return fmt.Errorf("%s requested it; another person approves: %w", person, ErrRefused)
	}
	for _, b := range counted(s.Plan.Frozen(), s.Statements, a.Now(), a.Persons) {
		if b.Approver == person {
			return fmt.Errorf("%s has approved it already; another person is needed: %w", person, ErrRefused)
		}
	}
	return nil
}

// Reject ends a plan that has not begun. The requester may do it too.
func (a *Approver) Reject(ctx context.Context, prefix, reason string) (StoredPlan, error) {
	s, err := a.Tally(ctx, prefix)
	if err != nil {
		return StoredPlan{}, err
	}
	if !s.Plan.State.Open() {
		return StoredPlan{}, fmt.Errorf("reject plan %s: it is %s: %w", s.Plan.ID, s.Plan.State, ErrRefused)
	}
	if err := a.state(ctx, s.Plan, DecisionReject, reason); err != nil {
		return StoredPlan{}, err
	}
	return s.Plan, a.move(ctx, s.Plan, PlanRejected, reason)
}

// Revoke takes the approval of a plan back, until its run ends. A running one
// stops before its next batch. Anyone may: stopping is never the risk.
func (a *Approver) Revoke(ctx context.Context, prefix, reason string) (StoredPlan, error) {
	s, err := a.Tally(ctx, prefix)
	if err != nil {
		return StoredPlan{}, err
	}
	if !s.Plan.State.Live() {
		return StoredPlan{}, fmt.Errorf("revoke plan %s: it is %s: %w", s.Plan.ID, s.Plan.State, ErrRefused)
	}
	if err := a.state(ctx, s.Plan, DecisionRevoke, reason); err != nil {
		return StoredPlan{}, err
	}
	if s.Plan.State == PlanRunning {
		return s.Plan, nil // the run sees the statement and ends itself
	}
	return s.Plan, a.move(ctx, s.Plan, PlanRevoked, reason)
}

// Drop withdraws a plan whose run has not begun, and frees its jobs. It is no
// statement: nothing was decided about what the plan would have done. Of a drop
// and a run that begin together, one wins and the other is ErrRefused.
func (a *Approver) Drop(ctx context.Context, prefix, reason string) (StoredPlan, error) {
	var err error
	for range 2 { // again where it was approved in the same moment
		var s Tally
		if s, err = a.Tally(ctx, prefix); err != nil {
			return StoredPlan{}, err
		}
		if !s.Plan.State.Open() {
			return StoredPlan{}, fmt.Errorf("drop plan %s: it is %s: %w", s.Plan.ID, s.Plan.State, ErrRefused)
		}
		err = a.move(ctx, s.Plan, PlanDropped, reason)
		if err == nil {
			return a.Plans.LoadPlan(ctx, string(s.Plan.ID))
		}
		if !errors.Is(err, ErrRefused) {
			break
		}
	}
	return StoredPlan{}, err
}

func (a *Approver) statement(sp StoredPlan, decision, reason string) Approval {
	now, p := a.Now().UTC(), sp.Plan
	st := Approval{
		Plan: sp.ID, Items: len(p.Items), Store: p.Store, Requester: p.Requester,
		Approver: a.Actor.Name, Known: a.Actor.Known, Decision: decision, Reason: reason,
		NotBefore: now, ExpiresAt: earlier(now.Add(MaxApproval), p.ExpiresAt),
	}
	if a.Actor.Name == p.Requester {
		st.Solo = a.Solo
	}
	return st
}

// state makes a statement and keeps it.
func (a *Approver) state(ctx context.Context, sp StoredPlan, decision, reason string) error {
	st := a.statement(sp, decision, reason)
	return a.save(ctx, st, a.recordOf(sp, st))
}

func (a *Approver) recordOf(sp StoredPlan, st Approval) audit.Record {
	rec := a.about(sp, st.Decision, st.Reason)
	rec.Details["items"] = strconv.Itoa(st.Items)
	if st.Solo != "" {
		rec.Details["solo"] = st.Solo
	}
	return rec
}

func (a *Approver) save(ctx context.Context, st Approval, rec audit.Record) error {
	if err := a.Plans.SaveApproval(ctx, st, rec); err != nil {
		return fmt.Errorf("%s plan %s: %w", st.Decision, st.Plan, err)
	}
	return nil
}

func (a *Approver) move(ctx context.Context, sp StoredPlan, to PlanState, reason string) error {
	rec := a.about(sp, "plan", reason)
	rec.Transition = string(sp.State) + "→" + string(to)
	if err := a.Plans.SetPlanState(ctx, sp.ID, sp.State, to, rec); err != nil {
		return fmt.Errorf("move plan %s from %s to %s: %w", sp.ID, sp.State, to, err)
	}
	return nil
}

func (a *Approver) about(sp StoredPlan, action, reason string) audit.Record {
	rec := a.Record(action)
	rec.Plan, rec.Queue, rec.Reason = string(sp.ID), sp.Plan.Queue, reason
	rec.Phase, rec.Result, rec.Details = audit.Outcome, audit.ResultDone, map[string]string{}
	return rec
}
