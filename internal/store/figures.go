package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// Figures count what the store holds of one queue, as of one instant.
type Figures struct {
	Plans map[redrive.PlanState]int // those that are live
	Runs  []RunFigures
	// Verdicts are all that were ever made, by what they say.
	Verdicts map[reconcile.Verdict]int
	// Answers are the provider's answers that verdicts rest on, by the hundreds of
	// their HTTP status; 0: there was no answer.
	Answers map[int]int
}

// RunFigures is one run as figures speak of it.
type RunFigures struct {
	State redrive.RunState
	Lives bool // running or paused under an unexpired lease
	Left  bool // by its process, in order: paused at its gate, interrupted, failed or over
	Items int  // of its plan
}

// Figures counts without reading a plan or a verdict whole.
func (s *Store) Figures(ctx context.Context, queue string) (Figures, error) {
	f := Figures{Plans: map[redrive.PlanState]int{}, Verdicts: map[reconcile.Verdict]int{}, Answers: map[int]int{}}
	now := nanos(s.now())
	err := s.read.snapshot(ctx, func(t querier) error {
		for _, count := range []func() error{
			func() error {
				return countBy(ctx, t, f.Plans, `SELECT p.state, count(*) FROM plans p WHERE p.queue = ? AND `+live+` GROUP BY p.state`, queue, now)
			},
			func() error {
				return countBy(ctx, t, f.Verdicts, `SELECT verdict, count(*) FROM verdicts WHERE queue = ? GROUP BY verdict`, queue)
			},
			func() error {
				return countBy(ctx, t, f.Answers, `SELECT coalesce(l.value ->> 'http_status', 0) / 100 AS hundreds, count(*)
  FROM verdicts v, json_each(v.evidence, '$.looks') l WHERE v.queue = ? AND l.type = 'object' GROUP BY hundreds`, queue)
			},
			func() error { return f.countRuns(ctx, t, queue, now) },
		} {
			if err := count(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Figures{}, fmt.Errorf("count what is kept of %s: %w", queue, err)
	}
	return f, nil
}

// countBy fills counts from rows of a word and a number.
func countBy[K comparable](ctx context.Context, q querier, counts map[K]int, query string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var word K
		var n int
		err := rows.Scan(&word, &n)
		counts[word] = n
		return err
	}, query, args...)
}

func (f *Figures) countRuns(ctx context.Context, q querier, queue string, now int64) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var r RunFigures
		err := rows.Scan(&r.State, &r.Lives, &r.Left, &r.Items)
		f.Runs = append(f.Runs, r)
		return err
	}, `SELECT r.state, r.state IN ('running', 'paused') AND coalesce(l.expires, 0) > ?, r.ended_at > 0, (SELECT count(*) FROM plan_items i WHERE i.plan = r.plan)
  FROM runs r LEFT JOIN leases l ON l.run = r.id WHERE r.queue = ? ORDER BY r.started_at, r.id`, now, queue)
}
