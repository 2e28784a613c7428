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

// Apply makes the changes in transactions of up to 500, each change under its
// own savepoint. When a commit's answer is lost, every change of its transaction
// that had won is Unknown: the caller reads the rows back.
func (l *Ledger) Apply(ctx context.Context, cs []ledger.Change) []ledger.Result {
	out := make([]ledger.Result, 0, len(cs))
	for part := range slices.Chunk(cs, maxBatch) {
		out = append(out, l.applyBatch(ctx, part)...)
	}
	return out
}

func (l *Ledger) applyBatch(ctx context.Context, cs []ledger.Change) []ledger.Result {
	out := make([]ledger.Result, len(cs))
	lay, err := l.writable(ctx)
	if err != nil {
		return fill(out, ledger.Result{Outcome: ledger.Lost, Err: err})
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fill(out, ledger.Result{Err: fmt.Errorf("change ledger: %w", err)})
	}
	err = l.applyIn(ctx, tx, lay, cs, out)
	if err == nil {
		err = tx.Commit()
		l.commits.Add(1)
	} else {
		err = errors.Join(err, tx.Rollback())
	}
	for i := range out {
		if err != nil && out[i].Outcome != ledger.Lost {
			out[i] = ledger.Result{Err: fmt.Errorf("change ledger: %w", err)}
		}
	}
	return out
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
func (l *Ledger) applyIn(ctx context.Context, tx querier, lay *layout, cs []ledger.Change, out []ledger.Result) error {
	now, err := l.now(ctx, tx)
	if err != nil {
		return err
	}
	keys := make([]ledger.Key, len(cs))
	for i, c := range cs {
		keys[i] = c.Key
		if out[i], err = l.applyOne(ctx, tx, lay, now, c); err != nil {
			return err
		}
	}
	for i, lk := range l.get(ctx, tx, keys, false) {
		out[i].Row = lk.Row
		switch {
		case lk.Found == ledger.Missing && out[i].Outcome == ledger.Lost && out[i].Err == nil:
			out[i].Err = ledger.ErrMissing
		case lk.Found == ledger.Unreadable && out[i].Err == nil:
			out[i].Err = lk.Err
		}
	}
	return nil
}

// applyOne makes one change under a savepoint, so that what fails in it leaves
// the others alone. An error is of the savepoint itself.
func (l *Ledger) applyOne(ctx context.Context, tx querier, lay *layout, now time.Time, c ledger.Change) (ledger.Result, error) {
	lost := ledger.Result{Outcome: ledger.Lost}
	c, lost.Err = c.Checked()
	if lost.Err == nil && !plain(c.Key) {
		lost.Err = fmt.Errorf("ledger key %q is no plain text", c.Key.JobKey)
	}
	if lost.Err == nil && c.Late() && !c.LateAccept && !lay.history {
		lost.Err = fmt.Errorf("%w: a late failure is kept in a history, which this ledger lacks", ledger.ErrIllegal)
	}
	if lost.Err == nil && !c.SendBefore.IsZero() && !lay.has("send_before") && l.cfg.Statements["change"] == "" {
		lost.Err = fmt.Errorf("%w: this ledger cannot store send_before", ledger.ErrIllegal)
	}
	if lost.Err == nil && c.Replace != nil && !l.replaces(lay) {
		lost.Err = fmt.Errorf("%w: this ledger cannot replace a row", ledger.ErrIllegal)
	}
	if lost.Err != nil {
		return lost, nil //nolint:nilerr // The error is this entry's result; the savepoint has none.
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return ledger.Result{}, err
	}
	won, err := l.change(ctx, tx, lay, now, c)
	if err != nil {
		_, undo := tx.ExecContext(ctx, "ROLLBACK TO one")
		return ledger.Result{Outcome: ledger.Lost, Err: fmt.Errorf("change ledger: %w", err)}, undo
	}
	_, err = tx.ExecContext(ctx, "RELEASE one")
	if won {
		return ledger.Result{Outcome: ledger.Won}, err
	}
	return lost, err
}

// change compares, sets and keeps the history.
func (l *Ledger) change(ctx context.Context, tx querier, lay *layout, now time.Time, c ledger.Change) (bool, error) {
	p := l.changeParams(now, c)
	n, err := l.exec(ctx, tx, l.statement("change", l.updateRow(lay, c)), p)
	if err != nil || n == 0 {
		return false, err
	}
	if n > 1 {
		return false, fmt.Errorf("%d rows have job key %q", n, c.Key.JobKey)
	}
	if err := l.appendEvent(ctx, tx, lay, p); err != nil {
		return false, err
	}
	if c.Replace == nil {
		return true, nil
	}
	return true, l.insert(ctx, tx, lay, now, *c.Replace, c.Run, c.SendBefore)
}

func (l *Ledger) exec(ctx context.Context, tx querier, statement string, p params) (int64, error) {
	query, args, err := l.sql.bind(statement, p)
	if err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (l *Ledger) changeParams(now time.Time, c ledger.Change) params {
	f := l.cfg.TimeFormat
	replacedBy := ""
	if c.Replace != nil {
		replacedBy = c.Replace.Key.JobKey
	}
	return params{
		"job_key": c.Key.JobKey, "consumer": or(c.Key.Consumer, l.cfg.Consumer),
		"from_state": string(c.From), "from_attempt": c.FromAttempt, "from_run": c.FromRun,
		"to_state": string(c.To), "attempt": c.Attempt, "run": c.Run,
		"now": f.encode(now), "deadline": f.encode(now.Add(c.ClaimLife)), "send_before": f.encode(c.SendBefore),
		"reason": c.Reason, "request_id": c.RequestID, "error_class": c.ErrorClass, "effect": c.Effect,
		"retryable": bit(c.Retryable), "late": bit(c.Late()), "late_accept": bit(c.LateAccept),
		"replaced_by": replacedBy, "actor": c.Actor, "resolution": string(c.Resolve),
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// appendEvent keeps the change in the history as the row now is.
func (l *Ledger) appendEvent(ctx context.Context, tx querier, lay *layout, p params) error {
	if !lay.history && l.cfg.Statements["append"] == "" {
		return nil
	}
	own := "INSERT INTO " + l.quoted(l.cfg.HistoryTable) + " (" + strings.Join(historyColumns, ", ") + `)
		SELECT :job_key, :consumer, :now, :actor,
			CASE WHEN :late = 1 THEN ` + l.own("state") + ` ELSE :from_state END, ` + l.own("state") + `, :attempt, :run, :reason,
			:error_class, :effect, :request_id, :resolution, :late_accept,
			CASE WHEN :to_state = 'sending' THEN ` + l.own("send_deadline") + ` END
		FROM ` + l.quoted(l.cfg.Table) + " WHERE " + l.keyIs(lay)
	n, err := l.exec(ctx, tx, l.statement("append", own), p)
	if err == nil && n != 1 {
		err = fmt.Errorf("history took %d lines instead of 1", n)
	}
	return err
}
