package cmd

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/reconcile"
)

// ledgerSample bounds how many rows one collection reads to tell how long things
// take. The newest are read.
const ledgerSample = 10_000

// manyAttempts is from where on attempts are counted together.
const manyAttempts = 10

// percentileLabels are the percentiles that are told.
var percentileLabels = []int{50, 95, 100}

// errSharedRows: the rows of several queues that nothing tells apart.
var errSharedRows = errors.New("another queue shares the ledger, and its rows cannot be told apart; give each a consumer")

// pendingStates are the states of a row whose effect may still come or may have.
var pendingStates = []ledger.State{ledger.Queued, ledger.Sending, ledger.Fenced}

func (m *queueMetrics) ledgerFigures(ctx context.Context, seen *lookSeen) error {
	if m.sharesRows() {
		return errSharedRows
	}
	now, err := m.queue.ledger.Now(ctx)
	if err != nil {
		return err
	}
	w := m.queue.rows()
	if err := m.pendingRows(ctx, w, now, seen); err != nil {
		return err
	}
	return m.sampledRows(ctx, w, now)
}

// sharesRows: another queue has the same ledger, and no consumer keeps their rows
// apart, so that a count of rows is no queue's.
func (m *queueMetrics) sharesRows() bool {
	for name, other := range m.app.cfg.Queues {
		if name != m.queue.name && other.Ledger == m.queue.cfg.Ledger && !m.queue.apart(other) {
			return true
		}
	}
	return false
}

// pendingRows counts the rows of each pending state, and the orphans among them:
// rows that nobody will finish, since no copy of theirs was in the look.
func (m *queueMetrics) pendingRows(ctx context.Context, w ledger.Window, now time.Time, seen *lookSeen) error {
	count, oldest, orphans := map[ledger.State]int{}, map[ledger.State]time.Time{}, 0
	w.States = pendingStates
	err := m.queue.scan(ctx, w, func(r ledger.Row) error {
		count[r.State]++
		if since := stateSince(r); !since.IsZero() && (oldest[r.State].IsZero() || since.Before(oldest[r.State])) {
			oldest[r.State] = since
		}
		if seen.orphaned(r, m.queue.cfg.Worker.ClaimLife) {
			orphans++
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range pendingStates {
		m.set.Add("redrivectl_ledger_rows", float64(count[s]), m.name, string(s))
		if !oldest[s].IsZero() {
			m.set.Add("redrivectl_ledger_oldest_age_seconds", max(now.Sub(oldest[s]).Seconds(), 0), m.name, string(s))
		}
	}
	if seen.whole() {
		m.set.Add("redrivectl_orphans", float64(orphans), m.name)
	}
	return nil
}

// stateSince is when the row came into its state, as far as it tells.
func stateSince(r ledger.Row) time.Time {
	if r.State == ledger.Sending && !r.ClaimedAt.IsZero() {
		return r.ClaimedAt
	}
	return r.UpdatedAt
}

// sampledRows tells of the rows that changed lately how many attempts they had,
// how long a retry waited, and how long a send took.
func (m *queueMetrics) sampledRows(ctx context.Context, w ledger.Window, now time.Time) error {
	w.UpdatedAfter, w.NewestFirst, w.Limit = now.Add(-m.collector.window), true, ledgerSample
	history := m.queue.ledger.Capabilities().History
	n, attempts := 0, map[int]int{}
	var waits, sends []float64
	err := m.queue.scan(ctx, w, func(r ledger.Row) error {
		n++
		attempts[min(len(r.Attempts), manyAttempts)]++
		for i := 1; i < len(r.Attempts); i++ {
			waits = append(waits, max(r.Attempts[i].ClaimedAt.Sub(r.Attempts[i-1].ClaimedAt).Seconds(), 0))
		}
		if r.State == ledger.Sent && !r.ClaimedAt.IsZero() && !r.UpdatedAt.IsZero() {
			sends = append(sends, max(r.UpdatedAt.Sub(r.ClaimedAt).Seconds(), 0))
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.set.Add("redrivectl_ledger_sample_rows", float64(n), m.name)
	if history {
		for tries, rows := range attempts {
			m.set.Add("redrivectl_ledger_attempts_rows", float64(rows), m.name, attemptsLabel(tries))
		}
		m.percentiles("redrivectl_retry_delay_seconds", waits)
	}
	m.percentiles("redrivectl_sending_to_sent_seconds", sends)
	return nil
}

func attemptsLabel(n int) string {
	if n >= manyAttempts {
		return strconv.Itoa(manyAttempts) + "+"
	}
	return strconv.Itoa(n)
}

// percentiles writes the middle, the slow end and the slowest; of nothing, nothing.
func (m *queueMetrics) percentiles(name string, values []float64) {
	if len(values) == 0 {
		return
	}
	for _, p := range percentileLabels {
		m.set.Add(name, metrics.Quantile(values, float64(p)/100), m.name, strconv.Itoa(p))
	}
}

// orphaned: nobody would finish the row when the look was made, and the look saw
// no copy of it.
func (s *lookSeen) orphaned(r ledger.Row, claimLife time.Duration) bool {
	return s.whole() && !s.keys[r.JobKey] && r.UpdatedAt.Before(s.at) && reconcile.Abandoned(r, s.at, claimLife)
}
