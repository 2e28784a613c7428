package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Apply makes the changes in transactions of up to 500, each of which stands or
// falls by itself. When a commit's answer is lost, every change of its
// transaction that had won is Unknown: the caller reads the rows back.
func (l *Ledger) Apply(ctx context.Context, cs []ledger.Change) []ledger.Result {
	out := make([]ledger.Result, 0, len(cs))
	for part := range slices.Chunk(cs, maxBatch) {
		out = append(out, l.applyBatch(ctx, part)...)
	}
	return out
}

// applyBatch tries all changes without savepoints, which cost as much as the
// changes: nearly always none of them fails, or fails before it has written
// anything. Where one does fail, nothing of the transaction stays, and all are
// made again, each under its own savepoint.
func (l *Ledger) applyBatch(ctx context.Context, cs []ledger.Change) []ledger.Result {
	out := make([]ledger.Result, len(cs))
	lay, err := l.writable(ctx)
	if err != nil {
		return fill(out, ledger.Result{Outcome: ledger.Lost, Err: err})
	}
	err = l.applyOnce(ctx, lay, cs, out, (*Ledger).change)
	if errors.As(err, new(changeError)) {
		err = l.applyOnce(ctx, lay, cs, out, (*Ledger).changeAlone)
	}
	for i := range out {
		if err != nil && out[i].Outcome != ledger.Lost {
			out[i] = ledger.Result{Err: fmt.Errorf("change ledger: %w", err)}
		}
	}
	return out
}

// changeError is the failure of one change, which may have written a part of it.
type changeError struct{ error }

func (e changeError) Unwrap() error { return e.error }

// changer makes one change within a transaction. A changeError spoils the
// transaction; any other error is of the change alone, or of the transaction as
// a whole when the outcome is Unknown.
type changer func(l *Ledger, ctx context.Context, tx querier, lay *layout, now time.Time, c ledger.Change) (ledger.Result, error)

// applyOnce is one transaction. It fills out.
func (l *Ledger) applyOnce(ctx context.Context, lay *layout, cs []ledger.Change, out []ledger.Result, change changer) error {
	fill(out, ledger.Result{})
	tx, err := l.db.Begin(ctx, nil)
	if err != nil {
		return err
	}
	if err := l.applyIn(ctx, tx, lay, cs, out, change); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	l.commits.Add(1)
	return tx.Commit()
}

func fill(out []ledger.Result, r ledger.Result) []ledger.Result {
	for i := range out {
		out[i] = r
	}
	return out
}

// writable refuses before anything is opened for writing.
func (l *Ledger) writable(ctx context.Context) (*layout, error) {
	if l.cfg.Mode == Read {
		return nil, ledger.ErrReadOnly
	}
	lay, err := l.tableLayout(ctx, l.db)
	if err != nil {
		return nil, err
	}
	if m := l.missingToWrite(lay); len(m) > 0 {
		return nil, fmt.Errorf("change ledger: %w: no column for %s", ErrSchema, strings.Join(m, ", "))
	}
	return lay, nil
}

// applyIn fills out. An error is of the transaction as a whole.
func (l *Ledger) applyIn(ctx context.Context, tx querier, lay *layout, cs []ledger.Change, out []ledger.Result, change changer) error {
	now, err := l.now(ctx, tx)
	if err != nil {
		return err
	}
	for i, c := range cs {
		if c, err = l.legal(lay, c); err != nil {
			out[i] = ledger.Result{Outcome: ledger.Lost, Err: err}
		} else if out[i], err = change(l, ctx, tx, lay, now, c); err != nil {
			return err
		}
	}
	l.readBack(ctx, tx, cs, out)
	return nil
}

// readBack fills in the rows as they are now, and why a change without one lost.
func (l *Ledger) readBack(ctx context.Context, tx querier, cs []ledger.Change, out []ledger.Result) {
	var keys []ledger.Key
	var at []int
	for i, c := range cs {
		if !c.Unread || out[i].Outcome != ledger.Won {
			keys, at = append(keys, c.Key), append(at, i)
		}
	}
	for n, lk := range l.get(ctx, tx, keys, false) {
		r := &out[at[n]]
		r.Row = lk.Row
		switch {
		case lk.Found == ledger.Missing && r.Outcome == ledger.Lost && r.Err == nil:
			r.Err = ledger.ErrMissing
		case lk.Found == ledger.Unreadable && r.Err == nil:
			r.Err = lk.Err
		}
	}
}

// legal is the change with its defaults, or why this ledger cannot make it.
func (l *Ledger) legal(lay *layout, c ledger.Change) (ledger.Change, error) {
	c, err := c.Checked()
	switch {
	case err != nil:
		return c, err
	case !plain(c.Key):
		return c, fmt.Errorf("ledger key %q is no plain text", c.Key.JobKey)
	case c.Late() && !c.LateAccept && !lay.history:
		return c, fmt.Errorf("%w: a late failure is kept in a history, which this ledger lacks", ledger.ErrIllegal)
	case !c.SendBefore.IsZero() && !lay.has("send_before") && l.cfg.Statements["change"] == "":
		return c, fmt.Errorf("%w: this ledger cannot store send_before", ledger.ErrIllegal)
	case c.Replace != nil && !l.replaces(lay):
		return c, fmt.Errorf("%w: this ledger cannot replace a row", ledger.ErrIllegal)
	default:
		return c, nil
	}
}

// changeAlone is change under a savepoint, so that what fails in it leaves the
// others alone.
func (l *Ledger) changeAlone(ctx context.Context, tx querier, lay *layout, now time.Time, c ledger.Change) (ledger.Result, error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return ledger.Result{}, err
	}
	r, err := l.change(ctx, tx, lay, now, c)
	if err != nil {
		_, undo := tx.ExecContext(ctx, "ROLLBACK TO one")
		return ledger.Result{Outcome: ledger.Lost, Err: fmt.Errorf("change ledger: %w", errors.Unwrap(err))}, undo
	}
	_, err = tx.ExecContext(ctx, "RELEASE one")
	return r, err
}

// change compares, sets and keeps the history. Its error is a changeError.
func (l *Ledger) change(ctx context.Context, tx querier, lay *layout, now time.Time, c ledger.Change) (ledger.Result, error) {
	p, to := &changeParams{Change: c, l: l, now: now}, l.statementsOf(lay, shapeOf(c))
	n, err := l.exec(ctx, tx, to.change, p)
	switch {
	case err != nil:
		return ledger.Result{}, changeError{err}
	case n == 0:
		return ledger.Result{Outcome: ledger.Lost}, nil
	case n > 1:
		return ledger.Result{}, changeError{fmt.Errorf("%d rows have job key %q", n, c.Key.JobKey)}
	}
	err = l.appendEvent(ctx, tx, lay, to.append, p)
	if err == nil && c.Replace != nil {
		err = l.insert(ctx, tx, lay, now, *c.Replace, c.Run, c.SendBefore)
	}
	if err != nil {
		return ledger.Result{}, changeError{err}
	}
	return ledger.Result{Outcome: ledger.Won}, nil
}

func (l *Ledger) exec(ctx context.Context, tx querier, statement bound, p params) (int64, error) {
	args, err := statement.args(p)
	if err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, statement.query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// appendEvent keeps the change in the history as the row now is.
func (l *Ledger) appendEvent(ctx context.Context, tx querier, lay *layout, line bound, p params) error {
	if !lay.history && l.cfg.Statements["append"] == "" {
		return nil
	}
	n, err := l.exec(ctx, tx, line, p)
	if err == nil && n != 1 {
		err = fmt.Errorf("history took %d lines instead of 1", n)
	}
	return err
}
