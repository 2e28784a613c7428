package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type reconcileOptions struct {
	app   *app
	queue string
	apply bool
	limit int
	sel   redrive.Selection // which jobs; empty: all, and the orphans
	seen  *keptLook         // in whose place the queue is not looked at; nil: it is
}

func newReconcileCmd(a *app) *cobra.Command {
	o := &reconcileOptions{app: a}
	c := &cobra.Command{
		Use:   "reconcile QUEUE",
		Short: "Ask the provider which jobs already had their effect",
		Long: `Ask the provider about the quarantined jobs whose effect is not known, and about
the ledger's rows that are sending past their deadline with no dead copy
(orphans). Every verdict is kept with its evidence.

Without --apply nothing changes, and the best no is provisional: only a row that
was fenced first cannot be sent behind our back. With --apply the rows are
fenced, asked about, looked at a second time, and moved to reconciled or failed,
each move with its audit record.`,
		Example:           "  redrivectl reconcile digests\n  redrivectl reconcile digests --apply\n  redrivectl reconcile digests --apply --yes -o json",
		Args:              exactArgs("QUEUE"),
		ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			if o.limit < 0 {
				return usagef("--limit must not be negative")
			}
			if err := o.sel.Validate(); err != nil {
				return usagef("%w", err)
			}
			o.queue = args[0]
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.sel.Class, "class", nil, "only jobs of these failure classes")
	f.StringArrayVar(&o.sel.Jobs, "job", nil, "only this job, by job key or message ID (repeatable)")
	f.StringVar(&o.sel.Where, "where", "", "only jobs for which this CEL condition holds, as plan create takes it")
	must(c.RegisterFlagCompletionFunc("class", completeFrom(classNames)))
	c.Flags().BoolVar(&o.apply, "apply", false, "fence rows, and record in the ledger what is proven")
	c.Flags().IntVar(&o.limit, "limit", 0, "ask the provider about no more than this many jobs (0: all)")
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *reconcileOptions) run(ctx context.Context) error {
	q, err := o.app.queue(ctx, o.queue)
	if err != nil {
		return err
	}
	if q.provider == nil {
		return fail(exitFailed, "configure providers.NAME and "+queueKey(q.name, "provider"),
			"queue %s has no provider to ask", q.name)
	}
	if o.apply {
		if err := o.app.confirm(o.question(q)); err != nil {
			return err
		}
	}
	st, err := o.app.storeFor(ctx, q.name)
	if err != nil {
		return err
	}
	r, err := o.app.reconciler(q, st)
	if err != nil {
		return err
	}
	jobs, seen, err := o.jobs(ctx, q)
	if err != nil {
		return err
	}
	p := o.app.progress()
	req := reconcile.Request{Jobs: jobs, BrowseComplete: seen.Complete, Apply: o.apply, Limit: o.limit}
	if !o.sel.Empty() {
		if req.Only, err = o.sel.Filter(o.app.now()); err != nil {
			return err
		}
	}
	sum, err := r.Run(ctx, req, func(s reconcile.Progress) {
		p.Update(term.Step{What: "reconciling " + q.name + ", " + s.Step, Done: int64(s.Done), Total: int64(s.Total)})
		o.app.screen.found(s.Found)
	})
	if err != nil && sum.Checked == 0 {
		return withHint(err, o.hint(err))
	}
	return errors.Join(o.print(sum, seen.Complete), err)
}

func (o *reconcileOptions) question(q *queue) string {
	of := q.name
	if !o.sel.Empty() {
		of += " (" + term.Mask(clip(o.sel.Canonical(), longestSelection)) + ")"
	}
	return fmt.Sprintf("Fence and move ledger rows of %s by what provider %s says?", of, q.cfg.Provider)
}

// longestSelection is how many characters of a selection a question has.
const longestSelection = 160

// jobs are the queue's, from a new look unless there is one.
func (o *reconcileOptions) jobs(ctx context.Context, q *queue) ([]job.Job, broker.Completeness, error) {
	if o.seen != nil {
		return o.seen.found(), o.seen.completeness(), nil
	}
	return o.app.allJobs(ctx, q, func(job.Job) {})
}

func (o *reconcileOptions) hint(err error) string {
	if errors.Is(err, audit.ErrNotWritable) {
		return "redrivectl audit verify"
	}
	return "redrivectl status " + o.queue
}

func (o *reconcileOptions) print(sum reconcile.Summary, complete bool) error {
	r := result{
		Object:       sum,
		Headers:      []string{"job_key", "verdict", "because", "action", "needs"},
		BriefHeaders: []string{"job", "verdict", "action", "needs, or because"},
		Before:       []string{fmt.Sprintf("%s: %d checked; %s", sum.Queue, sum.Checked, verdictText(sum.Verdicts))},
	}
	for _, j := range sum.Jobs {
		r.Elements = append(r.Elements, j)
		verdict, because := firstText(string(j.Verdict)), firstText(term.Mask(j.Because))
		r.Rows = append(r.Rows, []string{j.JobKey, verdict, because, string(j.Action), firstText(j.Needs)})
		r.Brief = append(r.Brief, []string{j.JobKey, verdict, string(j.Action), firstText(j.Needs, because)})
	}
	switch {
	case o.apply && !sum.Applied:
		r.After = []string{"", "nothing was changed: the ledger is read-only"}
	case sum.Checked == 0:
		r.After = []string{"", "no effect is unknown: there was nothing to ask about"}
	case !o.apply:
		r.After = []string{"", "nothing was changed; a conclusive no needs: redrivectl reconcile " + sum.Queue + " --apply"}
	}
	if err := o.app.print(r); err != nil {
		return err
	}
	if !complete {
		o.app.note("the look at the queue was incomplete: orphans may have copies that were not seen")
	} else if !sum.OrphansExact && o.sel.Empty() {
		o.app.note("orphans were not asked about: another queue shares the ledger and has another provider or worker; give each a consumer")
	}
	if !complete || sum.Verdicts[reconcile.Unavailable] > 0 {
		return silently(exitPartly)
	}
	return nil
}

func verdictText(vs map[reconcile.Verdict]int) string {
	m := map[string]int{}
	for v, n := range vs {
		m[string(v)] = n
	}
	return counts(m)
}

// reconciler is the assessor with what it takes to ask and to write.
func (a *app) reconciler(q *queue, st *store.Store) (*reconcile.Reconciler, error) {
	who, customer, err := a.signs(st)
	if err != nil {
		return nil, err
	}
	r := a.assessor(q, st)
	r.Log, r.Who, r.Customer = st, who, customer
	r.Open = func(ctx context.Context, queue string) ([]audit.Record, error) { return openMoves(ctx, st, queue) }
	return r, nil
}

// openMoves are the intents of fences and moves in a queue that have no outcome
// yet, oldest first.
func openMoves(ctx context.Context, st *store.Store, queue string) ([]audit.Record, error) {
	type key struct{ action, job string }
	open := map[key]audit.Record{}
	for _, action := range moveActions {
		err := st.FindAudit(ctx, audit.Query{Queue: queue, Action: action, OldestFirst: true}, func(e audit.Entry) error {
			k := key{e.Record.Action, e.Record.JobKey}
			switch {
			case e.Record.Phase == audit.Intent:
				open[k] = e.Record
			case e.Record.Closes():
				delete(open, k)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(open), func(x, y audit.Record) int { return int(x.Seq - y.Seq) }), nil
}

// moveActions are what reconciling records outside a run.
var moveActions = []string{"fence", "reconcile"}
