package sqlledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the "sqlite3" driver

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// maxBatch is how many keys one query answers and one transaction changes.
const maxBatch = 500

// cachePragma is twice what SQLite takes, in KiB: where jobs come in an order of their
// own, each of a batch has its own pages, which are read and then changed.
const cachePragma = "cache_size(-4000)"

// ErrSchema says that the table cannot serve as a ledger.
var ErrSchema = errors.New("table cannot serve as a ledger")

// Ledger is a ledger in an SQL database. It implements ledger.Ledger.
type Ledger struct {
	cfg Config
	sql dialect
	// db is one connection, for reads and changes alike: of several each throws away
	// what it has read whenever another one writes.
	db *sqlite.DB
	// scans are connections for those who ask again while they read.
	scans *sql.DB

	mu     sync.Mutex
	layout *layout // nil until the table was found

	commits atomic.Int64
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open opens the database of cfg. That the table is missing or lacks columns is
// no error here: reads then answer unreadable, changes are refused, and Check
// says what is wrong, so that a ledger can be opened in order to be made.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	d, err := dialects(cfg.Dialect)
	if err != nil {
		return nil, err
	}
	if err := cfg.makeFile(); err != nil {
		return nil, fmt.Errorf("make ledger: %w", err)
	}
	db, err := sql.Open("sqlite3", cfg.source(cachePragma))
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	db.SetMaxOpenConns(1)
	scans, err := sql.Open("sqlite3", cfg.source("query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger: %w", err), db.Close())
	}
	l := &Ledger{cfg: cfg, sql: d, db: sqlite.New(db), scans: scans}
	if err := l.ready(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ready opens the first connection.
func (l *Ledger) ready(ctx context.Context) error {
	if err := l.db.PingContext(ctx); err != nil {
		return fmt.Errorf("open ledger %s: %w", or(l.cfg.Path, "by dsn"), sqlite.Ended(ctx, l.cfg.quiet(err)))
	}
	if l.cfg.Create {
		if _, err := sqlite.SetWAL(ctx, l.db.DB); err != nil {
			return fmt.Errorf("make ledger: %w", err)
		}
	}
	if _, err := l.tableLayout(ctx, l.db); err != nil && !errors.Is(err, ErrSchema) {
		return err
	}
	return nil
}

// Close closes the database.
func (l *Ledger) Close() error { return errors.Join(l.scans.Close(), l.db.Close()) }

// Commits counts the transactions of changes that this process has committed, for
// measuring.
func (l *Ledger) Commits() int64 { return l.commits.Load() }

// Init makes the shipped schema. It refuses a ledger whose table or columns are
// mapped: those are the application's to make.
func (l *Ledger) Init(ctx context.Context) error {
	if l.cfg.Mode == Read {
		return fmt.Errorf("make ledger: %w", ledger.ErrReadOnly)
	}
	if len(l.cfg.Columns) > 0 || len(l.cfg.Statements) > 0 || strings.Contains(l.cfg.Table, ".") {
		return fmt.Errorf("make ledger: table %s is mapped to the application's own columns", l.cfg.Table)
	}
	if _, err := l.db.DB.ExecContext(ctx, l.sql.ddl(l.cfg.Table, l.cfg.HistoryTable)); err != nil {
		return fmt.Errorf("make ledger table %s: %w", l.cfg.Table, err)
	}
	_, err := l.tableLayout(ctx, l.db)
	return err
}

// Capabilities derives what this ledger can do from the columns that exist.
func (l *Ledger) Capabilities() ledger.Capabilities {
	lay, err := l.tableLayout(context.Background(), l.db)
	if err != nil {
		return l.capabilities(nil)
	}
	return lay.can
}

// capabilities are those of a table; nil is one that was not found.
func (l *Ledger) capabilities(lay *layout) ledger.Capabilities {
	c := ledger.Capabilities{MaxBatch: maxBatch, RowWritten: l.cfg.RowWritten, Retention: l.cfg.Retention}
	if lay == nil {
		return c
	}
	c.Scoped = lay.has("consumer")
	c.History = lay.history
	c.SendBefore = lay.has("send_before")
	c.PayloadSHA256 = lay.has("payload_sha256")
	c.Writable = l.cfg.Mode == Write && len(l.missingToWrite(lay)) == 0
	c.Replaces = c.Writable && l.replaces(lay)
	return c
}

// replaces reports that a row can name what replaces it, and that the new row can
// be written beside it. Statements of the application's own change rows in ways
// that are not known here, so beside them nothing is inserted.
func (l *Ledger) replaces(lay *layout) bool {
	own := l.cfg.Statements["get"] != "" || l.cfg.Statements["change"] != "" || l.cfg.Statements["append"] != ""
	return !own && lay.has("replaced_by")
}

// Now is the database's clock.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) { return l.now(ctx, l.db) }

// querier is a database or a transaction in it.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (l *Ledger) now(ctx context.Context, q querier) (time.Time, error) {
	if l.cfg.Now != nil {
		return l.cfg.Now().UTC().Truncate(time.Millisecond), nil
	}
	query, args, err := l.sql.bind(l.statement("now", l.sql.now), named{})
	if err != nil {
		return time.Time{}, fmt.Errorf("ledger clock: %w", err)
	}
	var v any
	if err := q.QueryRowContext(ctx, query, args...).Scan(&v); err != nil {
		return time.Time{}, fmt.Errorf("ledger clock: %w", sqlite.Ended(ctx, err))
	}
	f := l.cfg.TimeFormat
	if _, text := v.(string); text {
		f = Text
	}
	t, err := f.decode(v)
	if err != nil {
		return time.Time{}, fmt.Errorf("ledger clock: %w", err)
	}
	return t.Truncate(time.Millisecond), nil
}

func (l *Ledger) quoted(name string) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = l.sql.quote(p)
	}
	return strings.Join(parts, ".")
}

// col is the quoted column of alias d for one of this package's names.
func (l *Ledger) col(name string) string { return "d." + l.sql.quote(l.cfg.column(name)) }
