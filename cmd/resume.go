package cmd

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newResumeCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "resume RUN", Short: "Go on with a run that is paused, interrupted or dead",
		Long: `Let a run go on that "redrivectl pause" holds: its own process does, within a
second, and never faster than the plan's rate.

Of a run that crashed, lost its store or was interrupted, settle the open intents,
and then do what its plan has left. After the plan's expiry or revocation it only
acknowledges what was already handed over; so it does for a run that is to be
aborted, which ends with that.`,
		Example: "  redrivectl runs list\n  redrivectl resume 81c2 --yes", Args: exactArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error { return a.resumeRun(c.Context(), args[0]) },
	}, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (a *app) resumeRun(ctx context.Context, prefix string) error {
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	rr, err := st.LoadRun(ctx, prefix)
	if err != nil {
		return notFound("run", prefix, err)
	}
	if rr.Lives && rr.Wish.Kind == redrive.WishPause {
		return a.lift(ctx, st, rr)
	}
	sp, err := st.LoadPlan(ctx, string(rr.Plan))
	if err != nil {
		return err
	}
	r, err := a.runner(ctx, sp.Plan.Queue, st)
	if err != nil {
		return err
	}
	if err := a.confirm(fmt.Sprintf("Resume run %s on %s?", rr.ID, sp.Plan.Queue)); err != nil {
		return err
	}
	queue := sp.Plan.Queue // the rest of the plan the run reads anew
	ended, err := r.Resume(ctx, string(rr.ID))
	return a.reportRun(ended, queue, "redrivectl runs show "+string(rr.ID), err)
}
