package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// copies folds a run's records by copy. Of the copies that were closed it keeps
// what ended them only if it is asked to: nearly all are.
func (s *Store) copies(ctx context.Context, run redrive.RunID, ended bool) (map[string]*audit.CopyState, error) {
	states := map[string]*audit.CopyState{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var r audit.Record
		err := rows.Scan(&r.Seq, &r.Run, &r.Action, &r.Phase, &r.Step, &r.Result, &r.CopyID, &r.Reason)
		if err != nil {
			return err
		}
		c, ok := states[r.CopyID]
		if !ok {
			c = &audit.CopyState{}
			states[r.CopyID] = c
		}
		if c.See(r); c.Ended != "" && !ended {
			delete(states, r.CopyID)
		}
		return nil
	}, `SELECT seq, run, action, phase, step, result, copy_id,
  CASE WHEN phase = 'outcome' AND step <> 'publish' THEN coalesce(record ->> 'reason', '') ELSE '' END
  FROM audit WHERE run = ? AND run <> '' AND copy_id <> '' ORDER BY seq`, string(run))
	if err != nil {
		return nil, fmt.Errorf("read records of run %s: %w", run, err)
	}
	return states, nil
}

// OpenIntents are the run's intents that have no closing outcome, oldest first.
func (s *Store) OpenIntents(ctx context.Context, run redrive.RunID) ([]redrive.Intent, error) {
	states, err := s.copies(ctx, run, false)
	if err != nil {
		return nil, err
	}
	var open []redrive.Intent
	for _, c := range states {
		if c.Intent != 0 {
			open = append(open, redrive.Intent{Seq: c.Intent, Publish: c.Publish})
		}
	}
	slices.SortFunc(open, func(a, b redrive.Intent) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range open {
		var record []byte
		err := s.read.QueryRowContext(ctx, `SELECT record FROM audit WHERE seq = ?`, open[i].Seq).Scan(&record)
		if err == nil {
			open[i].Record, err = audit.Decode(record)
		}
		if err != nil {
			return nil, fmt.Errorf("read intent %d of run %s: %w", open[i].Seq, run, err)
		}
	}
	return open, nil
}

// Ends maps the copies of a run to how they were closed.
func (s *Store) Ends(ctx context.Context, run redrive.RunID) (map[string]redrive.ItemEnd, error) {
	states, err := s.copies(ctx, run, true)
	if err != nil {
		return nil, err
	}
	ends := map[string]redrive.ItemEnd{}
	for id, c := range states {
		if c.Ended != "" {
			ends[id] = redrive.ItemEnd{Result: c.Ended, Reason: c.Reason}
		}
	}
	return ends, nil
}
