package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// triageDesk answers the triage screen. Each wish is an invocation of its own: it
// opens what the command of the same purpose opens, calls the same function, and
// closes all of it again before it answers.
type triageDesk struct {
	app   *app
	names []string // of the queues that the screen lists

	mu   sync.Mutex
	kept map[string]*keptLook // by queue
	ran  *runDone             // the last run that was carried out here; nil: none
	late bytes.Buffer         // for standard error, once the screen is gone
}

// newTriageDesk resolves the queues once, so that a slip of the pen is told before
// there is a screen.
func newTriageDesk(a *app, queue string) (*triageDesk, error) {
	if _, err := a.config(); err != nil {
		return nil, err
	}
	if queue != "" {
		if _, _, err := a.queueConfig(queue); err != nil {
			return nil, err
		}
	}
	names, err := a.queueNames(nil)
	return &triageDesk{app: a, names: names, kept: map[string]*keptLook{}}, err
}

// wish invokes the program once more for one thing that the screen asks.
func (d *triageDesk) wish(tell tui.Tell, do func(*app) error) (err error) {
	return d.wishFor(&listener{tell: tell}, do)
}

func (d *triageDesk) wishFor(l *listener, do func(*app) error) (err error) {
	a := d.app.apart(l)
	a.stderr = lateWriter{d}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := do(a); err != nil {
		if hint := hintOf(err); hint != "" {
			return fmt.Errorf("%w; hint: %s", err, hint)
		}
		return err
	}
	return nil
}

// Queues describes the configured queues, all at once: one that does not answer
// must not hide the others.
func (d *triageDesk) Queues(ctx context.Context) ([]tui.Queue, error) {
	qs := make([]tui.Queue, len(d.names))
	var all sync.WaitGroup
	for i, name := range d.names {
		all.Go(func() {
			qs[i] = tui.Queue{Name: name, Broker: string(d.app.cfg.Queues[name].Broker)}
			if err := d.wish(nil, func(a *app) error { return a.describeFor(ctx, &qs[i]) }); err != nil {
				qs[i].Failed = term.Mask(err.Error())
			}
		})
	}
	all.Wait()
	return qs, ctx.Err()
}

func (a *app) describeFor(ctx context.Context, v *tui.Queue) error {
	q, err := a.queueAlone(ctx, v.Name)
	if err != nil {
		return err
	}
	d, err := q.describe(ctx)
	v.Depth, v.Exact, v.OldestAt = d.Depth.Total(), d.Depth.Exact, d.OldestAt
	v.Retention, v.LookCounts = d.Retention, d.LookCounts
	return err
}

// Look looks as list does, and keeps what it found for the other wishes.
func (d *triageDesk) Look(ctx context.Context, queue string, tell tui.Tell) (tui.Look, error) {
	k := &keptLook{queue: queue}
	err := d.wish(tell, func(a *app) error { return k.fill(ctx, a) })
	if err != nil {
		return tui.Look{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[queue] = k
	return k.view, nil
}

// last is the last look at a queue.
func (d *triageDesk) last(queue string) (*keptLook, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.kept[queue]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("queue %s has not been looked at", queue)
}

// Select decides as a plan made now would.
func (d *triageDesk) Select(ctx context.Context, queue string, sel redrive.Selection) (map[string]bool, error) {
	k, err := d.last(queue)
	if err != nil {
		return nil, err
	}
	matches, err := sel.Filter(d.app.now())
	if err != nil {
		return nil, err
	}
	pass := map[string]bool{}
	for i, x := range k.jobs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ok, err := matches(x)
		if err != nil {
			return nil, err
		}
		if ok {
			pass[k.view.Jobs[i].ID] = true
		}
	}
	return pass, nil
}

// keptContent is the most bytes of messages that one look keeps in memory, so that
// showing a job need not look again. Of the others only what is known about them is
// kept.
const keptContent = 64 << 20

// keptLook is a look with what the screen is not shown of it.
type keptLook struct {
	queue string
	seen  look
	view  tui.Look
	jobs  []reconcile.Assessed // job for job as in view
	bytes int
}

func (k *keptLook) fill(ctx context.Context, a *app) error {
	q, err := a.queue(ctx, k.queue)
	if err != nil {
		return err
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return err
	}
	out := newListing(&listOptions{app: a, target: k.queue}, a.queueSource(q, st))
	out.also = k.add
	if k.seen, err = out.scan(ctx); err != nil {
		return err
	}
	k.finish(out.view(k.seen))
	return nil
}

// assessAgain fills the look with the jobs of another one, as they stand now.
func (k *keptLook) assessAgain(ctx context.Context, a *app, was *keptLook) error {
	q, err := a.queue(ctx, k.queue)
	if err != nil {
		return err
	}
	st, err := a.storeIfAny(ctx)
	if err != nil {
		return err
	}
	src := a.queueSource(q, st)
	out := newListing(&listOptions{app: a, target: k.queue}, src)
	out.also = k.add
	b := &assessing{source: src, ctx: ctx, each: out.add, total: int64(len(was.jobs))}
	for _, x := range was.jobs {
		if err := b.addJob(x.Job); err != nil {
			return err
		}
	}
	if err := b.flush(); err != nil {
		return err
	}
	k.seen = was.seen
	k.finish(out.view(k.seen))
	return nil
}

// found are the jobs of the look, without their contents.
func (k *keptLook) found() []job.Job {
	jobs := make([]job.Job, len(k.jobs))
	for i, x := range k.jobs {
		jobs[i] = x.Job.WithoutContent()
	}
	return jobs
}

func (k *keptLook) completeness() broker.Completeness {
	return broker.Completeness{Complete: k.seen.Complete, Why: k.seen.Why}
}

func (k *keptLook) add(x reconcile.Assessed, v jobView) {
	if size := len(x.Job.Message.Body) + len(x.Job.Message.Raw); k.bytes+size <= keptContent {
		k.bytes += size
	} else {
		x.Job = x.Job.WithoutContent()
	}
	k.jobs = append(k.jobs, x)
	j := tui.Job{
		ID: v.CopyID, JobKey: deref(v.JobKey), LedgerRow: deref(v.LedgerRow), MessageID: v.MessageID, RequestID: deref(v.RequestID),
		Class: v.Class, Effect: v.Effect, Disposition: v.Disposition, Action: v.Action, Needs: deref(v.Needs), Reason: v.reason(),
		Ledger: deref(v.LedgerState), Verdict: deref(v.Verdict), Region: deref(v.Region), Schema: deref(v.SchemaVersion),
		Receives: v.Receives, ExpiresAt: x.Job.Message.ExpiresAt,
	}
	if at := oldest(v.FailedAt, v.SentAt); at != nil {
		j.At = *at
	}
	k.view.Jobs = append(k.view.Jobs, j)
}

// finish completes what the screen is shown. When a copy expires follows from the
// queue's retention where the broker does not say it of the copy itself.
func (k *keptLook) finish(v listView) {
	first := map[string]time.Time{}
	for i := range k.view.Jobs {
		j, sent := &k.view.Jobs[i], k.jobs[i].Job.Message.SentAt
		if j.ExpiresAt.IsZero() && k.seen.Retention > 0 && !sent.IsZero() {
			j.ExpiresAt = sent.Add(k.seen.Retention)
		}
		if at := first[j.Class]; !j.ExpiresAt.IsZero() && (at.IsZero() || j.ExpiresAt.Before(at)) {
			first[j.Class] = j.ExpiresAt
		}
	}
	k.view.Queue, k.view.Broker, k.view.At, k.view.Complete, k.view.Why = v.Queue, v.Broker, v.CapturedAt, v.Complete, deref(v.Why)
	k.view.Exact, k.view.Total, k.view.LookCounts = v.Counted == "exact", v.Total, v.LookCounts
	for _, c := range v.Classes {
		k.view.Classes = append(k.view.Classes, tui.Class{
			Name: c.Class, Disposition: c.Disposition, Effect: c.Effect, Owner: deref(c.Owner), Runbook: deref(c.Runbook), Count: c.Count,
			OldestAt: derefTime(c.OldestAt), ExpiresAt: first[c.Class],
		})
	}
}

// deref is the text, or none.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func derefTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
