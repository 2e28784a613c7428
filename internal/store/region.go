package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// DetailRegion is the key of the region in the details of a record that binds the
// store.
const DetailRegion = "region"

const selectRegion = `SELECT value FROM meta WHERE name = 'region'`

// Region is the region that the store is bound to; empty: none.
func (s *Store) Region(ctx context.Context) (string, error) {
	region, err := regionOf(ctx, s.read)
	if err != nil {
		return "", fmt.Errorf("read the region of store %s: %w", s.path, err)
	}
	return region, nil
}

func regionOf(ctx context.Context, q querier) (region string, err error) {
	err = q.QueryRowContext(ctx, selectRegion).Scan(&region)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return region, err
}

// BindRegion binds the store to a region for good, and writes rec in the same
// transaction. A store that is bound to it already stays as it is; one that is
// bound to another is redrive.ErrRefused.
func (s *Store) BindRegion(ctx context.Context, region string, rec audit.Record) error {
	_, err := s.write(ctx, "bind store to its region", 1, func(ctx context.Context, t *tx) error {
		bound, err := regionOf(ctx, t)
		switch {
		case err != nil:
			return err
		case bound == region:
			return nil
		case bound != "":
			return refuse("store is bound to region %s, not %s: %w", bound, region, redrive.ErrRefused)
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO meta VALUES ('region', ?)`, region); err != nil {
			return err
		}
		return t.append(detailed(rec, map[string]string{DetailRegion: region}))
	})
	return err
}
