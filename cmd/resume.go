package cmd

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// resumeOptions are what resume takes.
type resumeOptions struct {
	app    *app
	run    string
	reason string
}

func newResumeCmd(a *app) *cobra.Command {
	o := &resumeOptions{app: a}
	c := &cobra.Command{
		Use: "resume RUN", Short: "Go on with a run that is paused, interrupted or dead",
		Long: `Let a run go on that "redrivectl pause" holds: its own process does, within a
second, and never faster than the plan's rate.

Of a run that crashed, lost its store or was interrupted, settle the open intents,
and then do what its plan has left. After the plan's expiry or revocation it only
acknowledges what was already handed over; so it does for a run that is to be
aborted, which ends with that.`,
		Example: "  redrivectl runs list\n  redrivectl resume 81c2 --yes\n  redrivectl resume 81c2 --reason \"the provider is well again\"",
		Args:    exactArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.run = args[0]
			return o.resume(c.Context())
		},
	}
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit log")
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *resumeOptions) resume(ctx context.Context) error {
	a := o.app
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	rr, err := st.LoadRun(ctx, o.run)
	if err != nil {
		return notFound("run", o.run, err)
	}
	if rr.Lives && rr.Wish.Kind == redrive.WishPause {
		return a.lift(ctx, st, rr, o.reason)
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
	r.Reason = o.reason
	queue := sp.Plan.Queue // the rest of the plan the run reads anew
	ended, err := r.Resume(ctx, string(rr.ID))
	return a.reportRun(ended, queue, "redrivectl runs show "+string(rr.ID), err)
}
