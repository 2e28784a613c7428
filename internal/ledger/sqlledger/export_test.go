package sqlledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"

	sqlite3 "github.com/ncruces/go-sqlite3/driver"

	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// CountStatements reopens l over a connector that counts what is run, and
// returns the count so far.
func (l *Ledger) CountStatements() func() int {
	var n atomic.Int64
	c, err := (&sqlite3.SQLite{}).OpenConnector(l.cfg.source(cachePragma))
	if err != nil {
		panic(err)
	}
	old := l.db
	l.db = sqlite.New(sql.OpenDB(counting{c, &n}))
	_ = old.Close()
	return func() int { return int(n.Load()) }
}

type counting struct {
	driver.Connector
	n *atomic.Int64
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.n}, nil
}

// countingConn hides the driver's direct paths, so that every statement is
// prepared and thereby counted.
type countingConn struct {
	driver.Conn
	n *atomic.Int64
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return countingStmt{s, c.n}, err
}

type countingStmt struct {
	driver.Stmt
	n *atomic.Int64
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.n.Add(1)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.n.Add(1)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (c countingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

// loseCommits makes l's database commit and then say that it does not know.
func (l *Ledger) loseCommits() error {
	c, err := (&sqlite3.SQLite{}).OpenConnector(l.cfg.source(cachePragma))
	if err != nil {
		return err
	}
	old := l.db
	l.db = sqlite.New(sql.OpenDB(losing{c}))
	return old.Close()
}

type losing struct{ driver.Connector }

func (c losing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return losingConn{countingConn{conn, new(atomic.Int64)}}, nil
}

type losingConn struct{ countingConn }

func (c losingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.countingConn.BeginTx(ctx, o)
	return losingTx{tx}, err
}

type losingTx struct{ driver.Tx }

func (t losingTx) Commit() error { return errors.Join(t.Tx.Commit(), errLost) }

var errLost = errors.New("connection lost")
