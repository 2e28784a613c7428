package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// layout is what the table turned out to have.
type layout struct {
	columns []string
	history bool
	get     map[bool]string // the statement that reads keys, by whether it reads events
	insert  bound           // the statement that writes a new row
	can     ledger.Capabilities

	mu      sync.Mutex
	changes map[shape]changeStatements // those that were asked for
}

func (y *layout) has(own string) bool { return slices.Contains(y.columns, own) }

func (y *layout) missing(need []string) []string {
	var m []string
	for _, n := range need {
		if !y.has(n) {
			m = append(m, n)
		}
	}
	return m
}

// What a table must have to be read, and to be changed with every rule kept.
var (
	neededToRead  = []string{"job_key", "state", "attempt"}
	neededToWrite = []string{"job_key", "state", "attempt", "run", "updated_at", "late_accept", "retryable", "effect", "send_deadline"}
)

// missingToWrite is empty where a statement of the application's own changes.
func (l *Ledger) missingToWrite(lay *layout) []string {
	if l.cfg.Statements["change"] != "" {
		return nil
	}
	return lay.missing(neededToWrite)
}

// tableLayout looks once which columns exist; only a found table is remembered.
func (l *Ledger) tableLayout(ctx context.Context, q querier) (*layout, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.layout != nil {
		return l.layout, nil
	}
	y, err := l.probe(ctx, q)
	if err != nil {
		return nil, err
	}
	if m := y.missing(neededToRead); len(m) > 0 {
		return nil, fmt.Errorf("ledger table %s: %w: no column for %s", l.cfg.Table, ErrSchema, strings.Join(m, ", "))
	}
	y.get = map[bool]string{false: l.getStatement(y, false), true: l.getStatement(y, true)}
	y.insert, y.changes = l.sql.bound(l.insertRow(y)), map[shape]changeStatements{}
	y.can = l.capabilities(y)
	l.layout = y
	return y, nil
}

// probe reads which columns the two tables have.
func (l *Ledger) probe(ctx context.Context, q querier) (*layout, error) {
	if l.cfg.Statements["get"] != "" {
		return l.probeStatement(ctx, q)
	}
	y := &layout{}
	own, err := l.columnsOf(ctx, q, l.cfg.Table)
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("ledger table %s: %w: it does not exist", l.cfg.Table, ErrSchema)
	}
	for _, name := range append(slices.Clone(rowColumns), renderingColumns...) {
		if slices.Contains(own, l.cfg.column(name)) {
			y.columns = append(y.columns, name)
		}
	}
	h, err := l.columnsOf(ctx, q, l.cfg.HistoryTable)
	if err != nil {
		return nil, err
	}
	y.history = !slices.ContainsFunc(historyColumns, func(c string) bool { return !slices.Contains(h, c) })
	return y, nil
}

// probeStatement asks for no key at all: a ledger that is read by a statement
// has the columns that the statement returns.
func (l *Ledger) probeStatement(ctx context.Context, q querier) (y *layout, err error) {
	query, args, err := l.sql.bind(l.cfg.Statements["get"], named{"keys": "[]"})
	if err != nil {
		return nil, fmt.Errorf("ledger statement get: %w", err)
	}
	rows, err := q.QueryContext(ctx, query, args...)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("ledger statement get: %w", sqlite.Ended(ctx, err))
	case err != nil:
		return nil, fmt.Errorf("ledger statement get: %w: %w", ErrSchema, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	return &layout{columns: names, history: slices.Contains(names, "events")}, errors.Join(err, sqlite.Ended(ctx, rows.Err()))
}

// columnsOf is empty when the table does not exist.
func (l *Ledger) columnsOf(ctx context.Context, q querier, table string) (cols []string, err error) {
	schema, name, dotted := strings.Cut(table, ".")
	if !dotted {
		schema, name = l.sql.schema, table
	}
	query, args, err := l.sql.bind(l.sql.columns, named{"schema": schema, "table": name})
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("ledger table %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			return nil, fmt.Errorf("ledger table %s: %w", table, err)
		}
		cols = append(cols, c)
	}
	return cols, sqlite.Ended(ctx, rows.Err())
}
