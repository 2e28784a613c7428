package redrive

import (
	"context"
	"fmt"
)

// Check says whether Run would begin the plan now, by the rules that Run begins
// by, and begins nothing. Approvals that are not in the store yet can be counted
// too. A lease that another run holds is not looked at.
func (r *Runner) Check(ctx context.Context, prefix string, more ...Approval) error {
	sp, err := r.Plans.LoadPlan(ctx, prefix)
	if err != nil {
		return fmt.Errorf("load plan %s: %w", prefix, err)
	}
	as, err := r.Plans.Approvals(ctx, sp.ID)
	if err != nil {
		return fmt.Errorf("approvals of plan %s: %w", sp.ID, err)
	}
	_, err = r.checkBegin(sp, append(as, more...))
	return err
}
