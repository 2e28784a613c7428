package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/blobio"
)

// busyPragma is how long a transaction waits for another process's, in
// milliseconds.
const busyPragma = "busy_timeout(10000)"

// dsn is the URI of the file. modeof gives the write-ahead log the mode of the
// database itself; recursive_triggers makes REPLACE fire the delete trigger;
// secure_delete overwrites what is removed.
func dsn(path, vfs, mode string) string {
	v := url.Values{"mode": {mode}, "modeof": {path}}
	v.Add("_pragma", busyPragma)
	if vfs != "" {
		v.Set("vfs", vfs)
	}
	if mode == "rw" {
		v.Add("_pragma", "recursive_triggers(1)")
		v.Add("_pragma", "synchronous(full)")
		v.Add("_pragma", "foreign_keys(1)")
		v.Add("_pragma", "secure_delete(1)")
		v.Add("_pragma", "temp_store(memory)") // the journal of savepoints
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: strings.ReplaceAll(v.Encode(), "+", "%20")}
	return u.String()
}

func openDB(dsn string, conns int) (*sql.DB, error) {
	db, err := driver.Open(dsn, prepareConn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// prepareConn adds reading a blob piece by piece, and forbids plans that depend
// on what is asked for: each new question would parse its query again.
func prepareConn(c *sqlite3.Conn) error {
	_, err := c.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true)
	return errors.Join(err, blobio.Register(c))
}

// querier is a database, a connection or a transaction to read from.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// mostParsed bounds the statements that a reader keeps: those with constant text
// are fewer, and others come and go.
const mostParsed = 64

// reader is the database for reading. It parses a query once for as often as it
// is asked: a run asks the same few with every batch.
type reader struct {
	*sql.DB
	mu     sync.Mutex
	parsed map[string]*sql.Stmt
}

func openReader(dsn string) (*reader, error) {
	db, err := openDB(dsn+"&_pragma=query_only(1)", 4)
	return &reader{DB: db, parsed: map[string]*sql.Stmt{}}, err
}

// known is the query as it was parsed, or nil.
func (r *reader) known(query string) *sql.Stmt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parsed[query]
}

// statement parses the query unless it is known. It needs a connection, so whoever
// holds one must not call it. It is nil where the query is not kept.
func (r *reader) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := r.known(query); s != nil {
		return s, nil
	}
	s, err := r.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first, ok := r.parsed[query]; ok || len(r.parsed) == mostParsed {
		return first, s.Close()
	}
	r.parsed[query] = s // Close closes it
	return s, nil
}

func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := r.statement(ctx, query)
	if err != nil || s == nil {
		return r.DB.QueryContext(ctx, query, args...) // an error comes again
	}
	return s.QueryContext(ctx, args...)
}

func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := r.statement(ctx, query)
	if err != nil || s == nil {
		return r.DB.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// Close closes what was parsed, and the database.
func (r *reader) Close() error {
	var errs []error
	for _, s := range r.parsed {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, r.DB.Close())...)
}

// snapshot reads within one transaction, so that what is read belongs together.
func (r *reader) snapshot(ctx context.Context, read func(querier) error) error {
	t, err := r.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	p := parsing{t, r, map[string]*sql.Stmt{}}
	err = errors.Join(read(p), t.Rollback())
	for query := range p.own {
		if _, bad := r.statement(ctx, query); bad != nil {
			break // the next one parses it for itself again
		}
	}
	return err
}

// parsing is a transaction of a reader. What the reader has not parsed it parses
// itself, once, since it holds a connection.
type parsing struct {
	*sql.Tx
	reader *reader
	own    map[string]*sql.Stmt
}

func (p parsing) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := p.own[query]; s != nil {
		return s, nil
	}
	var err error
	s := p.reader.known(query)
	if s != nil {
		s = p.StmtContext(ctx, s)
	} else if s, err = p.PrepareContext(ctx, query); err != nil {
		return nil, err
	}
	p.own[query] = s // the end of the transaction closes it
	return s, nil
}

func (p parsing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (p parsing) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := p.statement(ctx, query)
	if err != nil {
		return p.Tx.QueryRowContext(ctx, query, args...) // an error comes again
	}
	return s.QueryRowContext(ctx, args...)
}

// each calls scan for every row of the query.
func each(ctx context.Context, q querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Times are stored as nanoseconds since 1970; the zero time is 0.

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
