package store

import (
	"context"
	"database/sql"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// createPaces adds how fast runs may go, as they last told. Rates are in jobs per
// second.
func createPaces(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE paces (
  run       TEXT PRIMARY KEY,
  asked     REAL NOT NULL,
  effective REAL NOT NULL,
  lowest    REAL NOT NULL,
  slowed    INTEGER NOT NULL,
  slowed_by TEXT NOT NULL
) STRICT, WITHOUT ROWID`)
	return err
}

// SetPace keeps how fast a run may go. See redrive.Runs.
func (s *Store) SetPace(ctx context.Context, l redrive.Lease, p redrive.Pace, rs ...audit.Record) error {
	_, err := s.write(ctx, "set pace of run", len(rs), func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, s.now()); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `INSERT OR REPLACE INTO paces VALUES (?, ?, ?, ?, ?, ?)`,
			string(l.Run), p.Asked, p.Effective, p.Lowest, p.Slowed, p.By)
		if err != nil || len(rs) == 0 {
			return err
		}
		return t.append(rs...)
	})
	return err
}
