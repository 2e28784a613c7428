package redrive

import (
	"context"
	"errors"
	"fmt"
)

// Check says whether Run would begin the plan now, by the rules that Run begins
// by, and begins nothing. Approvals that are not in the store yet can be counted
// too. A lease that another run holds is not looked at.
func (r *Runner) Check(ctx context.Context, prefix string, more ...Approval) error {
	p, err := r.Plans.OpenPlan(ctx, prefix)
	if err != nil {
		return fmt.Errorf("load plan %s: %w", prefix, err)
	}
	as, err := r.Plans.Approvals(ctx, p.ID)
	if err != nil {
		return errors.Join(fmt.Errorf("approvals of plan %s: %w", p.ID, err), p.Items.Close())
	}
	return errors.Join(r.mayBegin(p, append(as, more...)), p.Items.Close())
}
