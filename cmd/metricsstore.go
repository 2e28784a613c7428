package cmd

import (
	"context"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// runDead is the label of a run that has not ended and whose lease has: it was
// killed, and waits for resume.
const runDead redrive.RunState = "dead"

// storeFigures tells what the operator's store holds of the queue. entity is the
// dead-letter queue's own name, by which holds are kept; empty: not known.
func (m *queueMetrics) storeFigures(ctx context.Context, entity string) error {
	f, err := m.store.Figures(ctx, m.name)
	if err != nil {
		return err
	}
	for _, s := range redrive.PlanStates() {
		if s.Live() {
			m.set.Add("redrivectl_plans", float64(f.Plans[s]), m.name, string(s))
		}
	}
	m.runs(f.Runs)
	if m.queue.cfg.Provider != "" {
		m.answers(f)
	}
	m.audit.put(m.set, m.name)
	if entity == "" {
		return nil
	}
	holds, err := m.store.ListHolds(ctx, entity)
	if err == nil {
		m.set.Add("redrivectl_holds", float64(len(holds)), m.name)
	}
	return err
}

func (m *queueMetrics) runs(runs []store.RunFigures) {
	open := map[redrive.RunState]int{}
	sizes := metrics.NewBuckets(1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)
	for _, r := range runs {
		sizes.Observe(float64(r.Items))
		if (r.State == redrive.RunRunning || r.State == redrive.RunPaused) && !r.Lives && !r.Left {
			r.State = runDead
		}
		open[r.State]++
	}
	for _, s := range append(redrive.RunStates(), runDead) {
		if !s.Ended() {
			m.set.Add("redrivectl_runs", float64(open[s]), m.name, string(s))
		}
	}
	m.set.Distribution("redrivectl_run_items", sizes, m.name)
}

func (m *queueMetrics) answers(f store.Figures) {
	for _, v := range reconcile.AllVerdicts() {
		m.set.Add("redrivectl_verdicts_total", float64(f.Verdicts[v]), m.name, string(v))
	}
	for hundreds, n := range f.Answers {
		m.set.Add("redrivectl_provider_answers_total", float64(n), m.name, statusLabel(hundreds))
	}
}

// statusLabel is the class of an HTTP status, or none where there was no answer.
func statusLabel(hundreds int) string {
	if hundreds < 1 || hundreds > 5 {
		return "none"
	}
	return strconv.Itoa(hundreds) + "xx"
}
