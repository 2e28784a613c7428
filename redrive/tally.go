package redrive

import (
	"context"
	"fmt"
)

// Tally is what was said of a plan, and how far that approves it.
type Tally struct {
	Plan       StoredPlan
	Statements []Approval // on the plan, oldest first
	Given      int        // approvals in force
	Needed     int
	Approved   bool // it has what its tier asks for, and nobody took it back
}

// TakenBack is the statement that rejected or revoked the plan.
func (s Tally) TakenBack() (Approval, bool) { return takenBack(s.Plan.ID, s.Statements) }

// Tally tells how far a plan is approved; prefix is a unique one of its ID.
func (a *Approver) Tally(ctx context.Context, prefix string) (Tally, error) {
	sp, err := a.Plans.LoadPlan(ctx, prefix)
	if err != nil {
		return Tally{}, fmt.Errorf("load plan %s: %w", prefix, err)
	}
	return a.verified(ctx, sp)
}

// Tallies are the plans of the queue (of all when empty) that are in a state
// which in accepts, newest first. One that was changed behind the store's back
// is ErrChanged.
func (a *Approver) Tallies(ctx context.Context, queue string, in func(PlanState) bool) ([]Tally, error) {
	plans, err := a.Plans.ListPlans(ctx, queue)
	if err != nil {
		return nil, err
	}
	var all []Tally
	for _, sp := range plans {
		if !in(sp.State) {
			continue
		}
		s, err := a.verified(ctx, sp)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Waiting are the plans that the person acting may approve now.
func (a *Approver) Waiting(ctx context.Context, queue string) ([]Tally, error) {
	all, err := a.Tallies(ctx, queue, func(s PlanState) bool { return s == PlanWaiting })
	if err != nil {
		return nil, err
	}
	var mine []Tally
	for _, s := range all {
		if a.WaitsForMe(s) {
			mine = append(mine, s)
		}
	}
	return mine, nil
}

// WaitsForMe reports that the person acting may approve the plan now.
func (a *Approver) WaitsForMe(s Tally) bool {
	return a.mayApprove(s, a.Actor.Name, len(s.Plan.Plan.Items)) == nil
}

func (a *Approver) verified(ctx context.Context, sp StoredPlan) (Tally, error) {
	p, err := sp.Verify()
	if err != nil {
		return Tally{}, err
	}
	sp.Plan = p
	statements, err := a.Plans.Approvals(ctx, sp.ID)
	if err != nil {
		return Tally{}, fmt.Errorf("approvals of plan %s: %w", sp.ID, err)
	}
	return a.tally(sp, statements), nil
}

func (a *Approver) tally(sp StoredPlan, statements []Approval) Tally {
	p := sp.Frozen()
	return Tally{
		Plan: sp, Statements: statements, Needed: p.Tier.Needed(),
		Given:    len(counted(p, statements, a.Now(), a.Persons)),
		Approved: CheckApprovals(p, statements, a.Now(), a.Persons) == nil,
	}
}
