package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the "sqlite3" driver
)

func open(t *testing.T) *DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "p.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	d := New(db)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.ExecContext(t.Context(), "CREATE TABLE t (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	return d
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func count(t *testing.T, q querier) (n int) {
	t.Helper()
	if err := q.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// TestTransaction: what one transaction parses the next finds, even after it was
// rolled back, and on the only connection.
func TestTransaction(t *testing.T) {
	t.Parallel()
	d := open(t)
	const insert = "INSERT INTO t VALUES (?)"
	for i, want := range []int{2, 2, 4} {
		if known := d.find(insert) != nil; known != (i > 1) {
			t.Errorf("transaction %d: the statement is known: %v", i, known)
		}
		tx, err := d.Begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := tx.ExecContext(t.Context(), insert, i); err != nil {
				t.Error(err)
			}
		}
		if n := count(t, tx); n != want {
			t.Errorf("transaction %d sees %d rows", i, n)
		}
		end := tx.Commit
		if i == 0 {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if n := count(t, d); n != 4 {
		t.Errorf("%d rows", n)
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	d := open(t)
	for i := range 2 * most {
		var n int
		if err := d.QueryRowContext(t.Context(), fmt.Sprintf("SELECT %d", i)).Scan(&n); err != nil || n != i {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := d.ExecContext(t.Context(), fmt.Sprintf("SELECT %d, 1", i)); err != nil {
			t.Error(err)
		}
	}
	if len(d.known) != most {
		t.Errorf("%d statements are kept", len(d.known))
	}
	tx, err := d.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, tx); n != 0 || len(d.missed) != 0 {
		t.Errorf("%d rows, %d statements to parse", n, len(d.missed))
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	d := open(t)
	tx, err := d.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const wrong = "SELECT nothing FROM nowhere"
	for _, q := range []interface {
		querier
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}{tx, d} {
		if _, err := q.ExecContext(t.Context(), wrong); err == nil {
			t.Error("exec: no error")
		}
		if rows, err := q.QueryContext(t.Context(), wrong); err == nil {
			t.Error("query: no error", rows.Err())
		}
		if err := q.QueryRowContext(t.Context(), wrong).Scan(new(int)); err == nil {
			t.Error("query a row: no error")
		}
		if q == tx {
			_ = tx.Rollback()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Begin(ctx, nil); err == nil {
		t.Error("begin: no error")
	}
}

// What a context cut short says so, in a transaction and without one.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	const endless = "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
	d := open(t)
	alone := func(ctx context.Context) error {
		_, err := d.ExecContext(ctx, endless)
		return err
	}
	within := func(ctx context.Context) error {
		tx, err := d.Begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = tx.ExecContext(ctx, endless)
		return err
	}
	for _, do := range []func(context.Context) error{alone, within} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	}
}
