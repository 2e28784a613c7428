package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/audit"
)

const insertRecord = `INSERT INTO audit (seq, hash, record, time, action, phase, step, result, run, plan, queue,
  copy_id, job_key, message_id, customer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// checkpointEvery is after how many records the log names its own place.
const checkpointEvery = 1000

// tx is a transaction of the writer with the head of the chain in it.
type tx struct {
	*sql.Tx
	store      *Store
	insert     *sql.Stmt
	head       audit.Head
	first      int64 // the head's sequence when the transaction began
	checkpoint bool  // the head is to be verified and remembered once committed
}

// part does one caller's change under a savepoint, so that a refused one leaves
// nothing. An error returned here ends the transaction.
func (t *tx) part(ctx context.Context, c *change) error {
	before, checkpoint := t.head, t.checkpoint
	if _, err := t.ExecContext(ctx, `SAVEPOINT part`); err != nil {
		return err
	}
	c.err = c.do(ctx, t)
	if c.err != nil && !errors.As(c.err, new(refusal)) {
		return c.err
	}
	if c.err != nil {
		t.head, t.checkpoint = before, checkpoint
		_, err := t.ExecContext(ctx, `ROLLBACK TO part; RELEASE part`)
		return err
	}
	c.head = t.head
	_, err := t.ExecContext(ctx, `RELEASE part`)
	return err
}

// append adds records to the chain, and a checkpoint after every thousandth.
func (t *tx) append(ctx context.Context, rs ...audit.Record) error {
	for _, r := range rs {
		r.Time = t.store.now()
		if err := t.appendOne(ctx, r); err != nil {
			return err
		}
		if t.head.Seq%checkpointEvery == checkpointEvery-1 {
			if err := t.mark(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark writes a checkpoint record for the head, on behalf of cause.
func (t *tx) mark(ctx context.Context, cause audit.Record) error {
	t.checkpoint = true
	c := audit.CheckpointRecord(t.head, cause)
	c.Time = t.store.now()
	return t.appendOne(ctx, c)
}

func (t *tx) appendOne(ctx context.Context, r audit.Record) error {
	canonical, head, err := audit.Seal(r, t.head)
	if err != nil {
		return refusal{err}
	}
	_, err = t.insert.ExecContext(ctx, append([]any{head.Seq, head.Hash, string(canonical)}, columns(r)...)...)
	t.head = head
	return err
}

// columns are the searchable members of a record, in the order of insertRecord,
// in the UTF-8 that its canonical form has.
func columns(r audit.Record) []any {
	cs := []any{nanos(r.Time), r.Action, string(r.Phase), r.Step, r.Result, r.Run, r.Plan, r.Queue,
		r.CopyID, r.JobKey, r.MessageID, r.Customer}
	for i, c := range cs {
		if s, ok := c.(string); ok && !utf8.ValidString(s) {
			cs[i] = string([]rune(s))
		}
	}
	return cs
}

func (t *tx) saveHead(ctx context.Context) error {
	if t.head.Seq == t.first {
		return nil
	}
	_, err := t.ExecContext(ctx, `UPDATE audit_head SET seq = ?, hash = ?`, t.head.Seq, t.head.Hash)
	return err
}

// readHead reads where the log ends, and is ErrBroken when its last record is
// not the one that was written last.
func readHead(ctx context.Context, q querier, store string) (audit.Head, error) {
	h := audit.Head{Store: store}
	var seq sql.NullInt64
	var hash sql.NullString
	err := q.QueryRowContext(ctx, `SELECT h.seq, h.hash, a.seq, a.hash FROM audit_head h
  LEFT JOIN audit a ON a.seq = (SELECT max(seq) FROM audit)`).Scan(&h.Seq, &h.Hash, &seq, &hash)
	if err != nil {
		return audit.Head{}, fmt.Errorf("read head of audit log: %w", err)
	}
	if seq.Int64 != h.Seq || hash.String != h.Hash {
		return audit.Head{}, fmt.Errorf("%w: %s", audit.ErrBroken, headFault(h.Seq, seq.Int64))
	}
	return h, nil
}

func headFault(want, have int64) string {
	if want == have {
		return fmt.Sprintf("record %d is not the one that was written last", have)
	}
	return fmt.Sprintf("the log ends at record %d, the last one written was %d", have, want)
}

// Append adds records to the log. See audit.Log.
func (s *Store) Append(ctx context.Context, rs ...audit.Record) (audit.Head, error) {
	return s.write(ctx, "append to audit log", len(rs), func(ctx context.Context, t *tx) error {
		return t.append(ctx, rs...)
	})
}
