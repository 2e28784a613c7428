package cmd

import (
	"context"
	"fmt"
	"os"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// resumeOptions are what resume takes.
type resumeOptions struct {
	app     *app
	run     string
	promote bool
	reason  string
	wait    waitFlag
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
aborted, which ends with that.

A run whose gate was inconclusive, or whose circuit breaker tripped, goes on with
--promote, which needs a reason and is on record with who did it: that person answers
for what the gate could not find out, or for the cause of what went wrong. If its
process waits, that goes on, else this one does. Without --promote the gate looks once
more at what has become of the canary since, and a circuit breaker stays tripped.`,
		Example: "  redrivectl runs list\n  redrivectl resume 81c2 --yes\n  redrivectl resume 81c2 --reason \"the provider is well again\"\n" +
			"  redrivectl resume 81c2 --promote --reason \"the provider's console shows all ten\"",
		Args: exactArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.run = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.resume(c.Context())
		},
	}
	c.Flags().BoolVar(&o.promote, "promote", false, "let a run go on whose gate was inconclusive, or whose circuit breaker tripped")
	c.Flags().StringVar(&o.reason, "reason", "", "why, for the audit log (required with --promote)")
	o.wait.add(c)
	return exits(c, exitPartly, exitRefused, exitAudit, exitGate, exitInterrupted)
}

func (o *resumeOptions) validate() error {
	if o.promote {
		return needReason(o.reason)
	}
	return nil
}

func (o *resumeOptions) resume(ctx context.Context) error {
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	rr, err := st.LoadRun(ctx, o.run)
	if err != nil {
		return notFound("run", o.run, err)
	}
	switch {
	case o.promote:
		return o.promoted(ctx, st, rr)
	case rr.Lives && rr.Wish.Kind == redrive.WishPause:
		return o.app.lift(ctx, st, rr, o.reason)
	case rr.Lives && rr.State == redrive.RunPaused && rr.Gate.Waits():
		return fail(exitRefused, promoteHint(short(string(rr.ID))), "run %s waits for a person: %s", short(string(rr.ID)), term.Mask(rr.Gate.Said()))
	}
	return o.goOn(ctx, st, rr, fmt.Sprintf("Resume run %s on %s?", rr.ID, rr.Queue))
}

// promoted lets a run go on at its gate: in its own process where it has one, else
// here.
func (o *resumeOptions) promoted(ctx context.Context, st *store.Store, rr redrive.RunRecord) error {
	if rr.Gate.Waits() && !rr.State.Ended() { // else it is refused below, without a question
		question := fmt.Sprintf("Let run %s on %s go on with all of its plan, though %s?", short(string(rr.ID)), rr.Queue, term.Mask(rr.Gate.Said()))
		if err := o.app.confirm(question); err != nil {
			return err
		}
	}
	by, err := o.app.controller(st)
	if err != nil {
		return err
	}
	if _, err := by.Promote(ctx, rr.ID, o.reason); err != nil {
		return withHint(err, "redrivectl runs show "+short(string(rr.ID)))
	}
	if rr.Lives {
		return o.app.printControl(ctx, st, rr.ID)
	}
	return o.goOn(ctx, st, rr, "")
}

// goOn carries the run out in this process, once the question is answered; empty: it
// was.
func (o *resumeOptions) goOn(ctx context.Context, st *store.Store, rr redrive.RunRecord, question string) error {
	r, err := o.app.runner(ctx, rr.Queue, st)
	if err != nil {
		return err
	}
	if question != "" {
		if err := o.app.confirm(question); err != nil {
			return err
		}
	}
	r.Reason, r.WaitAtGate = o.reason, o.wait.waits(o.app)
	ended, err := r.Resume(ctx, string(rr.ID))
	return o.app.reportRun(ended, rr.Queue, "redrivectl runs show "+string(rr.ID), err)
}

// waitFlag says whether a run waits at an inconclusive gate for a person at another
// terminal.
type waitFlag struct {
	typed *bool
}

func (f *waitFlag) add(c *cobra.Command) {
	parse := func(s string) (bool, error) {
		switch s {
		case "true", "false":
			return s == "true", nil
		default:
			return false, fmt.Errorf("%q is neither true nor false", s)
		}
	}
	c.Flags().Var(parsedFlag[bool]{&f.typed, parse, func(b bool) string { return fmt.Sprint(b) }, "bool"}, "wait",
		"where the gate is inconclusive or the circuit breaker trips, wait for a person to promote the run, instead of ending with exit code 6 (default: on a terminal)")
	c.Flags().Lookup("wait").NoOptDefVal = "true"
}

// waits is what was typed, else whether somebody sits here.
func (f *waitFlag) waits(a *app) bool {
	if f.typed != nil {
		return *f.typed
	}
	in, ok := a.stdin.(*os.File)
	return ok && !a.output.isJSON() && term.Detect(in, a.lookupEnv, true).IsTTY && term.Detect(a.stderr, a.lookupEnv, true).IsTTY
}

// promoteHint is the command that lets a run go on at its gate.
func promoteHint(run string) string { return "redrivectl resume " + run + " --promote --reason WHY" }
