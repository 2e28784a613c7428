package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// createHolds adds the manual holds in force; those that were released stand in
// the audit log alone.
func createHolds(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE holds (
  entity     TEXT NOT NULL,
  job        TEXT NOT NULL,
  queue      TEXT NOT NULL,
  job_key    TEXT NOT NULL,
  message_id TEXT NOT NULL,
  copy       TEXT NOT NULL,
  owner      TEXT NOT NULL,
  reason     TEXT NOT NULL,
  person     TEXT NOT NULL,
  held_at    INTEGER NOT NULL,
  PRIMARY KEY (entity, job)
) STRICT, WITHOUT ROWID`)
	return err
}

// DetailOwner and DetailPreviousOwner are the keys of a hold record's details.
const (
	DetailOwner         = "owner"
	DetailPreviousOwner = "previous_owner"
)

// SaveHold puts a job on hold, or hands a held one to another owner, and writes
// rec in the same transaction. It returns the owner before; empty: none.
func (s *Store) SaveHold(ctx context.Context, h reconcile.ManualHold, rec audit.Record) (before string, err error) {
	_, err = s.write(ctx, "save hold", 1, func(ctx context.Context, t *tx) error {
		err := t.QueryRowContext(ctx, `SELECT coalesce(max(owner), '') FROM holds WHERE entity = ? AND job = ?`, h.Entity, h.Job).Scan(&before)
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `INSERT OR REPLACE INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			h.Entity, h.Job, h.Queue, h.JobKey, h.MessageID, h.CopyID, h.Owner, h.Reason, h.By, nanos(h.At))
		if err != nil {
			return err
		}
		more := map[string]string{DetailOwner: h.Owner}
		if before != "" {
			more[DetailPreviousOwner] = before
		}
		return t.append(detailed(rec, more))
	})
	return before, err
}

// ReleaseHold takes a hold away and writes rec in the same transaction. It is
// redrive.ErrNotFound when the job is not on hold.
func (s *Store) ReleaseHold(ctx context.Context, id reconcile.HoldID, rec audit.Record) error {
	_, err := s.write(ctx, "release hold", 1, func(ctx context.Context, t *tx) error {
		r, err := t.ExecContext(ctx, `DELETE FROM holds WHERE entity = ? AND job = ?`, id.Entity, id.Job)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return refuse("hold on %s in %s: %w", id.Job, id.Entity, redrive.ErrNotFound)
		}
		return t.append(rec)
	})
	return err
}

const selectHolds = `SELECT h.entity, h.job, h.queue, h.job_key, h.message_id, h.copy, h.owner, h.reason, h.person, h.held_at FROM `

func scanHold(rows *sql.Rows) (h reconcile.ManualHold, err error) {
	var at int64
	err = rows.Scan(&h.Entity, &h.Job, &h.Queue, &h.JobKey, &h.MessageID, &h.CopyID, &h.Owner, &h.Reason, &h.By, &at)
	h.At = fromNanos(at)
	return h, err
}

// HoldsOf are the holds on the jobs. See reconcile.Holds.
func (s *Store) HoldsOf(ctx context.Context, ids []reconcile.HoldID) (map[reconcile.HoldID]reconcile.ManualHold, error) {
	wanted, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	holds := map[reconcile.HoldID]reconcile.ManualHold{}
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		h, err := scanHold(rows)
		holds[h.HoldID] = h
		return err
	}, selectHolds+`json_each(?) k CROSS JOIN holds h ON h.entity = k.value ->> 'Entity' AND h.job = k.value ->> 'Job'`, string(wanted))
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	return holds, nil
}

// ListHolds are the holds on jobs of a dead-letter queue by its own name, or of
// all when empty, oldest first.
func (s *Store) ListHolds(ctx context.Context, entity string) ([]reconcile.ManualHold, error) {
	var hs []reconcile.ManualHold
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		h, err := scanHold(rows)
		hs = append(hs, h)
		return err
	}, selectHolds+`holds h WHERE ?1 = '' OR h.entity = ?1 ORDER BY h.held_at, h.entity, h.job`, entity)
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	return hs, nil
}
