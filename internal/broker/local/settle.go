package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// A receipt counts only until its lease ends, even where nobody else has
// received the copy since: the worker was told that time.
const (
	deleteLeased = `
DELETE FROM message WHERE id = ?1 AND queue = ?2 AND receipt = ?3 AND visible_at > ?4`

	releaseLease = `
UPDATE message SET receipt = NULL, visible_at = ?4
 WHERE id = ?1 AND queue = ?2 AND receipt = ?3 AND visible_at > ?4`

	extendLease = `
UPDATE message SET visible_at = ?5
 WHERE id = ?1 AND queue = ?2 AND receipt = ?3 AND visible_at > ?4`
)

// Ack removes the received copies in one transaction.
func (q *Queue) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return q.settle(ctx, "acknowledge", ds, func(t *tx, _ QueueConfig, id int64, d broker.Delivery) (bool, error) {
		n, err := t.exec(ctx, deleteLeased, id, q.name, d.Receipt, t.now)
		return n == 1, err
	})
}

// Release makes the received copies visible at once. Their receives stay
// counted.
func (q *Queue) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return q.settle(ctx, "release", ds, func(t *tx, _ QueueConfig, id int64, d broker.Delivery) (bool, error) {
		n, err := t.exec(ctx, releaseLease, id, q.name, d.Receipt, t.now)
		return n == 1, err
	})
}

// Extend sets the leases to end after lease from now; it may shorten them, and
// it can be repeated.
func (q *Queue) Extend(ctx context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	if lease < time.Millisecond || lease > maxLease {
		return broker.All(len(ds), refused(fmt.Errorf("extend: lease %s is outside 1ms to %s", lease, maxLease)))
	}
	return q.settle(ctx, "extend", ds, func(t *tx, _ QueueConfig, id int64, d broker.Delivery) (bool, error) {
		n, err := t.exec(ctx, extendLease, id, q.name, d.Receipt, t.now, t.now+lease.Milliseconds())
		return n == 1, err
	})
}

// settling acts on one copy; it reports false if the lease is lost.
type settling func(t *tx, c QueueConfig, id int64, d broker.Delivery) (held bool, err error)

// settle runs act on each delivery in one transaction. A lost lease, or a queue
// without a dead-letter queue, is that entry's result; any other error undoes
// the whole call.
func (q *Queue) settle(ctx context.Context, what string, ds []broker.Delivery, act settling) []broker.Result {
	results := make([]broker.Result, len(ds))
	err := checkBatch(len(ds))
	if err == nil && len(ds) > 0 {
		err = q.file.update(ctx, func(t *tx) error { return q.settleAll(ctx, t, ds, act, results) })
	}
	if err != nil {
		return broker.All(len(ds), whole(fmt.Errorf("%s: %w", what, err)))
	}
	for i := range results {
		if e := results[i].Err; e != nil {
			results[i].Err = fmt.Errorf("%s copy %s: %w", what, ds[i].Copy, e)
		}
	}
	return results
}

func (q *Queue) settleAll(ctx context.Context, t *tx, ds []broker.Delivery, act settling, results []broker.Result) error {
	c, err := t.queue(ctx, q.name)
	if err != nil {
		return err
	}
	for i, d := range ds {
		id, held := q.rowID(d.Copy)
		if held {
			held, err = act(t, c, id, d)
		}
		switch {
		case errors.Is(err, errNoDeadLetter):
			results[i], err = refused(err), nil
		case err != nil:
			return err
		case !held:
			results[i] = refused(broker.ErrLeaseLost)
		default:
			results[i] = broker.Result{Outcome: broker.Done}
		}
	}
	return nil
}
