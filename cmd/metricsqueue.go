package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// queueMetrics collects the figures of one queue, source by source. A source
// that cannot be read leaves its figures out and does not keep the others.
type queueMetrics struct {
	*collector
	set   *metrics.Set
	say   func(queue, source string, err error)
	store *store.Store // nil: there is none, or it cannot be read
	name  string
	queue *queue
}

// lookSeen is what a look at the queue came to: one that is made now, or the last
// one that was kept. Nil: there is none.
type lookSeen struct {
	at        time.Time
	complete  bool
	keys      map[string]bool // job keys that have a copy
	customers map[string]bool
	recent    int  // failed in the hour before the look
	timed     bool // some job tells when it failed
}

func (s *lookSeen) whole() bool { return s != nil && s.complete }

var (
	errNoLook  = errors.New("no look is kept; run redrivectl list, or use --look")
	errNoStore = errors.New("there is no store yet")
)

// collect opens the queue's parts one by one. Only a config or policy that does
// not load ends it; storeErr is why the store is not there for it.
func (m *queueMetrics) collect(ctx context.Context, name string, storeErr error) error {
	_, qc, err := m.app.queueConfig(name)
	if err != nil {
		return err
	}
	m.name, m.queue = name, &queue{name: name, cfg: qc, brokerName: string(qc.Broker), ledgerCfg: m.app.cfg.Ledgers[qc.Ledger]}
	policy, err := m.app.policyFor(name)
	if err != nil {
		return err
	}
	m.queue.policy = policy.WithMaxAge(qc.MaxAge)
	d, err := m.brokerFigures(ctx)
	m.say(name, sourceBroker, err)
	ledgerErr := m.openLedger(ctx)
	seen, err := m.lookFigures(ctx, d)
	m.say(name, sourceCapture, err)
	if qc.Ledger != "" {
		if ledgerErr == nil {
			ledgerErr = m.ledgerFigures(ctx, seen)
		}
		m.say(name, sourceLedger, ledgerErr)
	}
	if storeErr == nil {
		storeErr = m.storeFigures(ctx, d.Queue)
	}
	m.say(name, sourceStore, storeErr)
	return ctx.Err()
}

func (m *queueMetrics) openLedger(ctx context.Context) error {
	if m.queue.cfg.Ledger == "" {
		return nil
	}
	l, err := m.app.openLedger(ctx, m.queue.cfg.Ledger, m.queue.cfg.Consumer)
	if err == nil {
		m.queue.ledger = l
	}
	return err
}

func (m *queueMetrics) brokerFigures(ctx context.Context) (d broker.Description, err error) {
	b, err := m.app.openBroker(ctx, m.name, m.queue.cfg)
	if err != nil {
		return d, err
	}
	if d, err = b.Describe(ctx); err != nil {
		return d, fmt.Errorf("describe %s: %w", m.name, err)
	}
	m.queue.broker = b
	exact := 0.0
	if d.Depth.Exact {
		exact = 1
	}
	m.set.Add("redrivectl_quarantined_copies", float64(d.Depth.Visible), m.name, "visible")
	m.set.Add("redrivectl_quarantined_copies", float64(d.Depth.InFlight), m.name, "in_flight")
	m.set.Add("redrivectl_quarantined_copies", float64(d.Depth.Delayed), m.name, "delayed")
	m.set.Add("redrivectl_quarantined_counted_exactly", exact, m.name)
	if !d.OldestAt.IsZero() {
		m.set.Add("redrivectl_quarantined_oldest_age_seconds", m.app.age(d.OldestAt), m.name)
	}
	if d.Retention > 0 {
		m.set.Add("redrivectl_quarantine_retention_seconds", d.Retention.Seconds(), m.name)
	}
	return d, nil
}

// lookFigures counts the jobs of a look. One that would count as a receive is not
// made: the last one that was kept stands for it, with its age.
func (m *queueMetrics) lookFigures(ctx context.Context, d broker.Description) (*lookSeen, error) {
	free := m.queue.broker != nil && !d.LookCounts && m.queue.broker.Capabilities().FreePeek
	seen := &lookSeen{keys: map[string]bool{}, customers: map[string]bool{}}
	var err error
	if m.look && free {
		err = m.lookNow(ctx, seen)
	} else {
		err = m.lookKept(ctx, seen)
	}
	if err != nil {
		return nil, err
	}
	complete := 0.0
	if seen.complete {
		complete = 1
	}
	if m.actionsKnown() {
		for _, a := range []reconcile.Action{reconcile.Redrive, reconcile.Settle, reconcile.Discard, reconcile.Hold} {
			m.set.Add("redrivectl_jobs_by_action", 0, m.name, string(a))
		}
	}
	m.set.Add("redrivectl_look_age_seconds", m.app.age(seen.at), m.name)
	m.set.Add("redrivectl_look_complete", complete, m.name)
	m.set.Add("redrivectl_affected_customers", float64(len(seen.customers)), m.name)
	if seen.timed || len(seen.keys) == 0 {
		m.set.Add("redrivectl_jobs_failed_last_hour", float64(seen.recent), m.name)
	}
	return seen, nil
}

func (m *queueMetrics) lookNow(ctx context.Context, seen *lookSeen) error {
	src := m.app.queueSource(m.queue, m.store)
	src.tell = func(int64, int64) {}
	seen.at = m.app.now()
	l, err := src.look(ctx, 0, func(x reconcile.Assessed) error {
		m.countJob(seen, x)
		return nil
	})
	seen.complete = l.Complete
	return err
}

func (m *queueMetrics) lookKept(ctx context.Context, seen *lookSeen) error {
	if m.store == nil {
		return errNoLook
	}
	kept, found, err := m.store.LatestCapture(ctx, m.name)
	if err != nil {
		return err
	}
	if !found {
		return errNoLook
	}
	seen.at, seen.complete = kept.CapturedAt, kept.Complete
	return m.countKept(ctx, kept, seen)
}

func (m *queueMetrics) countKept(ctx context.Context, kept redrive.Capture, seen *lookSeen) error {
	r := m.app.assessor(m.queue, reading{m.store})
	for part := range slices.Chunk(kept.Jobs, assessBatch) {
		xs, err := r.Assess(ctx, part)
		if err != nil {
			return err
		}
		for _, x := range xs {
			m.countJob(seen, x)
		}
	}
	return nil
}

// actionsKnown: without the ledger that the queue should have, what may be done
// with its jobs is not known.
func (m *queueMetrics) actionsKnown() bool { return m.queue.ledger != nil || m.queue.cfg.Ledger == "" }

func (m *queueMetrics) countJob(seen *lookSeen, x reconcile.Assessed) {
	j := x.Job
	m.set.Add("redrivectl_jobs", 1, m.name, string(x.Class.Class), declared(j.Region, m.regions), declared(j.SchemaVersion, m.versions))
	if m.actionsKnown() {
		m.set.Add("redrivectl_jobs_by_action", 1, m.name, string(x.Decision.Action))
	}
	seen.add(j)
}

func (s *lookSeen) add(j job.Job) {
	s.keys[j.JobKey] = true
	if j.CustomerID != "" {
		s.customers[j.CustomerID] = true
	}
	if at := j.Failure.At; !at.IsZero() {
		s.timed = true
		if ago := s.at.Sub(at); ago >= 0 && ago <= time.Hour {
			s.recent++
		}
	}
}
