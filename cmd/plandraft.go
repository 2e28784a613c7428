package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func (o *planOptions) run(ctx context.Context) error {
	q, err := o.app.queue(ctx, o.queue)
	if err != nil {
		return err
	}
	if err := o.fits(q.policy); err != nil {
		return err
	}
	if err := o.checkDestination(ctx, q); err != nil {
		return err
	}
	st, err := o.app.storeFor(ctx, q.name)
	if err != nil {
		return err
	}
	p, err := o.app.planner(q, st)
	if err != nil {
		return err
	}
	req, seen, err := o.request(ctx, q, st)
	if err != nil {
		return err
	}
	if !seen.Complete {
		o.app.note("the look was incomplete: %s", seen.Why)
	}
	d, err := p.Draft(ctx, req)
	if err != nil {
		return withHint(err, o.hint(err))
	}
	if !o.dryRun {
		if err := p.Save(ctx, d); err != nil {
			return err
		}
	}
	if err := o.print(ctx, d); err != nil {
		return err
	}
	if !seen.Complete {
		return silently(exitPartly)
	}
	return nil
}

// fits refuses classes that the queue's policy does not have.
func (o *planOptions) fits(p *classify.Policy) error {
	if o.as != "" && !p.Has(classify.Class(o.as)) {
		return fail(exitUsage, "redrivectl policy check --help", "--as %s: the policy of %s has no such class", o.as, o.queue)
	}
	return hasClasses(p, o.sel.Class)
}

// checkDestination refuses, before anything is looked at, to send to where no worker
// takes anything: the dead-letter queue itself, or a typed queue that is not there.
// Who may not ask about a queue may still plan for another who sends.
func (o *planOptions) checkDestination(ctx context.Context, q *queue) error {
	if sends := o.action == "" || o.action == string(reconcile.Redrive); !sends {
		return nil
	}
	d, err := q.describe(ctx)
	if err != nil {
		return err
	}
	to := q.cfg.Sources
	if o.lifts.To != "" {
		err = isThere(ctx, q.broker, o.lifts.To)
		if err == nil {
			to, err = asOrigins(ctx, q.broker, []string{o.lifts.To})
		}
	}
	switch {
	case errors.Is(err, broker.ErrDenied):
		o.app.note("whether destination %s is there is not known: %v", o.lifts.To, err)
		return nil
	case err != nil:
		return fail(exitFailed, "name the destination as its broker does", "destination %s: %w", o.lifts.To, err)
	case slices.Contains(to, d.Queue):
		return fail(exitRefused, "--to QUEUE names another", "%s is the dead-letter queue itself: nothing is redriven to where it is", cmp.Or(o.lifts.To, d.Queue))
	default:
		return nil
	}
}

// isThere asks for a destination of a broker that tells of it.
func isThere(ctx context.Context, b broker.Broker, destination string) error {
	r, ok := b.(broker.Retrier)
	if !ok {
		return nil
	}
	_, err := r.RetriesFor(ctx, destination)
	return err
}

// archiveLife is how long the archive keeps what was settled or discarded.
const archiveLife = 90 * 24 * time.Hour

// hint is where to look when nothing could be planned.
func (o *planOptions) hint(err error) string {
	var in *redrive.InPlanError
	var empty *redrive.EmptyError
	switch {
	case errors.As(err, &in):
		return "redrivectl plan show " + short(string(in.Plan))
	case errors.As(err, &empty) && len(empty.Held) > 0:
		return "what is held needs: " + counts(needsOf(empty.Held))
	case errors.As(err, &empty) && len(passedOver(empty.LeftOut)) > 0:
		return "what was selected is left out: " + counts(passedOver(empty.LeftOut))
	case errors.As(err, &empty):
		return "redrivectl list " + o.queue + " --jobs"
	case errors.Is(err, audit.ErrNotWritable), errors.Is(err, audit.ErrBroken):
		return "redrivectl audit verify"
	default:
		return ""
	}
}

// passedOver is what was selected and left out all the same, by why: it is in
// another plan, for one.
func passedOver(leftOut map[string]int) map[string]int {
	over := maps.Clone(leftOut)
	delete(over, "not_selected")
	return over
}

func needsOf(held []redrive.Held) map[string]int {
	needs := map[string]int{}
	for _, h := range held {
		needs[h.Needs]++
	}
	return needs
}

// jobs are the queue's, from a new look or from the last one.
func (o *planOptions) jobs(ctx context.Context, q *queue, st *store.Store, es *edits) ([]job.Job, broker.Completeness, error) {
	if o.seen != nil && o.lifts.Edit == nil {
		return o.seen.found(), o.seen.completeness(), nil
	}
	if !o.capture {
		return o.app.allJobs(ctx, q, es.add)
	}
	c, found, err := st.LatestCapture(ctx, q.name)
	if err != nil {
		return nil, broker.Completeness{}, err
	}
	if !found {
		return nil, broker.Completeness{}, fail(exitRefused, "redrivectl list "+q.name, "there is no capture of %s from the last 24 hours", q.name)
	}
	o.app.note("selecting from the look at %s", utc(c.CapturedAt))
	return c.Jobs, broker.Completeness{Complete: c.Complete, Why: c.Why}, nil
}

// request is what is asked of the planner, and how complete the look was.
func (o *planOptions) request(ctx context.Context, q *queue, st *store.Store) (redrive.Request, broker.Completeness, error) {
	es, err := newEdits(ctx, q, o.lifts.Edit)
	if err != nil {
		return redrive.Request{}, broker.Completeness{}, err
	}
	jobs, seen, err := o.jobs(ctx, q, st, es)
	if err != nil {
		return redrive.Request{}, seen, err
	}
	digests, err := o.app.digests(q)
	if err != nil {
		return redrive.Request{}, seen, err
	}
	facts, err := o.app.queueFacts(ctx, q)
	return redrive.Request{
		Queue: facts, Jobs: jobs, Edits: es.made, Select: o.sel, Only: reconcile.Action(o.action), Max: o.max,
		Rate: o.parsedRate, Expires: o.expires, Reason: o.reason, Lifts: o.lifts, Digests: digests,
		ArchiveRetention: archiveLife, Gate: o.gate.request(q.policy.Gate(), o.action),
	}, seen, err
}

func (o *planOptions) print(ctx context.Context, d redrive.Draft) error {
	state := redrive.PlanWaiting
	if d.Plan.Tier.Needed() == 0 {
		state = redrive.PlanApproved
	}
	v := newPlanView(d.ID, d.Plan, state, 0)
	v.DryRun, v.Solo = o.dryRun, o.app.solo()
	v.Held = []jobView{}
	for _, x := range d.Held {
		v.Held = append(v.Held, o.app.jobView(x))
	}
	if o.dryRun && d.Plan.Lifts.Edit != nil {
		var err error
		if v.Diffs, err = o.app.diffs(ctx, d.Plan); err != nil {
			return err
		}
	}
	r := v.result(d.Plan, false)
	if d.Plan.Lifts.Edit != nil && !o.dryRun {
		r.After = append(r.After, "", fmt.Sprintf("what it changes: redrivectl plan show %s --diff", short(v.Plan)))
	}
	switch {
	case o.dryRun:
		r.After = append(r.After, "", "dry run: nothing was kept")
	case v.Needed > 0 && v.Solo != nil:
		r.After = append(r.After, "", fmt.Sprintf("next: redrivectl approve %s --items %d --reason WHY", short(v.Plan), v.ItemCount))
	case v.Needed > 0:
		r.After = append(r.After, "", fmt.Sprintf("next, as another person: redrivectl approve %s --items %d --reason WHY", short(v.Plan), v.ItemCount))
	default:
		r.After = append(r.After, "", fmt.Sprintf("next: redrivectl run %s", short(v.Plan)))
	}
	return o.app.print(r)
}
