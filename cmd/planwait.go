package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// pollEvery is how often a waiting command looks at the store.
const pollEvery = 2 * time.Second

// What a plan can be waited for.
const (
	forApproved = "approved"
	forFinished = "finished"
)

type planWaitOptions struct {
	app     *app
	plan    string
	goal    string
	timeout time.Duration
}

func newPlanWaitCmd(a *app) *cobra.Command {
	o := &planWaitOptions{app: a}
	c := &cobra.Command{
		Use: "wait PLAN", Short: "Wait until a plan is approved, or has run",
		Long: `Wait until a plan has all the approvals that it needs, or with --for finished
until its run has ended, whatever came of it: "redrivectl runs show" says what.
Then print the plan as it stands.

A plan that was rejected, revoked or dropped, or that expired, ends the wait with
code 4. With --timeout, a plan that is not there in time ends it with code 3; a
run that died leaves its plan running, so a wait for its end wants a time-out.`,
		Example: "  redrivectl plan wait 3f9a\n  redrivectl plan wait 3f9a --timeout 30m -o json\n" +
			"  redrivectl plan wait 3f9a --for finished --timeout 2h",
		Args: exactArgs("PLAN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.plan = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(&o.goal, "for", forApproved, "what to wait for: approved or finished")
	c.Flags().Var(lengthFlag{to: &o.timeout}, "timeout", "wait no longer than this, such as 30m (default: until the plan expires or ends)")
	must(c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{forApproved, forFinished}, cobra.ShellCompDirectiveNoFileComp)))
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *planWaitOptions) validate() error {
	if o.goal != forApproved && o.goal != forFinished {
		return usagef("--for %s: use %s or %s", o.goal, forApproved, forFinished)
	}
	return nil
}

func (o *planWaitOptions) run(ctx context.Context) error {
	progress := o.app.progress()
	w := planWait{
		look: o.look, now: o.app.now, sleep: sleep, goal: o.goal, limit: o.timeout,
		tell: func(s redrive.Tally) {
			progress.Update(term.Step{
				What: fmt.Sprintf("waiting for plan %s to be %s", short(string(s.Plan.ID)), o.goal), Done: -1,
				Note: fmt.Sprintf("%s, %d of %d approvals", s.Plan.State, s.Given, s.Needed),
			})
		},
	}
	s, err := w.wait(ctx)
	if err != nil && s.Plan.ID == "" {
		return notFound("plan", o.plan, err)
	}
	v := tallyView(s)
	v.Solo = o.app.solo()
	r := v.result(s.Plan.Plan, false)
	if err == nil {
		r.After = []string{"", "next: " + o.next(v)}
	}
	return errors.Join(o.app.print(r), withHint(err, "redrivectl plan show "+short(v.Plan)))
}

// next is what one waits for a plan for.
func (o *planWaitOptions) next(v planView) string {
	if v.ActiveRun != nil {
		return "redrivectl runs show " + short(*v.ActiveRun)
	}
	return "redrivectl run " + short(v.Plan)
}

// look reads the plan from the store as it is now.
func (o *planWaitOptions) look(ctx context.Context) (s redrive.Tally, err error) {
	err = o.app.withStoreNow(ctx, func(st *store.Store) error {
		s, err = o.app.approver(st).Tally(ctx, o.plan)
		return err
	})
	return s, err
}

// planWait looks at a plan now and then until it is where it should be.
type planWait struct {
	look  func(context.Context) (redrive.Tally, error)
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
	tell  func(redrive.Tally)
	goal  string
	limit time.Duration // 0: none
}

// wait returns the plan as it was seen last. The error is a refusal where the
// plan has ended otherwise, incomplete where the time is over, and ctx's where
// that ended first.
func (w planWait) wait(ctx context.Context) (redrive.Tally, error) {
	end := w.now().Add(w.limit)
	for {
		s, err := w.look(ctx)
		if err != nil {
			return redrive.Tally{}, err
		}
		if w.reached(s) {
			return s, nil
		}
		if !s.Plan.State.Live() {
			return s, fail(exitRefused, "", "plan %s is %s%s", s.Plan.ID, s.Plan.State, whoTookBack(s))
		}
		pause := pollEvery
		if w.limit > 0 {
			pause = min(pause, end.Sub(w.now()))
		}
		if pause <= 0 {
			return s, fail(exitPartly, "", "plan %s is %s after %s, and not %s", s.Plan.ID, s.Plan.State, term.Duration(w.limit), w.goal)
		}
		w.tell(s)
		if err := w.sleep(ctx, pause); err != nil {
			return redrive.Tally{}, err
		}
	}
}

func (w planWait) reached(s redrive.Tally) bool {
	switch s.Plan.State {
	case redrive.PlanFinished:
		return true
	case redrive.PlanRunning:
		return w.goal == forApproved
	default:
		return w.goal == forApproved && s.Approved && s.Plan.State.Open()
	}
}

func whoTookBack(s redrive.Tally) string {
	if a, ok := s.TakenBack(); ok {
		return fmt.Sprintf(": %s by %s, %q", a.Decision, a.Approver, a.Reason)
	}
	return ""
}
