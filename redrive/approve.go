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
}

// knownDeclared is Approval.Known of a person who only said who he is.
const knownDeclared = "declared"

// Approver takes statements over plans.
type Approver struct {
	Plans Plans
	Who
	Persons
	Now func() time.Time
}

// Standing is what a plan has of the approvals that it needs.
type Standing struct {
	Plan     StoredPlan
	Given    int
	Needed   int
	Approved bool
}

// Approve states that the person acting agrees to exactly these items. Refusals
// are ErrRefused: a wrong count, the requester himself, the same person twice,
// a plan that waits for nothing.
func (a *Approver) Approve(ctx context.Context, prefix string, items int, reason string) (Standing, error) {
	sp, p, before, err := a.load(ctx, prefix)
	if err != nil {
		return Standing{}, err
	}
	if err := a.mayApprove(sp, p, before, items); err != nil {
		return Standing{}, fmt.Errorf("approve plan %s: %w", sp.ID, err)
	}
	st := a.statement(sp.ID, p, DecisionApprove, reason)
	if err := a.save(ctx, sp, st); err != nil {
		return Standing{}, err
	}
	given := len(counted(sp.ID, p, append(before, st), a.Now(), a.Persons))
	s := Standing{Plan: sp, Given: given, Needed: p.Tier.Needed(), Approved: given >= p.Tier.Needed()}
	if !s.Approved {
		return s, nil
	}
	err = a.move(ctx, sp, PlanApproved, reason)
	if errors.Is(err, ErrRefused) {
		return s, nil // another approver's statement moved it in the same moment
	}
	return s, err
}

func (a *Approver) mayApprove(sp StoredPlan, p Plan, before []Approval, items int) error {
	me := a.Actor.Name
	switch {
	case sp.State != PlanWaiting:
		return fmt.Errorf("it is %s: %w", sp.State, ErrRefused)
	case !a.Now().Before(p.ExpiresAt):
		return fmt.Errorf("it expired at %s: %w", p.ExpiresAt.UTC().Format(time.RFC3339), ErrRefused)
	case items != len(p.Items):
		return fmt.Errorf("it has %d items, not %d: %w", len(p.Items), items, ErrRefused)
	case p.Tier.Needed() == 0:
		return fmt.Errorf("it needs no approval: %w", ErrRefused)
	case a.Solo != "":
		return nil
	case me == p.Requester:
		return fmt.Errorf("%s requested it; another person approves: %w", me, ErrRefused)
	}
	for _, b := range counted(sp.ID, p, before, a.Now(), a.Persons) {
		if b.Approver == me {
			return fmt.Errorf("%s has approved it already; another person is needed: %w", me, ErrRefused)
		}
	}
	return nil
}

// Reject ends a plan that has not begun. The requester may do it too.
func (a *Approver) Reject(ctx context.Context, prefix, reason string) (StoredPlan, error) {
	sp, p, _, err := a.load(ctx, prefix)
	if err != nil {
		return StoredPlan{}, err
	}
	if sp.State != PlanWaiting && sp.State != PlanApproved {
		return StoredPlan{}, fmt.Errorf("reject plan %s: it is %s: %w", sp.ID, sp.State, ErrRefused)
	}
	if err := a.save(ctx, sp, a.statement(sp.ID, p, DecisionReject, reason)); err != nil {
		return StoredPlan{}, err
	}
	return sp, a.move(ctx, sp, PlanRejected, reason)
}

// Revoke takes the approval of a plan back, until its run ends. A running one
// stops before its next batch. Anyone may: stopping is never the risk.
func (a *Approver) Revoke(ctx context.Context, prefix, reason string) (StoredPlan, error) {
	sp, p, _, err := a.load(ctx, prefix)
	if err != nil {
		return StoredPlan{}, err
	}
	if !sp.State.Live() {
		return StoredPlan{}, fmt.Errorf("revoke plan %s: it is %s: %w", sp.ID, sp.State, ErrRefused)
	}
	if err := a.save(ctx, sp, a.statement(sp.ID, p, DecisionRevoke, reason)); err != nil {
		return StoredPlan{}, err
	}
	if sp.State == PlanRunning {
		return sp, nil // the run sees the statement and ends itself
	}
	return sp, a.move(ctx, sp, PlanRevoked, reason)
}

// Standing tells how far a plan is approved.
func (a *Approver) Standing(ctx context.Context, prefix string) (Standing, error) {
	sp, p, as, err := a.load(ctx, prefix)
	if err != nil {
		return Standing{}, err
	}
	given := len(counted(sp.ID, p, as, a.Now(), a.Persons))
	return Standing{Plan: sp, Given: given, Needed: p.Tier.Needed(), Approved: CheckApprovals(sp.ID, p, as, a.Now(), a.Persons) == nil}, nil
}

func (a *Approver) load(ctx context.Context, prefix string) (StoredPlan, Plan, []Approval, error) {
	sp, err := a.Plans.LoadPlan(ctx, prefix)
	if err != nil {
		return StoredPlan{}, Plan{}, nil, fmt.Errorf("load plan %s: %w", prefix, err)
	}
	p, err := sp.Verify()
	if err != nil {
		return StoredPlan{}, Plan{}, nil, err
	}
	as, err := a.Plans.Approvals(ctx, sp.ID)
	if err != nil {
		return StoredPlan{}, Plan{}, nil, fmt.Errorf("approvals of plan %s: %w", sp.ID, err)
	}
	return sp, p, as, nil
}

func (a *Approver) statement(id PlanID, p Plan, decision, reason string) Approval {
	now := a.Now().UTC()
	st := Approval{
		Plan: id, Items: len(p.Items), Store: p.Store, Requester: p.Requester,
		Approver: a.Actor.Name, Known: a.Actor.Known, Decision: decision, Reason: reason,
		NotBefore: now, ExpiresAt: earlier(now.Add(MaxApproval), p.ExpiresAt),
	}
	if a.Actor.Name == p.Requester {
		st.Solo = a.Solo
	}
	return st
}

func (a *Approver) save(ctx context.Context, sp StoredPlan, st Approval) error {
	rec := a.about(sp, st.Decision, st.Reason)
	rec.Details["items"] = strconv.Itoa(st.Items)
	if st.Solo != "" {
		rec.Details["solo"] = st.Solo
	}
	if err := a.Plans.SaveApproval(ctx, st, rec); err != nil {
		return fmt.Errorf("%s plan %s: %w", st.Decision, sp.ID, err)
	}
	return nil
}

func (a *Approver) move(ctx context.Context, sp StoredPlan, to PlanState, reason string) error {
	if err := a.Plans.SetPlanState(ctx, sp.ID, sp.State, to, a.about(sp, "plan", reason)); err != nil {
		return fmt.Errorf("move plan %s from %s to %s: %w", sp.ID, sp.State, to, err)
	}
	return nil
}

func (a *Approver) about(sp StoredPlan, action, reason string) audit.Record {
	rec := a.record(action)
	rec.Plan, rec.Queue, rec.Reason = string(sp.ID), sp.Plan.Queue, reason
	rec.Phase, rec.Result, rec.Details = audit.Outcome, audit.ResultDone, map[string]string{}
	return rec
}

// CheckApprovals holds the statements against the plan's tier: enough of them,
// by distinct persons other than the requester, over exactly this plan, in
// force now, and none taking it back. Anything else is ErrRefused.
func CheckApprovals(id PlanID, p Plan, as []Approval, now time.Time, by Persons) error {
	for _, a := range as {
		if a.Plan == id && (a.Decision == DecisionReject || a.Decision == DecisionRevoke) {
			return fmt.Errorf("plan %s: %s by %s: %w", id, a.Decision, a.Approver, ErrRefused)
		}
	}
	if got, need := len(counted(id, p, as, now, by)), p.Tier.Needed(); got < need {
		return fmt.Errorf("plan %s: %d of %d approvals in force: %w", id, got, need, ErrRefused)
	}
	return nil
}

// counted are the approvals that count. In a team of one the requester's own do,
// each of them; otherwise one for each other person.
func counted(id PlanID, p Plan, as []Approval, now time.Time, by Persons) []Approval {
	var good []Approval
	seen := map[string]bool{}
	for _, a := range as {
		own := a.Approver == p.Requester
		switch {
		case a.Decision != DecisionApprove || a.Plan != id || a.Items != len(p.Items):
		case a.Store != p.Store || a.Requester != p.Requester || a.Approver == "":
		case now.Before(a.NotBefore) || !now.Before(a.ExpiresAt) || a.ExpiresAt.Sub(a.NotBefore) > MaxApproval:
		case a.Known == knownDeclared && !by.Declared:
		case own && (by.Solo == "" || a.Solo == ""):
		case !own && seen[a.Approver]:
		default:
			seen[a.Approver] = true
			good = append(good, a)
		}
	}
	return good
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
