package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// errUnknownFate marks a commit that failed: its frames may or may not have
// reached the disk, so nothing may be said about what it held.
var errUnknownFate = errors.New("the commit failed, whether it was applied is not known")

// tx is one write transaction at one instant of the clock.
type tx struct {
	*sql.Tx
	file *File
	now  int64 // milliseconds since 1970, the same for the whole transaction
}

// update runs work in one immediate transaction. An error that wraps
// errUnknownFate leaves open whether the work was applied; with any other it
// was not. A transaction that ctx ends before its commit is rolled back; one
// that reached its commit is reported as what it became.
func (f *File) update(ctx context.Context, work func(*tx) error) error {
	raw, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return sqlite.Ended(ctx, err)
	}
	t := &tx{Tx: raw, file: f, now: millis(f.now())}
	if err := work(t); err != nil {
		if rerr := raw.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, rerr)
		}
		return sqlite.Ended(ctx, err)
	}
	return commitFate(ctx, raw.Commit())
}

// commitFate tells a transaction that database/sql rolled back because ctx ended
// from a COMMIT that failed.
func commitFate(ctx context.Context, err error) error {
	rolledBack := errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err == nil || rolledBack {
		return sqlite.Ended(ctx, err)
	}
	return fmt.Errorf("%w: %w", errUnknownFate, err)
}

// whole is the result of every entry of a call that failed with err.
func whole(err error) broker.Result {
	if errors.Is(err, errUnknownFate) {
		return broker.Result{Outcome: broker.Unknown, Err: err}
	}
	return broker.Result{Outcome: broker.Refused, Err: err}
}

func refused(err error) broker.Result { return broker.Result{Outcome: broker.Refused, Err: err} }

// exec runs a prepared statement and returns the number of rows it changed.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := t.stmt(ctx, query).ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// insert runs a prepared INSERT and returns the new row's ID.
func (t *tx) insert(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := t.stmt(ctx, query).ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

func (t *tx) row(ctx context.Context, query string, args ...any) *sql.Row {
	return t.stmt(ctx, query).QueryRowContext(ctx, args...)
}

func (t *tx) stmt(ctx context.Context, query string) *sql.Stmt {
	return t.StmtContext(ctx, t.file.stmts[query])
}

// prepareStatements compiles the statements of the hot paths once. They live on
// the writing connection; tx.stmt finds them by their text.
func (f *File) prepareStatements(ctx context.Context) error {
	f.stmts = map[string]*sql.Stmt{}
	for _, query := range []string{
		selectQueue, insertMessage, insertAttribute, selectDedup, upsertDedup, purgeDedup,
		purgeExpired, selectReady, selectNamed, leaseMessage,
		extendLease, releaseLease, deleteLeased, checkLease,
		copyMessage, moveAttributes, dropReason, deleteMessage,
		holderOf, selectCopy, restoreMessage, blockLater,
	} {
		s, err := f.write.PrepareContext(ctx, query)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", query, err)
		}
		f.stmts[query] = s
	}
	return nil
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
