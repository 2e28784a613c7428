package redrive

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/reconcile"
)

// mayBegin stands inside the transaction that makes a run, where the plan was
// hashed again: everything that was approved must still hold.
func (r *Runner) mayBegin(p Frozen, as []Approval) error {
	// A waiting plan may have its approvals: the state follows the last of them
	// in a transaction of its own.
	if !p.State.Open() {
		return fmt.Errorf("plan %s is %s: %w", p.ID, p.State, ErrRefused)
	}
	if why := r.changedSince(p.Terms, r.Current); why != "" {
		return fmt.Errorf("plan %s: %s: %w", p.ID, why, ErrRefused)
	}
	if err := r.sameBounds(p); err != nil {
		return err
	}
	return CheckApprovals(p, as, r.Now(), r.Persons)
}

func (r *Runner) sameBounds(p Frozen) error {
	id, now := p.ID, r.Now()
	switch {
	case !now.Before(p.ExpiresAt):
		return fmt.Errorf("plan %s expired at %s: %w", id, stamp(p.ExpiresAt), ErrRefused)
	case p.Items.Len() == 0 || p.Items.Len() > p.Max:
		return fmt.Errorf("plan %s has %d items, its maximum is %d: %w", id, p.Items.Len(), p.Max, ErrRefused)
	}
	if err := r.checkGate(p.Terms); err != nil {
		return fmt.Errorf("plan %s: %w: %w", id, err, ErrRefused)
	}
	if n := p.Items.Actions()[reconcile.Discard]; n > 0 && (n != p.Items.Len() || p.Tier.Needed() == 0) {
		return fmt.Errorf("plan %s discards %d of %d items under the tier %s: %w", id, n, p.Items.Len(), p.Tier, ErrRefused)
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
func (r *Runner) changedSince(p Terms, now Digests) string {
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
