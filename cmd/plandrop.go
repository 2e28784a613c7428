package cmd

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newPlanDropCmd(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "drop PLAN", Short: "Withdraw a plan that has not begun, and free its jobs",
		Long: `Withdraw a plan whose run has not begun. Its jobs are free for another plan, and
nothing of it can be run any more. A plan that runs cannot be dropped: revoke
stops it. Of a drop and a run that begin together, one wins and the other is
refused.`,
		Example: "  redrivectl plan drop 3f9a --reason \"wrong selection\"\n  redrivectl plan drop 3f9a --reason \"wrong selection\" --yes -o json",
		Args:    exactArgs("PLAN"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.decide(c.Context(), args[0], func(ap *redrive.Approver) (approveView, error) {
				return a.drop(c.Context(), ap, args[0], reason)
			})
		},
	}
	reasonFlag(c, &reason, "why")
	return exits(c, exitRefused, exitAudit)
}

func (a *app) drop(ctx context.Context, ap *redrive.Approver, prefix, reason string) (approveView, error) {
	s, err := ap.Tally(ctx, prefix)
	if err != nil {
		return approveView{}, err
	}
	if s.Plan.State.Open() { // else Drop says why not
		question := fmt.Sprintf("Drop plan %s of %s, %s, with %d items?", short(string(s.Plan.ID)), s.Plan.Plan.Queue, s.Plan.State, len(s.Plan.Plan.Items))
		if err := a.confirm(question); err != nil {
			return approveView{}, err
		}
	}
	sp, err := ap.Drop(ctx, string(s.Plan.ID), givenReason(reason))
	return approveView{Plan: string(sp.ID), Decision: "drop", Needed: s.Needed, State: string(sp.State)}, err
}
