package sqlledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/ledgertest"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
)

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T, cfg sqlledger.Config) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// fixture runs the suite over a table made by ddl and mapped by cfg.
func fixture(t *testing.T, cfg sqlledger.Config, ddl string) ledgertest.Fixture {
	c := newClock()
	cfg.Path, cfg.Now, cfg.Create = filepath.Join(t.TempDir(), "ledger.db"), c.Now, true
	db := raw(t, cfg.Path)
	if ddl != "" {
		if _, err := db.Exec(ddl); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, cfg)
	if ddl == "" {
		if err := l.Init(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	second := open(t, cfg)
	cfg.Mode, cfg.Create = sqlledger.Read, false
	return ledgertest.Fixture{
		Ledger: l, Second: second, ReadOnly: open(t, cfg), Advance: c.Advance,
		Insert:     func(n ledger.NewRow) error { return l.Insert(context.Background(), n) },
		Statements: l.CountStatements(),
		Spoil:      func(k ledger.Key) { spoil(t, db, cfg, k) },
		Dump:       func() string { return dump(t, db, cfg) },
	}
}

func column(cfg sqlledger.Config, name string) string {
	if own, ok := cfg.Columns[name]; ok {
		return own
	}
	return name
}

func table(cfg sqlledger.Config) string {
	if cfg.Table != "" {
		return cfg.Table
	}
	return sqlledger.DefaultTable
}

func spoil(t *testing.T, db *sql.DB, cfg sqlledger.Config, k ledger.Key) {
	t.Helper()
	q := fmt.Sprintf("UPDATE %s SET %s = 'tomorrow' WHERE %s = ?", table(cfg), column(cfg, "updated_at"), column(cfg, "job_key"))
	if _, err := db.Exec(q, k.JobKey); err != nil {
		t.Fatal(err)
	}
}

func dump(t *testing.T, db *sql.DB, cfg sqlledger.Config) string {
	t.Helper()
	var b strings.Builder
	for _, from := range []string{table(cfg), table(cfg) + "_history"} {
		rows, err := db.Query("SELECT * FROM " + from + " ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		names, _ := rows.Columns()
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, values...)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
	return b.String()
}

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Fixture { return fixture(t, sqlledger.Config{}, "") })
}

// An application's own table: other names, one of them a keyword, whole numbers
// for times, flags that may be NULL, and a column that is nobody else's.
const ownTable = `
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY, delivery_key TEXT NOT NULL, consumer TEXT NOT NULL, status TEXT NOT NULL,
  "order" INTEGER NOT NULL, run TEXT, subject TEXT, version TEXT, payload_sha256 TEXT, region TEXT, account TEXT,
  customer_id TEXT, request_id TEXT, late_accept BOOLEAN, retryable BOOLEAN, error_class TEXT, effect TEXT,
  reason TEXT, replaced_by TEXT, created_at INTEGER, changed INTEGER, claimed_at INTEGER, send_deadline INTEGER,
  not_after INTEGER, fenced_at INTEGER, note TEXT DEFAULT 'mine', UNIQUE (consumer, delivery_key)
);
CREATE TABLE outbox_history (
  seq INTEGER PRIMARY KEY, job_key TEXT, consumer TEXT, at INTEGER, actor TEXT, from_state TEXT, to_state TEXT,
  attempt INTEGER, run TEXT, reason TEXT, error_class TEXT, effect TEXT, request_id TEXT, resolution TEXT,
  late_accept INTEGER, send_deadline INTEGER
);`

var ownColumns = map[string]string{
	"job_key": "delivery_key", "state": "status", "attempt": "order", "updated_at": "changed", "send_before": "not_after",
}

// TestMapped runs the same suite on an application's own names and times.
func TestMapped(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Fixture {
		return fixture(t, sqlledger.Config{Table: "outbox", Columns: ownColumns, TimeFormat: sqlledger.UnixMilli}, ownTable)
	})
}

// TestReplacesNeedsColumn: a table that cannot name what replaces a row changes
// nothing when it is asked to.
func TestReplacesNeedsColumn(t *testing.T) {
	t.Parallel()
	f := fixture(t, sqlledger.Config{Table: "outbox", Columns: ownColumns, TimeFormat: sqlledger.UnixMilli}, strings.Replace(ownTable, "replaced_by TEXT, ", "", 1))
	k := ledger.Key{JobKey: "k", Consumer: "mailer"}
	if err := f.Insert(ledger.NewRow{Key: k}); err != nil {
		t.Fatal(err)
	}
	r := f.Ledger.Apply(t.Context(), []ledger.Change{{
		Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Replaced, Replace: &ledger.NewRow{Key: ledger.Key{JobKey: "k~r", Consumer: "mailer"}},
	}})[0]
	if r.Outcome != ledger.Lost || !errors.Is(r.Err, ledger.ErrIllegal) || r.Row.State != ledger.Queued || f.Ledger.Capabilities().Replaces {
		t.Errorf("%+v", r)
	}
}
