package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// createWishes adds what is asked of runs. A pause that was lifted, or whose run
// has ended, stands in the audit log alone.
func createWishes(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE wishes (
  run      TEXT PRIMARY KEY,
  kind     TEXT NOT NULL,
  person   TEXT NOT NULL,
  reason   TEXT NOT NULL,
  asked_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID`)
	return err
}

// Wish is what is asked of the run. See redrive.Runs.
func (s *Store) Wish(ctx context.Context, run redrive.RunID) (redrive.Wish, error) {
	w := redrive.Wish{Run: run}
	var at int64
	err := s.read.QueryRowContext(ctx, `SELECT kind, person, reason, asked_at FROM wishes WHERE run = ?`, string(run)).
		Scan(&w.Kind, &w.Person, &w.Reason, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return redrive.Wish{}, nil
	}
	if err != nil {
		return redrive.Wish{}, fmt.Errorf("read wish for run %s: %w", run, err)
	}
	w.At = fromNanos(at)
	return w, nil
}

// SaveWish keeps what is asked of a run. See redrive.Wishes.
func (s *Store) SaveWish(ctx context.Context, w redrive.Wish, rec audit.Record) (redrive.RunRecord, error) {
	return s.wishRun(ctx, string(w.Kind), w.Run, rec, func(ctx context.Context, t *tx, r redrive.RunRecord) error {
		if err := mayAsk(w, r); err != nil {
			return err
		}
		return t.keepWish(ctx, w)
	})
}

func (t *tx) keepWish(ctx context.Context, w redrive.Wish) error {
	_, err := t.ExecContext(ctx, `INSERT OR REPLACE INTO wishes VALUES (?, ?, ?, ?, ?)`,
		string(w.Run), string(w.Kind), w.Person, w.Reason, nanos(w.At))
	return err
}

// mayAsk refuses what cannot come to pass.
func mayAsk(w redrive.Wish, r redrive.RunRecord) error {
	switch {
	case r.State.Ended():
		return refuse("run %s is %s: %w", r.ID, r.State, redrive.ErrRefused)
	case w.Kind == redrive.WishPause && !r.Lives:
		return refuse("run %s does not live, it was left %s: %w", r.ID, r.State, redrive.ErrRefused)
	case w.Kind == redrive.WishPause && r.Wish.Kind == redrive.WishAbort:
		return refuse("run %s is to be aborted, as %s asked at %s: %w",
			r.ID, r.Wish.Person, r.Wish.At.Format(time.RFC3339), redrive.ErrRefused)
	default:
		return nil
	}
}

// LiftPause takes a living run's pause back. See redrive.Wishes.
func (s *Store) LiftPause(ctx context.Context, run redrive.RunID, rec audit.Record) (redrive.RunRecord, error) {
	return s.wishRun(ctx, "resume", run, rec, func(ctx context.Context, t *tx, r redrive.RunRecord) error {
		switch {
		case !r.Lives:
			return refuse("run %s does not live any more, it was left %s: %w", run, r.State, redrive.ErrRefused)
		case r.Wish.Kind != redrive.WishPause:
			return refuse("no pause is asked of run %s: %w", run, redrive.ErrRefused)
		}
		return t.forgetPause(ctx, run)
	})
}

// forgetPause is for a run that is to go on, or that has ended.
func (t *tx) forgetPause(ctx context.Context, run redrive.RunID) error {
	_, err := t.ExecContext(ctx, `DELETE FROM wishes WHERE run = ? AND kind = ?`, string(run), string(redrive.WishPause))
	return err
}

// wishRun changes what is asked of a run, with rec, and returns the run as it is
// afterwards.
func (s *Store) wishRun(ctx context.Context, what string, run redrive.RunID, rec audit.Record, do func(context.Context, *tx, redrive.RunRecord) error) (redrive.RunRecord, error) {
	var r redrive.RunRecord
	_, err := s.write(ctx, what, 1, func(ctx context.Context, t *tx) error {
		before, err := s.oneRun(ctx, t, run)
		if err != nil {
			return err
		}
		if err := do(ctx, t, before); err != nil {
			return err
		}
		rec.Run, rec.Plan, rec.Queue = string(before.ID), string(before.Plan), before.Queue
		if err := t.append(rec); err != nil {
			return err
		}
		r, err = s.oneRun(ctx, t, run)
		return err
	})
	return r, err
}

// SetState records that a living run is paused, or goes on. See redrive.Runs.
func (s *Store) SetState(ctx context.Context, l redrive.Lease, state redrive.RunState, rec audit.Record) error {
	_, err := s.write(ctx, "set state of run", 1, func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, s.now()); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE runs SET state = ? WHERE id = ?`, string(state), string(l.Run)); err != nil {
			return err
		}
		return t.append(rec)
	})
	return err
}
