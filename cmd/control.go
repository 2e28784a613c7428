package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

func newPauseCmd(a *app) *cobra.Command {
	o := &controlOptions{app: a, kind: redrive.WishPause}
	return o.command(&cobra.Command{
		Use: "pause RUN", Short: "Hold a living run between two batches",
		Long: `Ask a run to pause, from any terminal that shares its store. It finishes the
batches in flight, gives back what it holds of the queue, keeps the queue as its
own, and sends nothing until "redrivectl resume". Its plan's expiry, a revocation,
"redrivectl abort" and Ctrl-C end it also while it is paused.

The answer says that the pause is asked for; "redrivectl runs show RUN --watch"
says when the run is paused. A run whose process has died cannot be paused: it
does nothing.`,
		Example: "  redrivectl pause 81c2 --reason \"the provider's error rate rises\"",
	}, exitRefused, exitAudit)
}

func newAbortCmd(a *app) *cobra.Command {
	o := &controlOptions{app: a, kind: redrive.WishAbort}
	return o.command(&cobra.Command{
		Use: "abort RUN", Short: "End a run for good, after the batches in flight",
		Long: `Ask a run to end, from any terminal that shares its store. It finishes the
batches in flight, gives back what it holds of the queue, settles what is left open
without sending anything, and ends as aborted. Its plan is finished and frees its
jobs; what it did stays done, and what remains needs another plan. It cannot be
taken back.

The answer says that the abort is asked for; "redrivectl runs show RUN --watch"
says when the run has ended. A run whose process has died, or that was
interrupted, is ended by this command itself.

Where it cannot be found out how an open intent ended, such as while the ledger
does not answer, the run is left interrupted with exit code 3, and keeps its jobs
until "redrivectl resume": which then settles those, and redrives nothing more.`,
		Example: "  redrivectl abort 81c2 --reason \"wrong selection\"\n  redrivectl abort 81c2 --reason \"wrong selection\" --yes -o json",
	}, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

// controlOptions are what pause and abort take.
type controlOptions struct {
	app    *app
	kind   redrive.WishKind
	run    string
	reason string
}

func (o *controlOptions) command(c *cobra.Command, codes ...int) *cobra.Command {
	c.Args = exactArgs("RUN")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.run = args[0]
		return o.ask(c.Context())
	}
	reasonFlag(c, &o.reason, "why")
	return exits(c, codes...)
}

func (o *controlOptions) ask(ctx context.Context) error {
	look, err := o.app.storeToRead(ctx)
	if err != nil {
		return err
	}
	if look == nil {
		return notFound("run", o.run, redrive.ErrNotFound)
	}
	r, err := look.LoadRun(ctx, o.run)
	if err != nil {
		return notFound("run", o.run, err)
	}
	if err := o.confirm(ctx, look, r); err != nil {
		return err
	}
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	by, err := o.app.controller(st)
	if err != nil {
		return err
	}
	if r, err = by.Ask(ctx, string(r.ID), o.kind, givenReason(o.reason)); err != nil {
		return withHint(err, "redrivectl runs show "+o.run)
	}
	if !r.Lives { // only an abort is taken for such a run
		return o.app.abortDead(ctx, st, r)
	}
	return o.app.printControl(ctx, st, r.ID)
}

// confirm asks before an abort that may come to pass; what is refused is said
// without a question.
func (o *controlOptions) confirm(ctx context.Context, st *store.Store, r redrive.RunRecord) error {
	if o.kind != redrive.WishAbort || r.State.Ended() {
		return nil
	}
	r, err := soFar(ctx, st, r)
	if err != nil {
		return err
	}
	return o.app.confirm(fmt.Sprintf("Abort run %s on %s, with %d of %d items left? It cannot be taken back.",
		short(string(r.ID)), r.Queue, r.Report.Remaining, r.Report.Planned))
}

func (a *app) controller(st *store.Store) (*redrive.Controller, error) {
	who, err := a.who()
	return &redrive.Controller{Runs: st, Who: who, Now: a.now}, err
}

// abortDead ends a run that nobody carries out, as the run itself would. If
// somebody resumes it at this moment, that process ends it.
func (a *app) abortDead(ctx context.Context, st *store.Store, r redrive.RunRecord) error {
	runner, err := a.runner(ctx, r.Queue, st)
	if err != nil {
		return err
	}
	_, err = runner.Resume(ctx, string(r.ID))
	var stopped *redrive.StoppedError
	switch {
	case errors.As(err, new(*redrive.TakenError)), errors.As(err, &stopped) && stopped.Aborted():
	case err != nil:
		return withHint(err, "redrivectl resume "+short(string(r.ID)))
	}
	if err := a.printControl(ctx, st, r.ID); err != nil {
		return err
	}
	if r, err = st.LoadRun(ctx, string(r.ID)); err == nil && !r.Lives && (r.State != redrive.RunAborted || r.Report.Unknown > 0) {
		return silently(exitPartly)
	}
	return err
}

// lift lets a paused run go on.
func (a *app) lift(ctx context.Context, st *store.Store, r redrive.RunRecord, reason string) error {
	w := r.Wish
	if err := a.confirm(fmt.Sprintf("Let run %s on %s go on? It was paused by %s: %s", short(string(r.ID)), r.Queue, w.Person, term.Mask(w.Reason))); err != nil {
		return err
	}
	by, err := a.controller(st)
	if err != nil {
		return err
	}
	if _, err := by.Lift(ctx, r.ID, reason); err != nil {
		return withHint(err, "redrivectl runs show "+short(string(r.ID)))
	}
	return a.printControl(ctx, st, r.ID)
}

// printControl prints how a run stands of which something was asked.
func (a *app) printControl(ctx context.Context, st *store.Store, id redrive.RunID) error {
	r, err := st.LoadRun(ctx, string(id))
	if err != nil {
		return err
	}
	if r, err = soFar(ctx, st, r); err != nil {
		return err
	}
	v := newRunRecordView(r, a.now())
	v.Solo = a.solo()
	out := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"run", v.Run},
		{"queue", v.Queue},
		{"state", v.loud(v.stateText())},
		{"done", v.done()},
	}}
	out.Rows = append(append(out.Rows, v.Asked.rows()...), soloRows(v.Solo)...)
	switch {
	case v.Lives:
		out.After = []string{"", "next: redrivectl runs show " + short(v.Run) + " --watch"}
	case !r.State.Ended():
		out.After = []string{"", "next: redrivectl resume " + short(v.Run)}
	}
	return a.print(out)
}

// wishView is what is asked of a run.
type wishView struct {
	What   string    `json:"what"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func newWishView(w redrive.Wish) *wishView {
	if w.Kind == "" {
		return nil
	}
	return &wishView{string(w.Kind), w.Person, term.Mask(w.Reason), w.At.UTC()}
}

// rows say in a table what is asked; nothing where nothing is.
func (v *wishView) rows() [][]string {
	if v == nil {
		return nil
	}
	return [][]string{{"asked", fmt.Sprintf("%s by %s at %s", v.What, v.By, utc(v.At))}, {"because", v.Reason}}
}

// paceText says how fast a run may go, and, where it was asked to slow down, how
// far that is below its plan's rate.
func paceText(p redrive.Pace) string {
	said := perSecond(p.Effective)
	if p.Slowed == 0 {
		return said
	}
	if p.Effective < p.Asked {
		said += " of " + perSecond(p.Asked)
	}
	return fmt.Sprintf("%s (lowered %s, to %s at least; last by the %s)", said, times(p.Slowed), perSecond(p.Lowest), p.By)
}

func perSecond(rate float64) string { return figure(rate) + "/s" }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// tellSlowed says at a run's own terminal that it goes slower than ever before.
func (a *app) tellSlowed(p redrive.Pace) {
	if p.Effective <= p.Lowest {
		a.note("the %s asks to slow down: the run goes on at %s of %s", p.By, perSecond(p.Effective), perSecond(p.Asked))
	}
}

// tellPause says at a run's own terminal that it is paused, or goes on.
func (a *app) tellPause(w redrive.Wish) {
	if w.Kind == "" {
		a.note("the run goes on")
		return
	}
	a.note("paused by %s: %s; it goes on with: redrivectl resume %s", w.Person, term.Mask(w.Reason), short(string(w.Run)))
}
