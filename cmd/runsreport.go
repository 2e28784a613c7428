package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type runsReportOptions struct {
	app      *app
	run      string
	markdown bool
}

func newRunsReportCmd(a *app) *cobra.Command {
	o := &runsReportOptions{app: a}
	c := &cobra.Command{
		Use: "report RUN", Short: "Report a run, for a person and for the incident ticket",
		Long: `Report a run, living or past: what was planned and who approved it, what was done
by failure class, at which rate, which second effects it prevented, what became
of the redriven jobs since, what is left and which command it needs, the
archives, and where the run stands in the audit log.

Everything is derived from the plan, its approvals, the audit records, the
ledger's rows and the last kept look at the queue, as of now; nothing is changed
and the queue is not looked at. A source that does not answer is named, and the
others are reported. The whole audit log is verified: where it does not verify,
the report is printed all the same, and the exit code is 5.

With --markdown the report is a ticket in Markdown.`,
		Example: "  redrivectl runs report 81c2\n  redrivectl runs report 81c2 --markdown > ticket.md\n  redrivectl runs report 81c2 -o json",
		Args:    exactArgs("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.run = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.report(c.Context())
		},
	}
	c.Flags().BoolVar(&o.markdown, "markdown", false, "write a ticket in Markdown")
	return exits(c, exitRefused, exitAudit, exitInterrupted)
}

func (o *runsReportOptions) validate() error {
	if !o.markdown {
		return nil
	}
	return o.app.asIs("a ticket")
}

func (o *runsReportOptions) report(ctx context.Context) error {
	st, err := o.app.storeToRead(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return notFound("run", o.run, redrive.ErrNotFound)
	}
	r := &runReporter{app: o.app, st: st}
	if err := r.gather(ctx, o.run); err != nil {
		return err
	}
	for _, s := range r.view.Sources {
		if s.silent() {
			o.app.note("%s did not answer: %s", s.Source, or(s.Why))
		}
	}
	if err := o.print(r.view); err != nil {
		return err
	}
	if !r.view.Audit.OK {
		return fail(exitAudit, "redrivectl audit verify", "report run %s: %w", short(r.view.Run), audit.ErrBroken)
	}
	return nil
}

func (o *runsReportOptions) print(v runReportView) error {
	if o.markdown {
		return o.app.write(v.markdown())
	}
	return o.app.print(v.result())
}

// runReporter gathers what every source tells of one run. A source that does not
// answer is noted and hinders no other.
type runReporter struct {
	app     *app
	st      *store.Store
	run     redrive.RunRecord
	plan    redrive.Plan
	account *redrive.Account
	queue   config.Queue // of the config in force; zero where it has none by that name

	view runReportView
	left leftovers
}

// gather fails when the store does not know the run, or its plan is not what was
// approved.
func (r *runReporter) gather(ctx context.Context, prefix string) error {
	var err error
	if r.run, err = r.st.LoadRun(ctx, prefix); err != nil {
		return notFound("run", prefix, err)
	}
	sp, err := r.st.LoadPlan(ctx, string(r.run.Plan))
	if err != nil {
		return err
	}
	if r.plan, err = sp.Verify(); err != nil {
		return err
	}
	r.account = redrive.NewAccount(r.plan)
	r.planned(sp)
	r.source("audit log", func() (int, error) { return r.log(ctx) })
	r.source("approvals", func() (int, error) { return r.approvals(ctx) })
	r.done()
	r.source("verdicts", func() (int, error) { return r.verdicts(ctx) })
	r.source("archives", func() (int, error) { return r.archives(ctx) })
	if err := r.since(ctx); err != nil {
		return err
	}
	r.view.Left = r.left.views(r.needs())
	if err := r.verify(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// source reads one source and notes how that went.
func (r *runReporter) source(name string, read func() (int, error)) {
	n, err := read()
	r.view.Sources = append(r.view.Sources, newSourceView(name, n, err))
}

// log takes the plan's records, one by one.
func (r *runReporter) log(ctx context.Context) (int, error) {
	err := r.st.FindAudit(ctx, audit.Query{Plan: string(r.run.Plan), OldestFirst: true}, func(e audit.Entry) error {
		r.account.See(e.Record)
		return nil
	})
	r.account.Stop(r.app.now(), r.run.Lives)
	a := r.account
	v := &r.view.Audit
	v.First, v.Last, v.Records = seqText(a.First), seqText(a.Last), a.Records
	for _, s := range a.Sessions {
		r.view.Sessions = append(r.view.Sessions, sessionView{
			StartedAt: s.From.UTC(), EndedAt: s.To.UTC(), By: s.By.Name, Known: s.By.Known, Host: s.Host, Resumed: s.Resumed, State: text(string(s.Ended)),
		})
	}
	return a.Records, err
}

func (r *runReporter) approvals(ctx context.Context) (int, error) {
	as, err := r.st.Approvals(ctx, r.run.Plan)
	for _, s := range as {
		r.view.Approvals = append(r.view.Approvals, statementView{
			Decision: s.Decision, Person: s.Approver, Known: s.Known, Reason: term.Mask(s.Reason), Solo: text(term.Mask(s.Solo)), At: s.NotBefore.UTC(),
		})
	}
	return len(as), err
}

// archives counts the copies that the run kept before it took them away.
func (r *runReporter) archives(ctx context.Context) (int, error) {
	v := &r.view.Archives
	var first, last time.Time
	err := r.st.Archives(ctx, store.ArchiveQuery{Run: r.run.ID}, func(c store.ArchivedCopy) error {
		v.Count++
		v.Actions[c.Action]++
		v.Bytes += c.Bytes
		if first.IsZero() || c.KeptUntil.Before(first) {
			first = c.KeptUntil
		}
		if c.KeptUntil.After(last) {
			last = c.KeptUntil
		}
		return nil
	})
	v.FirstUntil, v.LastUntil = moment(first), moment(last)
	return v.Count, err
}

// verify says what the audit log is worth, whole. One that cannot be read does not
// verify.
func (r *runReporter) verify(ctx context.Context) error {
	report, err := r.st.VerifyAudit(ctx)
	if errors.Is(err, context.Canceled) {
		return err
	}
	v := &r.view.Audit
	v.OK, v.Head, v.Problems = err == nil && report.OK, report.Head, append([]audit.Problem{}, report.Problems...)
	if err != nil {
		v.Problems = append(v.Problems, audit.Problem{What: term.Mask(err.Error())})
	}
	return nil
}

// write puts a text of several lines on standard output as it is.
func (a *app) write(text string) error {
	a.live.Finish()
	_, err := a.stdout.Write([]byte(strings.TrimRight(text, "\n") + "\n"))
	return err
}
