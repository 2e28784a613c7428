package redrive

import (
	"context"
	"fmt"
)

// checkBegin stands inside the transaction that makes a run: the plan is hashed
// again, and everything that was approved must still hold. It is that plan.
func (r *Runner) checkBegin(sp StoredPlan, as []Approval) (Plan, error) {
	p, err := sp.Verify()
	if err != nil {
		return Plan{}, err
	}
	return p, r.mayBegin(sp, p, as)
}

func (r *Runner) mayBegin(sp StoredPlan, p Plan, as []Approval) error {
	// A waiting plan may have its approvals: the state follows the last of them
	// in a transaction of its own.
	if !sp.State.Open() {
		return fmt.Errorf("plan %s is %s: %w", sp.ID, sp.State, ErrRefused)
	}
	if why := r.changedSince(p, r.Current); why != "" {
		return fmt.Errorf("plan %s: %s: %w", sp.ID, why, ErrRefused)
	}
	if err := r.sameBounds(sp.ID, p); err != nil {
		return err
	}
	return CheckApprovals(sp.ID, p, as, r.Now(), r.Persons)
}

func (r *Runner) sameBounds(id PlanID, p Plan) error {
	now := r.Now()
	switch {
	case !now.Before(p.ExpiresAt):
		return fmt.Errorf("plan %s expired at %s: %w", id, stamp(p.ExpiresAt), ErrRefused)
	case len(p.Items) == 0 || len(p.Items) > p.Max:
		return fmt.Errorf("plan %s has %d items, its maximum is %d: %w", id, len(p.Items), p.Max, ErrRefused)
	}
	if err := r.checkGate(p); err != nil {
		return fmt.Errorf("plan %s: %w: %w", id, err, ErrRefused)
	}
	if n := p.Discards(); n > 0 && (n != len(p.Items) || p.Tier.Needed() == 0) {
		return fmt.Errorf("plan %s discards %d of %d items under the tier %s: %w", id, n, len(p.Items), p.Tier, ErrRefused)
	}
	if p.Lifts.Edit != nil {
		if _, err := NewEditor(p.Lifts.Edit, r.Decode); err != nil {
			return fmt.Errorf("plan %s: %w: %w", id, err, ErrRefused)
		}
	}
	if _, err := ParseRate(p.RatePerSecond); err != nil {
		return fmt.Errorf("plan %s: %w: %w", id, err, ErrRefused)
	}
	return nil
}

// inForce are the policy and the settings as they are now.
func (r *Runner) inForce(ctx context.Context) (Digests, error) {
	if r.InForce == nil {
		return r.Current, nil
	}
	d, err := r.InForce(ctx)
	if err != nil {
		return d, fmt.Errorf("policy and settings in force: %w", err)
	}
	return d, nil
}

// changedSince names what is not as it was when the plan was made.
func (r *Runner) changedSince(p Plan, now Digests) string {
	switch {
	case p.Store != r.Plans.StoreID():
		return "it was made in another store"
	case p.PolicySHA256 != now.Policy:
		return "policy changed"
	case p.SettingsSHA256 != now.Settings:
		return "settings changed"
	default:
		return ""
	}
}
