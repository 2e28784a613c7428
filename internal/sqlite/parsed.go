package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// most bounds the statements that are kept. Those with constant text are fewer,
// and others come and go.
const most = 64

// DB is a database that parses a statement once for as often as it is run: the same
// few are run for every batch, and to parse one costs more than to run it. Its errors,
// but those of reading rows, say that a context ended, as Ended has it. It owns the
// database.
type DB struct {
	*sql.DB
	mu     sync.Mutex
	known  map[string]*sql.Stmt
	missed map[string]bool // what a transaction had to parse for itself
}

// New keeps the statements of db.
func New(db *sql.DB) *DB {
	return &DB{DB: db, known: map[string]*sql.Stmt{}, missed: map[string]bool{}}
}

// find is the statement as it was parsed, or nil.
func (d *DB) find(query string) *sql.Stmt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[query]
}

// statement parses the query unless it is known. It needs a connection, so whoever
// holds one must not call it. It is nil where the query is not kept.
func (d *DB) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := d.find(query); s != nil {
		return s, nil
	}
	s, err := d.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if first, ok := d.known[query]; ok || len(d.known) == most {
		return first, s.Close()
	}
	d.known[query] = s // Close closes it
	return s, nil
}

// ExecContext is like that of sql.DB.
func (d *DB) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := d.statement(ctx, query)
	if err != nil || s == nil {
		r, err := d.DB.ExecContext(ctx, query, args...) // an error comes again
		return r, Ended(ctx, err)
	}
	r, err := s.ExecContext(ctx, args...)
	return r, Ended(ctx, err)
}

// QueryContext is like that of sql.DB.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := d.statement(ctx, query)
	if err != nil || s == nil {
		r, err := d.DB.QueryContext(ctx, query, args...)
		return r, Ended(ctx, err)
	}
	r, err := s.QueryContext(ctx, args...)
	return r, Ended(ctx, err)
}

// QueryRowContext is like that of sql.DB.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := d.statement(ctx, query)
	if err != nil || s == nil {
		return d.DB.QueryRowContext(ctx, query, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

// Close closes what was parsed, and the database.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, s := range d.known {
		errs = append(errs, s.Close())
	}
	clear(d.known)
	return errors.Join(append(errs, d.DB.Close())...)
}

// Tx is a transaction. What the database has not parsed it parses itself, once,
// since it holds a connection; the next transaction finds it parsed.
type Tx struct {
	*sql.Tx
	db  *DB
	own map[string]*sql.Stmt
}

// Begin is BeginTx of the database.
func (d *DB) Begin(ctx context.Context, o *sql.TxOptions) (*Tx, error) {
	for _, query := range d.takeMissed() {
		if _, err := d.statement(ctx, query); err != nil {
			break // the transaction parses it for itself again
		}
	}
	t, err := d.BeginTx(ctx, o)
	if err != nil {
		return nil, Ended(ctx, err)
	}
	return &Tx{Tx: t, db: d, own: map[string]*sql.Stmt{}}, nil
}

func (d *DB) takeMissed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var queries []string
	for query := range d.missed {
		queries = append(queries, query)
	}
	clear(d.missed)
	return queries
}

func (d *DB) miss(query string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) < most {
		d.missed[query] = true
	}
}

func (t *Tx) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.own[query]; s != nil {
		return s, nil
	}
	s := t.db.find(query)
	if s != nil {
		s = t.StmtContext(ctx, s)
	} else {
		var err error
		if s, err = t.PrepareContext(ctx, query); err != nil {
			return nil, Ended(ctx, err)
		}
		t.db.miss(query)
	}
	t.own[query] = s // the end of the transaction closes it
	return s, nil
}

// ExecContext is like that of sql.Tx.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := s.ExecContext(ctx, args...)
	return r, Ended(ctx, err)
}

// QueryContext is like that of sql.Tx.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := s.QueryContext(ctx, args...)
	return r, Ended(ctx, err)
}

// QueryRowContext is like that of sql.Tx.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s, err := t.statement(ctx, query)
	if err != nil {
		return t.Tx.QueryRowContext(ctx, query, args...) // an error comes again
	}
	return s.QueryRowContext(ctx, args...)
}
