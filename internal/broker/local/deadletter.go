package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// added are the system attributes that this broker adds to a copy when it
// dead-letters it. Publish leaves them off, so a redrive carries what the sender
// sent. The three of the reason are there after Quarantine alone and only where
// they are not empty: a copy that was received too often tells no reason.
func added() []string {
	return []string{
		broker.SystemReasonType, broker.SystemReasonCode, broker.SystemReasonMessage,
		broker.SystemQuarantinedBy, broker.SystemReasonAt,
	}
}

func withoutReason(system []broker.Attribute) []broker.Attribute {
	return slices.DeleteFunc(slices.Clone(system), func(a broker.Attribute) bool {
		return slices.Contains(added(), a.Name)
	})
}

const (
	// copyMessage makes the copy in the dead-letter queue: a new row, so that
	// the queue's order is the order of arrival there, with the message's own
	// identity, times and count.
	copyMessage = `
INSERT INTO message (queue, message_id, order_key, visible_at, expires_at, receives,
                     sent_at, first_received_at, origin, raw_format, raw, body)
SELECT ?2, message_id, order_key, ?3, ?4, receives,
       sent_at, first_received_at, queue, raw_format, raw, body
  FROM message WHERE id = ?1`

	moveAttributes = `UPDATE attribute SET message = ?2 WHERE message = ?1`

	dropReason = `
DELETE FROM attribute WHERE message = ?1 AND system = 1 AND name IN (?2, ?3, ?4, ?5, ?6)`

	deleteMessage = `DELETE FROM message WHERE id = ?`

	checkLease = `
SELECT count(*) FROM message
 WHERE id = ? AND queue = ? AND receipt = ? AND visible_at > ?`
)

// firstAdded is the position of the attributes added here: after any that a
// sender can set.
const firstAdded = 1 << 30

var errNoDeadLetter = errors.New("queue has no dead-letter queue")

// Quarantine moves received copies to this queue's dead-letter queue in one
// transaction, with the reason as system attributes (broker.SystemReasonType and
// its neighbours).
func (q *Queue) Quarantine(ctx context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	return q.settle(ctx, "quarantine", ds, func(t *tx, c QueueConfig, id int64, d broker.Delivery) (bool, error) {
		if c.DeadLetter == "" {
			return false, errNoDeadLetter
		}
		var held int
		err := t.row(ctx, checkLease, id, q.name, d.Receipt, t.now).Scan(&held)
		if err != nil || held == 0 {
			return false, err
		}
		return true, t.deadLetter(ctx, c, id, broker.QuarantinedByApplication, r)
	})
}

// deadLetter moves one copy of queue c to its dead-letter queue. The message
// keeps its ID, sent time and receives; the copy's identity is new, and its
// retention begins anew with that of the dead-letter queue.
func (t *tx) deadLetter(ctx context.Context, c QueueConfig, id int64, by string, r broker.Reason) error {
	to, err := t.queue(ctx, c.DeadLetter)
	if err != nil {
		return err
	}
	moved, err := t.insert(ctx, copyMessage, id, to.Name, t.now, expiry(t.now, to.Retention))
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, moveAttributes, id, moved); err != nil {
		return err
	}
	if _, err := t.exec(ctx, deleteMessage, id); err != nil {
		return err
	}
	names := []any{moved}
	for _, name := range added() {
		names = append(names, name)
	}
	if _, err := t.exec(ctx, dropReason, names...); err != nil {
		return err
	}
	return t.addAttributes(ctx, moved, 1, firstAdded, t.notes(by, r))
}

// notes are the values of added, less the empty ones.
func (t *tx) notes(by string, r broker.Reason) []broker.Attribute {
	at := time.UnixMilli(t.now).UTC().Format(time.RFC3339Nano)
	var as []broker.Attribute
	for i, value := range []string{r.Type, r.Code, r.Message, by, at} {
		if value != "" {
			as = append(as, broker.Attribute{Name: added()[i], Type: "String", Value: []byte(value)})
		}
	}
	return as
}

// ReasonOf reads what Quarantine or the dead-letter policy noted on a copy. at
// is zero on a copy that was never dead-lettered.
func ReasonOf(m broker.Message) (r broker.Reason, at time.Time, err error) {
	for _, a := range m.System {
		switch a.Name {
		case broker.SystemReasonType:
			r.Type = string(a.Value)
		case broker.SystemReasonCode:
			r.Code = string(a.Value)
		case broker.SystemReasonMessage:
			r.Message = string(a.Value)
		case broker.SystemReasonAt:
			if at, err = time.Parse(time.RFC3339, string(a.Value)); err != nil {
				return r, at, fmt.Errorf("attribute %s of copy %s: %w", broker.SystemReasonAt, m.Copy, err)
			}
		}
	}
	return r, at, nil
}
