package local

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

const (
	// maxMoves bounds how many copies one receive dead-letters, and maxPurge how
	// many it removes for their age, so that no receive keeps others waiting long.
	maxMoves = 1000
	maxPurge = 10000

	purgeExpired = `
DELETE FROM message WHERE id IN (
  SELECT id FROM message WHERE queue = ?1 AND expires_at <= ?2 AND expires_at IS NOT NULL LIMIT ?3)`

	// groupFree holds for a copy whose ordering group has nothing in flight. The
	// head of a group can be free of copies before it (blocked = 0) while a later
	// one, received by name, is leased.
	groupFree = `(?3 = 0 OR order_key = '' OR NOT EXISTS (
    SELECT 1 FROM message AS l
     WHERE l.queue = message.queue AND l.order_key = message.order_key
       AND l.receipt IS NOT NULL AND l.visible_at > ?2))`

	// selectReady walks the index in its own order: longest visible first.
	selectReady = `
SELECT id, receives FROM message
 WHERE queue = ?1 AND blocked = 0 AND visible_at <= ?2 AND (expires_at IS NULL OR expires_at > ?2)
   AND ` + groupFree + `
 ORDER BY visible_at, expires_at, sent_at, id LIMIT ?4`

	selectNamed = `
SELECT id, receives FROM message
 WHERE id IN (SELECT value FROM json_each(?5)) AND queue = ?1 AND visible_at <= ?2
   AND (expires_at IS NULL OR expires_at > ?2)
   AND ` + groupFree + `
 ORDER BY id LIMIT ?4`

	// leaseMessage asks for the free group again, for a copy of the same group
	// may have been leased a moment ago in the same transaction.
	leaseMessage = `
UPDATE message
   SET receives = receives + 1, receipt = ?4, visible_at = ?5, first_received_at = coalesce(first_received_at, ?2)
 WHERE id = ?1 AND ` + groupFree + `
RETURNING ` + messageColumns
)

// Receive leases copies, longest visible first. A copy that was received as
// often as the queue's policy allows is dead-lettered instead. Of an ordering
// group it leases at most one copy, and none while one is in flight; Only may
// name a copy behind the head, which is then leased out of its turn. It returns
// less than r.Max rather than more than 16 MiB at once. A zero lease is the
// queue's visibility.
func (q *Queue) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	if r.Lease < 0 || r.Lease > maxLease {
		return nil, fmt.Errorf("receive from %s: lease %s is outside 0 to %s", q.name, r.Lease, maxLease)
	}
	var got []broker.Delivery
	err := q.file.update(ctx, func(t *tx) (err error) {
		got, err = t.receive(ctx, q, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q.name, err)
	}
	return got, nil
}

// receiving is one call to Receive.
type receiving struct {
	*tx
	queue QueueConfig
	lease time.Duration
	max   int
	only  any // the rows named in Request.Only as JSON; nil: any row
	got   []broker.Delivery
	bytes int
	moves int
}

func (t *tx) receive(ctx context.Context, q *Queue, r broker.Request) ([]broker.Delivery, error) {
	c, err := t.queue(ctx, q.name)
	if err != nil {
		return nil, err
	}
	if _, err := t.exec(ctx, purgeExpired, q.name, t.now, maxPurge); err != nil {
		return nil, err
	}
	v := &receiving{tx: t, queue: c, lease: r.Lease, max: min(r.Max, maxBatch)}
	if v.lease == 0 {
		v.lease = c.Visibility
	}
	if v.only, err = q.named(r.Only); err != nil {
		return nil, err
	}
	for again := v.max > 0; again; {
		if again, err = v.round(ctx); err != nil {
			return nil, err
		}
	}
	return v.got, nil
}

// named is the JSON array of the rows of the copies of this queue, or nil if
// none were asked for by name.
func (q *Queue) named(only []broker.CopyID) (any, error) {
	if len(only) == 0 {
		return nil, nil
	}
	ids := []int64{}
	for _, c := range only {
		if id, ok := q.rowID(c); ok {
			ids = append(ids, id)
		}
	}
	text, err := json.Marshal(ids)
	return string(text), err
}

type candidate struct {
	id       int64
	receives int
}

// round takes one set of candidates: it leases them, or moves them if they were
// received too often. It reports whether another round can find more, which is
// so when copies moved away and made room.
func (v *receiving) round(ctx context.Context) (again bool, err error) {
	cs, err := v.candidates(ctx, v.max-len(v.got))
	if err != nil {
		return false, err
	}
	moved := v.moves
	for _, c := range cs {
		if v.bytes > maxBatchBytes-v.queue.MaxMessageBytes && len(v.got) > 0 {
			return false, nil
		}
		if err := v.take(ctx, c); err != nil {
			return false, err
		}
	}
	return v.moves > moved && v.moves < maxMoves && len(v.got) < v.max, nil
}

func (v *receiving) take(ctx context.Context, c candidate) error {
	if v.queue.MaxReceives > 0 && c.receives >= v.queue.MaxReceives {
		v.moves++
		return v.deadLetter(ctx, v.queue, c.id, broker.QuarantinedByMaxReceives, broker.Reason{})
	}
	receipt := newReceipt()
	until := v.now + max(v.lease.Milliseconds(), 1)
	m, err := scanMessage(v.row(ctx, leaseMessage, c.id, v.now, v.queue.Ordered, receipt, until))
	if errors.Is(err, sql.ErrNoRows) {
		return nil // another copy of its group was leased just now
	}
	if err != nil {
		return err
	}
	v.bytes += size(m)
	v.got = append(v.got, broker.Delivery{Message: m, Receipt: receipt, LeaseUntil: time.UnixMilli(until).UTC()})
	return nil
}

func (v *receiving) candidates(ctx context.Context, limit int) ([]candidate, error) {
	query, args := selectReady, []any{v.queue.Name, v.now, v.queue.Ordered, limit}
	if v.only != nil {
		query, args = selectNamed, append(args, v.only)
	}
	rows, err := v.stmt(ctx, query).QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var cs []candidate
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.id, &c.receives); err != nil {
			return nil, err
		}
		cs = append(cs, c)
	}
	return cs, rows.Err()
}

// newReceipt is 128 random bits, so that the receipt of another delivery, or of
// another process, is never taken for this one.
func newReceipt() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}
