package cmd

import (
	"context"
	"errors"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
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
	m.name, m.queue = name, &queue{name: name, cfg: qc, brokerName: string(qc.Broker)}
	if m.queue.policy, err = m.app.policyFor(name); err != nil {
		return err
	}
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
	if d, err = described(ctx, b, m.name); err != nil {
		return d, err
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
