package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/audit"
)

const (
	selectHead = `SELECT h.seq, h.hash, a.seq, a.hash FROM audit_head h LEFT JOIN audit a ON a.seq = (SELECT max(seq) FROM audit)`
	updateHead = `UPDATE audit_head SET seq = ?, hash = ?`
)

// checkpointEvery is after how many records the log names its own place.
const checkpointEvery = 1000

// tx is a transaction of the writer with the head of the chain in it.
type tx struct {
	*sql.Tx
	conn       *sql.Conn // that the transaction is on
	writer     *writer
	store      *Store
	parsed     map[string]*sql.Stmt // the writer's, on this transaction
	head       audit.Head
	first      audit.Head // the head when the transaction began
	checkpoint bool       // the head is to be verified and remembered once committed
}

// known is the query as the writer has parsed it, for this transaction, or nil.
func (t *tx) known(ctx context.Context, query string) *sql.Stmt {
	s := t.parsed[query]
	if s == nil && t.writer.parsed[query] != nil {
		s = t.StmtContext(ctx, t.writer.parsed[query])
		t.parsed[query] = s // the end of the transaction closes it
	}
	return s
}

// ExecContext and QueryRowContext run the statements that the writer has parsed
// as they are, and parse the others.
func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := t.known(ctx, query); s != nil { //nolint:sqlclosecheck // The end of the transaction closes it.
		return s.ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

// QueryRowContext is like ExecContext.
func (t *tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := t.known(ctx, query); s != nil { //nolint:sqlclosecheck // The end of the transaction closes it.
		return s.QueryRowContext(ctx, args...)
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
		return t.append(rs...)
	}})
}
