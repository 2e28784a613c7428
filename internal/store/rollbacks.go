package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// BeginRollback takes the lease for a rollback. See redrive.Rollbacks. The run
// keeps its state; one that has not ended is to be aborted from here on, whatever
// becomes of the rollback.
func (s *Store) BeginRollback(ctx context.Context, b redrive.Begin, w redrive.Wish, rec audit.Record) (redrive.Lease, error) {
	if err := s.verifyForRun(ctx); err != nil {
		return redrive.Lease{}, fmt.Errorf("begin rollback: %w", err)
	}
	var l redrive.Lease
	_, err := s.write(ctx, "begin rollback", 1, func(ctx context.Context, t *tx) error {
		p, err := t.rollsBack(ctx, b, w)
		if err != nil {
			return err
		}
		if l, err = t.takeLease(ctx, p.Terms, b); err != nil {
			return err
		}
		rec.Run, rec.Plan = string(b.Run), string(p.ID)
		return t.append(rec)
	})
	return l, err
}

// rollsBack refuses what another holds, and sees to it that a run which has not
// ended publishes nothing any more.
func (t *tx) rollsBack(ctx context.Context, b redrive.Begin, w redrive.Wish) (redrive.Frozen, error) {
	r, err := t.store.oneRun(ctx, t, b.Run)
	if err != nil {
		return redrive.Frozen{}, err
	}
	if err := t.refuseBusy(ctx, r, b); err != nil {
		return redrive.Frozen{}, err
	}
	p, err := t.termsOf(ctx, r.Plan)
	if err != nil {
		return p, err
	}
	if err := t.refuseHeld(ctx, p.Terms, b); err != nil {
		return p, err
	}
	if !r.State.Ended() && r.Wish.Kind != redrive.WishAbort {
		err = t.keepWish(ctx, w)
	}
	return p, err
}

// refuseBusy refuses a run that lives, or that is being rolled back: a lease of a
// run that does not live is a rollback's.
func (t *tx) refuseBusy(ctx context.Context, r redrive.RunRecord, b redrive.Begin) error {
	held := r.Lives
	if !held {
		err := t.QueryRowContext(ctx, `SELECT 1 FROM leases WHERE run = ? AND expires > ?`, string(r.ID), nanos(t.store.at(b.Now))).Scan(new(int))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		held = err == nil
	}
	if held {
		return t.taken(ctx, "plan", r.ID)
	}
	return nil
}

// EndRollback frees the lease of a rollback. See redrive.Rollbacks.
func (s *Store) EndRollback(ctx context.Context, l redrive.Lease, rec audit.Record) error {
	_, err := s.write(ctx, "end rollback", 1, func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, s.now()); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM leases WHERE token = ?`, l.Token); err != nil {
			return err
		}
		return t.append(rec)
	})
	return err
}
