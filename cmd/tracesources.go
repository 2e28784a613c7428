package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// tracer gathers what every source knows of one job. A source that does not
// answer is noted and hinders no other.
type tracer struct {
	app   *app
	text  string // as typed
	queue string // look in this one alone; empty: in all
	ask   bool   // the provider too

	st      *store.Store // nil: none, or not to be read
	looks   []queueLook  // nil: the queues are looked at first
	names   []store.Name // of the job, once it is known which one is meant
	rows    []tracedRow
	entries []traceEntry
	sources []sourceView
}

// tracedRow is a row with the ledger that it is in, as configured.
type tracedRow struct {
	ledger.Row
	ledger string
}

// sourceView says whether a source answered.
type sourceView struct {
	Source  string  `json:"source"`
	State   string  `json:"state"` // ok, unavailable, none
	Entries int     `json:"entries"`
	Why     *string `json:"why"`
}

// silent reports that the source did not answer.
func (v sourceView) silent() bool { return v.State == "unavailable" }

// errNone says why a source has nothing to tell, which is no failure.
type errNone string

func (e errNone) Error() string { return string(e) }

// source reads one source and notes how that went.
func (t *tracer) source(name string, read func() error) {
	before := len(t.entries)
	err := read()
	t.sources = append(t.sources, newSourceView(name, len(t.entries)-before, err))
}

// newSourceView says how reading a source went that gave so many entries.
func newSourceView(name string, entries int, err error) sourceView {
	v := sourceView{Source: name, State: "ok", Entries: entries}
	var none errNone
	switch {
	case errors.As(err, &none):
		v.State, v.Why = "none", text(string(none))
	case err != nil:
		v.State, v.Why = "unavailable", text(term.Mask(err.Error()))
	case v.Entries == 0:
		v.State = "none"
	}
	return v
}

func (t *tracer) copies() {
	for _, l := range t.looks {
		t.source("queue "+l.queue, func() error {
			if l.err != nil {
				return l.err
			}
			for _, j := range l.jobs {
				if t.is(j) {
					t.entries = append(t.entries, copyEntries("queue", j)...)
					t.entries = append(t.entries, t.seenNow(j, l.policy))
				}
			}
			if !l.complete.Complete {
				return fmt.Errorf("the look was not complete: %s", l.complete.Why)
			}
			return nil
		})
		if s := &t.sources[len(t.sources)-1]; l.counts && s.Why == nil {
			s.Why = text("this look counted as a receive")
		}
	}
}

func (t *tracer) seenNow(j job.Job, p *classify.Policy) traceEntry {
	what := fmt.Sprintf("is in the dead-letter queue, received %d times, class %s", j.Message.Receives, p.Classify(j, t.app.now()).Class)
	return traceEntry{
		At: t.app.now().UTC(), Clock: clockOperator, Source: "queue", What: what, JobKey: text(j.JobKey),
		MessageID: text(j.Message.MessageID), CopyID: text(j.Message.Copy.String()), Queue: text(j.Queue),
	}
}

// ledgers reads the row and its history, from every ledger that a queue has.
func (t *tracer) ledgers(ctx context.Context) {
	type ledgerOf struct{ name, consumer string }
	read := map[ledgerOf]bool{{}: true}
	for _, name := range t.queues() {
		q := t.app.cfg.Queues[name]
		l := ledgerOf{q.Ledger, q.Consumer}
		if l.name == "" || read[l] {
			continue
		}
		read[l] = true
		t.source("ledger "+l.name+"/"+l.consumer, func() error { return t.ledger(ctx, l.name, l.consumer) })
	}
}

func (t *tracer) ledger(ctx context.Context, name, consumer string) error {
	if t.key() == "" {
		return errNone("the job has no key")
	}
	l, err := t.app.openLedger(ctx, name, consumer)
	if err != nil {
		return err
	}
	row, ok, err := l.History(ctx, ledger.Key{JobKey: t.key(), Consumer: consumer})
	if err != nil || !ok {
		return err
	}
	t.rows = append(t.rows, tracedRow{row, name})
	t.entries = append(t.entries, rowEntries(name, row)...)
	return nil
}

// providers asks now, where that was wished.
func (t *tracer) providers(ctx context.Context) {
	asked := map[string]bool{"": true}
	for _, queue := range t.queues() {
		q := t.app.cfg.Queues[queue]
		if asked[q.Provider] {
			continue
		}
		asked[q.Provider] = true
		t.source("provider "+q.Provider, func() error {
			switch {
			case t.key() == "":
				return errNone("the job has no key")
			case t.crosses(q.Region):
				return errNone("the job is of another region than queue " + queue + ", which is bound to " + q.Region)
			case !t.ask:
				return errNone("not asked: --ask")
			default:
				return t.provider(ctx, q.Provider)
			}
		})
	}
}

func (t *tracer) provider(ctx context.Context, name string) error {
	p, err := t.app.openProvider(name)
	if err != nil {
		return err
	}
	now := t.app.now()
	send := provider.Send{JobKey: t.key(), From: t.earliest(now), To: now}
	for _, r := range t.rows {
		send.RequestID, send.Account, send.Region = r.RequestID, r.Account, r.Region
	}
	ans := p.Lookup(ctx, []provider.Send{send})[0]
	if ans.Err != nil {
		return ans.Err
	}
	what := fmt.Sprintf("asked; records: %d", len(ans.Hits))
	if !ans.Complete {
		what += ", and the answer is not whole"
	}
	e := traceEntry{At: now.UTC(), Clock: clockOperator, Source: "provider", What: what, Who: text(name), JobKey: text(t.key())}
	t.entries = append(t.entries, e)
	for _, h := range ans.Hits {
		if !h.At.IsZero() { // else it is placed where it was asked for
			e.At, e.Clock = h.At.UTC(), clockProvider
		}
		e.JobKey, e.RequestID = text(h.JobKey), text(h.RequestID)
		e.What = "its record: " + string(h.Status)
		if h.Detail != "" {
			e.What += " (" + term.Mask(h.Detail) + ")"
		}
		t.entries = append(t.entries, e)
	}
	return nil
}

// earliest is since when the job can have been sent, as far as is known.
func (t *tracer) earliest(now time.Time) time.Time {
	from := now.Add(-24 * time.Hour)
	for _, e := range t.entries {
		if e.At.Before(from) {
			from = e.At
		}
	}
	return from.Add(-t.app.cfg.Reconcile.ClockMargin)
}

// records reads all that the store keeps.
func (t *tracer) records(ctx context.Context) {
	if t.st == nil {
		return
	}
	each := func(name string, read func(context.Context, store.Name) error) {
		t.source(name, func() error {
			for _, n := range t.asked() {
				if err := read(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	each("captures", t.captures)
	each("verdicts", t.foundVerdicts)
	each("plans", t.plans)
	each("archives", t.archives)
	each("audit log", t.audit)
}

func (t *tracer) captures(ctx context.Context, n store.Name) error {
	ks, err := t.st.Captured(ctx, n)
	for _, k := range ks {
		t.entries = append(t.entries, copyEntries("capture", k.Job)...)
		t.entries = append(t.entries, traceEntry{
			At: k.At.UTC(), Clock: clockOperator, Source: "capture", JobKey: text(k.Job.JobKey),
			What:      fmt.Sprintf("seen in the dead-letter queue, received %d times", k.Job.Message.Receives),
			MessageID: text(k.Job.Message.MessageID), CopyID: text(k.Job.Message.Copy.String()), Queue: text(k.Queue),
		})
	}
	return err
}

func (t *tracer) foundVerdicts(ctx context.Context, n store.Name) error {
	fs, err := t.st.VerdictsOn(ctx, n.JobKey)
	for _, f := range fs {
		t.entries = append(t.entries, verdictEntry(f))
	}
	return err
}

// plans are the job's plans with their approvals and runs.
func (t *tracer) plans(ctx context.Context, n store.Name) error {
	ps, err := t.st.PlansWith(ctx, n)
	for _, p := range ps {
		for _, it := range p.Plan.Items {
			if n.JobKey != "" && it.JobKey == n.JobKey || n.JobKey == "" && it.Copy.String() == n.CopyID {
				t.entries = append(t.entries, planEntry(p, it))
			}
		}
		if err := t.planned(ctx, p); err != nil {
			return err
		}
	}
	return err
}

func (t *tracer) planned(ctx context.Context, p redrive.StoredPlan) error {
	as, err := t.st.Approvals(ctx, p.ID)
	if err != nil {
		return err
	}
	for _, ap := range as {
		t.entries = append(t.entries, approvalEntry(p.Plan.Queue, ap))
	}
	if p.Run == "" {
		return nil
	}
	r, err := t.st.LoadRun(ctx, string(p.Run))
	if err == nil {
		t.entries = append(t.entries, runEntries(r)...)
	}
	return err
}

func (t *tracer) archives(ctx context.Context, n store.Name) error {
	ks, err := t.st.ArchivedAs(ctx, n)
	for _, k := range ks {
		t.entries = append(t.entries, archiveEntry(k))
	}
	return err
}

func (t *tracer) audit(ctx context.Context, n store.Name) error {
	return t.st.FindAudit(ctx, auditQuery(n), func(e audit.Entry) error {
		t.entries = append(t.entries, auditEntry(e.Record))
		return nil
	})
}

// auditQuery selects the records of one job, oldest first.
func auditQuery(n store.Name) audit.Query {
	if n.JobKey != "" {
		return audit.Query{JobKey: n.JobKey, OldestFirst: true}
	}
	return audit.Query{MessageID: n.MessageID, CopyID: n.CopyID, OldestFirst: true}
}
