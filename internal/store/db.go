package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/blobio"

	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// busyPragma is how long a transaction waits for another process's, in
// milliseconds.
const busyPragma = "busy_timeout(10000)"

// dsn is the URI of the file. modeof gives the write-ahead log the mode of the
// database itself; recursive_triggers makes REPLACE fire the delete trigger;
// secure_delete overwrites what is removed. A record is a good kilobyte long, so
// that pages of twice the usual size are half as many to write, with less waste.
func dsn(path, vfs, mode string) string {
	v := url.Values{"mode": {mode}, "modeof": {path}}
	v.Add("_pragma", busyPragma)
	if vfs != "" {
		v.Set("vfs", vfs)
	}
	if mode == "rw" {
		v.Add("_pragma", "page_size(8192)") // of a new file
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

// reader is the database for reading: a run asks the same few questions with every
// batch.
type reader struct{ *sqlite.DB }

func openReader(dsn string) (*reader, error) {
	db, err := openDB(dsn+"&_pragma=query_only(1)&_pragma=cache_size(-512)", 2)
	if err != nil {
		return nil, err
	}
	return &reader{sqlite.New(db)}, nil
}

// snapshot reads within one transaction, so that what is read belongs together.
func (r *reader) snapshot(ctx context.Context, read func(querier) error) error {
	t, err := r.Begin(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(read(t), t.Rollback())
}

// each calls scan for every row of the query.
func each(ctx context.Context, q querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return sqlite.Ended(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return sqlite.Ended(ctx, rows.Err())
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
