package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/sqlite"
)

//go:embed schema.sql
var firstSchema string

type trigger struct{ name, text string }

// appendOnly are the triggers that keep the audit log: nothing in it changes,
// nothing leaves it, and nothing enters it but at its end. With
// recursive_triggers on, REPLACE fires the second.
func appendOnly() []trigger {
	return []trigger{
		{"audit_no_update", `CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN
  SELECT raise(ABORT, 'the audit log is append-only'); END`},
		{"audit_no_delete", `CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN
  SELECT raise(ABORT, 'the audit log is append-only'); END`},
		{"audit_no_gap", `CREATE TRIGGER audit_no_gap BEFORE INSERT ON audit
WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM audit) BEGIN
  SELECT raise(ABORT, 'the audit log has no gaps'); END`},
	}
}

// migrations are the steps from an empty file to the newest schema; version n is
// the state after the n-th. A step that was released never changes.
func migrations() []func(context.Context, *sql.Tx) error {
	return []func(context.Context, *sql.Tx) error{createAll, createHolds, indexEdits, indexImports, createWishes, createPaces, narrowIndexes, splitPlans, createGates, spanIndexes}
}

func createAll(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, firstSchema); err != nil {
		return err
	}
	for _, trigger := range appendOnly() {
		if _, err := tx.ExecContext(ctx, trigger.text); err != nil {
			return err
		}
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO meta VALUES ('store_id', ?)`, hex.EncodeToString(id))
	return err
}

// prepareSchema brings the file to the newest version, in one transaction, and
// returns the store's ID.
func prepareSchema(ctx context.Context, db *sql.DB, now time.Time) (string, error) {
	if _, err := sqlite.SetWAL(ctx, db); err != nil {
		return "", err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	if err := migrate(ctx, tx, now); err != nil {
		return "", errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return "", err
	}
	return readSchema(ctx, db)
}

func migrate(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrations (
  version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`); err != nil {
		return err
	}
	var version int
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&version); err != nil {
		return err
	}
	steps := migrations()
	for n := version; n < len(steps); n++ {
		if err := steps[n](ctx, tx); err != nil {
			return fmt.Errorf("bring store to version %d: %w", n+1, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO migrations VALUES (?, ?)`, n+1, nanos(now)); err != nil {
			return err
		}
	}
	return nil
}

// readSchema returns the ID of a store of exactly this version.
func readSchema(ctx context.Context, db querier) (id string, err error) {
	var version int
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&version); err != nil {
		return "", err
	}
	switch newest := len(migrations()); {
	case version < newest:
		return "", fmt.Errorf("%w: it has version %d, this program reads version %d", ErrOlder, version, newest)
	case version > newest:
		return "", fmt.Errorf("store has version %d, this program reads version %d", version, newest)
	}
	err = db.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'store_id'`).Scan(&id)
	return id, err
}

// schemaFaults names the triggers of the audit log that are not as they were
// made.
func schemaFaults(ctx context.Context, q querier) ([]string, error) {
	found := map[string]string{}
	err := each(ctx, q, func(rows *sql.Rows) error {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		found[name] = text
		return nil
	}, `SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'`)
	var faults []string
	for _, t := range appendOnly() {
		if text, ok := found[t.name]; !ok {
			faults = append(faults, "trigger "+t.name+" is missing")
		} else if text != t.text {
			faults = append(faults, "trigger "+t.name+" was changed")
		}
	}
	return faults, err
}
