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

// copyState is what the records of one copy in one run add up to.
type copyState struct {
	intent  int64 // sequence of the newest intent that is open; 0: none
	publish string
	closed  *audit.Record
}

// see takes the next record of the copy. A publish that may have happened stays
// known over later intents until one closes.
func (c *copyState) see(seq int64, r audit.Record) {
	switch {
	case r.Phase == audit.Intent:
		c.intent, c.closed = seq, nil
	case r.Step == audit.StepPublish:
		c.publish = stronger(c.publish, r.Result)
	case r.Closes():
		c.intent, c.publish, c.closed = 0, "", &r
	}
}

// stronger keeps the publish result that binds more: done, then unknown.
func stronger(a, b string) string {
	rank := []string{audit.ResultRefused, audit.ResultUnknown, audit.ResultDone}
	if slices.Index(rank, b) >= slices.Index(rank, a) {
		return b
	}
	return a
}

// copies folds a run's records by copy.
func (s *Store) copies(ctx context.Context, run redrive.RunID) (map[string]*copyState, error) {
	states := map[string]*copyState{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var seq int64
		var r audit.Record
		err := rows.Scan(&seq, &r.Run, &r.Action, &r.Phase, &r.Step, &r.Result, &r.CopyID, &r.Reason)
		if err != nil {
			return err
		}
		c, ok := states[r.CopyID]
		if !ok {
			c = &copyState{}
			states[r.CopyID] = c
		}
		c.see(seq, r)
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
	states, err := s.copies(ctx, run)
	if err != nil {
		return nil, err
	}
	var open []redrive.Intent
	for _, c := range states {
		if c.intent != 0 {
			open = append(open, redrive.Intent{Seq: c.intent, Publish: c.publish})
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
	states, err := s.copies(ctx, run)
	if err != nil {
		return nil, err
	}
	ends := map[string]redrive.ItemEnd{}
	for id, c := range states {
		if c.closed != nil {
			ends[id] = redrive.ItemEnd{Result: c.closed.Ended(), Reason: c.closed.Reason}
		}
	}
	return ends, nil
}
