package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/audit"
)

// manyRecords are written with insertMany.
const manyRecords = 10

const (
	insertColumns = `INSERT INTO audit (seq, hash, record, time, action, phase, step, result, run, plan, queue,
  copy_id, job_key, message_id, customer) VALUES `
	insertValues = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertRecord = insertColumns + insertValues
)

var insertMany = insertRecord + strings.Repeat(", "+insertValues, manyRecords-1)

const (
	selectHead = `SELECT h.seq, h.hash, a.seq, a.hash FROM audit_head h LEFT JOIN audit a ON a.seq = (SELECT max(seq) FROM audit)`
	updateHead = `UPDATE audit_head SET seq = ?, hash = ?`
)

// checkpointEvery is after how many records the log names its own place.
const checkpointEvery = 1000

// tx is a transaction of the writer with the head of the chain in it.
type tx struct {
	*sql.Tx
	store      *Store
	parsed     map[string]*sql.Stmt
	head       audit.Head
	first      audit.Head // the head when the transaction began
	checkpoint bool       // the head is to be verified and remembered once committed
}

// ExecContext and QueryRowContext run the statements that the writer has parsed
// as they are, and parse the others.
func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s, ok := t.parsed[query]; ok {
		return t.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // The end of the transaction closes it.
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

// QueryRowContext is like ExecContext.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s, ok := t.parsed[query]; ok {
		return t.StmtContext(ctx, s).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // The end of the transaction closes it.
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}

// part does one caller's change. Unless it refuses only before it writes, it
// stands under a savepoint, so that a refused one leaves nothing. An error
// returned here ends the transaction.
func (t *tx) part(ctx context.Context, c *change) error {
	if c.simple {
		c.err = c.do(ctx, t)
	} else if err := t.guarded(ctx, c); err != nil {
		return err
	}
	c.head = t.head
	if c.err != nil && !errors.As(c.err, new(refusal)) {
		return c.err
	}
	return nil
}

func (t *tx) guarded(ctx context.Context, c *change) error {
	before, checkpoint := t.head, t.checkpoint
	if _, err := t.ExecContext(ctx, `SAVEPOINT part`); err != nil {
		return err
	}
	c.err = c.do(ctx, t)
	if !errors.As(c.err, new(refusal)) {
		_, err := t.ExecContext(ctx, `RELEASE part`)
		return errors.Join(c.err, err)
	}
	t.head, t.checkpoint = before, checkpoint
	_, err := t.ExecContext(ctx, `ROLLBACK TO part; RELEASE part`)
	return err
}

// sealed is a record with its place in the chain.
type sealed struct {
	record    audit.Record
	canonical []byte
	head      audit.Head
}

// append adds records to the chain, and a checkpoint after every thousandth.
// What is wrong with one of them is found before any is written.
func (t *tx) append(ctx context.Context, rs ...audit.Record) error {
	all, head := make([]sealed, 0, len(rs)+1), t.head
	var err error
	for _, r := range rs {
		if all, head, err = t.seal(all, head, r); err != nil {
			return err
		}
		if head.Seq%checkpointEvery == checkpointEvery-1 {
			t.checkpoint = true
			if all, head, err = t.seal(all, head, audit.CheckpointRecord(head, r)); err != nil {
				return err
			}
		}
	}
	return t.insertSealed(ctx, all)
}

func (t *tx) seal(all []sealed, head audit.Head, r audit.Record) ([]sealed, audit.Head, error) {
	r.Time = t.store.now()
	canonical, next, err := audit.Seal(r, head)
	if err != nil {
		return all, head, refuse("%w: %w", audit.ErrNotWritable, err)
	}
	return append(all, sealed{r, canonical, next}), next, nil
}

// mark writes a checkpoint record for the head, on behalf of cause.
func (t *tx) mark(ctx context.Context, cause audit.Record) error {
	t.checkpoint = true
	all, _, err := t.seal(nil, t.head, audit.CheckpointRecord(t.head, cause))
	if err != nil {
		return err
	}
	return t.insertSealed(ctx, all)
}

// insertSealed writes as many records with one statement as it can: what a
// statement costs by itself, the triggers' journal above all, is most of it.
func (t *tx) insertSealed(ctx context.Context, all []sealed) error {
	for len(all) > 0 {
		query, n := insertRecord, 1
		if len(all) >= manyRecords {
			query, n = insertMany, manyRecords
		}
		args := make([]any, 0, n*15)
		for _, s := range all[:n] {
			args = append(append(args, s.head.Seq, s.head.Hash, string(s.canonical)), columns(s.record)...)
		}
		if _, err := t.ExecContext(ctx, query, args...); err != nil {
			return err
		}
		t.head, all = all[n-1].head, all[n:]
	}
	return nil
}

// columns are the searchable members of a record, in the order of insertRecord,
// in the UTF-8 that its canonical form has.
func columns(r audit.Record) []any {
	cs := []any{
		nanos(r.Time), r.Action, string(r.Phase), r.Step, r.Result, r.Run, r.Plan, r.Queue,
		r.CopyID, r.JobKey, r.MessageID, r.Customer,
	}
	for i, c := range cs {
		if s, ok := c.(string); ok && !utf8.ValidString(s) {
			cs[i] = string([]rune(s))
		}
	}
	return cs
}

func (t *tx) saveHead(ctx context.Context) error {
	if t.head == t.first {
		return nil
	}
	_, err := t.ExecContext(ctx, updateHead, t.head.Seq, t.head.Hash)
	return err
}

// readHead reads where the log ends, and is ErrBroken when its last record is
// not the one that was written last.
func readHead(ctx context.Context, q querier, store string) (audit.Head, error) {
	h := audit.Head{Store: store}
	var seq sql.NullInt64
	var hash sql.NullString
	err := q.QueryRowContext(ctx, selectHead).Scan(&h.Seq, &h.Hash, &seq, &hash)
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
	return s.appendIf(ctx, func(context.Context, *tx) error { return nil }, rs)
}

// appendIf appends unless may refuses, which only reads.
func (s *Store) appendIf(ctx context.Context, may func(context.Context, *tx) error, rs []audit.Record) (audit.Head, error) {
	return s.submit(ctx, "append to audit log", &change{records: len(rs), simple: true, do: func(ctx context.Context, t *tx) error {
		if err := may(ctx, t); err != nil {
			return err
		}
		return t.append(ctx, rs...)
	}})
}
