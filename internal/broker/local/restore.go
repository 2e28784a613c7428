package local

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/redrivectl/redrivectl/internal/broker"
)

const (
	holderOf = `SELECT queue FROM message WHERE id = ?`

	selectCopy = `SELECT ` + messageColumns + ` FROM message WHERE id = ? AND queue = ?`

	restoreMessage = `
INSERT INTO message (id, queue, message_id, order_key, visible_at, expires_at, receives,
                     sent_at, first_received_at, origin, raw_format, raw, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// blockLater takes the place of the head of an ordering group for a copy that
	// stands before it. The trigger on INSERT knows only copies that come last.
	blockLater = `
UPDATE message SET blocked = 1
 WHERE queue = ?1 AND order_key = ?2 AND order_key <> '' AND id > ?3 AND blocked = 0
   AND (SELECT ordered FROM queue WHERE name = ?1)`
)

// maxRow bounds the rows that a copy can bring along: new rows come behind the
// highest, so one near the end of the integers would leave no room for them.
const maxRow = 1 << 53

var _ broker.Restorer = (*Queue)(nil)

// Restore puts copies into this queue as they were, all in one transaction. See
// broker.Restorer. A copy is not too large that was held here before. Times are
// kept to the millisecond.
func (q *Queue) Restore(ctx context.Context, ms []broker.Message) []broker.Result {
	results := make([]broker.Result, len(ms))
	err := checkBatch(len(ms))
	if err == nil && len(ms) > 0 {
		err = q.file.update(ctx, func(t *tx) error { return t.restore(ctx, q, ms, results) })
	}
	if err != nil {
		return broker.All(len(ms), whole(fmt.Errorf("restore to %s: %w", q.name, err)))
	}
	return results
}

func (t *tx) restore(ctx context.Context, q *Queue, ms []broker.Message, results []broker.Result) error {
	c, err := t.queue(ctx, q.name)
	if err != nil {
		return err
	}
	for i, m := range ms {
		if err := checkRestored(m); err != nil {
			results[i] = refused(fmt.Errorf("restore copy %s: %w", m.Copy, err))
			continue
		}
		now, err := t.restoreOne(ctx, q, c, m)
		if err != nil {
			return err
		}
		results[i] = broker.Result{Outcome: broker.Done, NewMessageID: now.MessageID, Copy: now.Copy}
	}
	return nil
}

func checkRestored(m broker.Message) error {
	if badText(m.MessageID) || badText(m.Origin) {
		return errors.New("message ID and origin must be UTF-8 text without NUL")
	}
	if m.Receives < 0 {
		return fmt.Errorf("%d receives", m.Receives)
	}
	return checkTexts(broker.Outgoing{Message: m})
}

// restoreOne returns the copy as it is in the queue now.
func (t *tx) restoreOne(ctx context.Context, q *Queue, c QueueConfig, m broker.Message) (broker.Message, error) {
	id, held, err := t.ownRow(ctx, q, m)
	if err != nil || held {
		return m, err
	}
	if m.MessageID == "" {
		m.MessageID = uuid.NewString()
	}
	row, err := t.insert(ctx, restoreMessage, id, q.name, m.MessageID, m.OrderKey, t.now, t.restoredExpiry(m, c), m.Receives,
		t.sentMillis(m), nullMillis(m.FirstReceivedAt), m.Origin, m.RawFormat, m.Raw, bytesOrEmpty(m.Body))
	if err != nil {
		return m, err
	}
	m.Copy = q.copyID(row)
	for system, as := range [][]broker.Attribute{m.Attributes, m.System} {
		if err := t.addAttributes(ctx, row, system, 0, as); err != nil {
			return m, err
		}
	}
	if m.OrderKey == "" {
		return m, nil
	}
	_, err = t.exec(ctx, blockLater, q.name, m.OrderKey, row)
	return m, err
}

// ownRow is the row of the copy's own identity, or nil for a new one where that
// is another queue's or taken. held says that the copy is there already.
func (t *tx) ownRow(ctx context.Context, q *Queue, m broker.Message) (id any, held bool, err error) {
	own, ok := q.rowID(m.Copy)
	if !ok || own <= 0 || own > maxRow {
		return nil, false, nil
	}
	var holder string
	err = t.row(ctx, holderOf, own).Scan(&holder)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return own, false, nil
	case err != nil || holder != q.name:
		return nil, false, err
	}
	there, err := scanMessage(t.row(ctx, selectCopy, own, q.name))
	return nil, err == nil && sameMessage(there, m), err
}

// sameMessage compares what a copy is, and not how often it was received.
func sameMessage(a, b broker.Message) bool {
	same := func(x, y broker.Attribute) bool {
		return x.Name == y.Name && x.Type == y.Type && bytes.Equal(x.Value, y.Value)
	}
	return a.MessageID == b.MessageID && a.OrderKey == b.OrderKey && a.RawFormat == b.RawFormat &&
		bytes.Equal(a.Body, b.Body) && bytes.Equal(a.Raw, b.Raw) &&
		slices.EqualFunc(a.Attributes, b.Attributes, same) && slices.EqualFunc(a.System, b.System, same)
}

// restoredExpiry is the copy's own unless that has passed.
func (t *tx) restoredExpiry(m broker.Message, c QueueConfig) any {
	if !m.ExpiresAt.IsZero() && millis(m.ExpiresAt) <= t.now {
		return expiry(t.now, c.Retention)
	}
	return nullMillis(m.ExpiresAt)
}

// sentMillis is when the message was sent; one that does not tell is sent now.
func (t *tx) sentMillis(m broker.Message) int64 {
	if m.SentAt.IsZero() {
		return t.now
	}
	return millis(m.SentAt)
}

// nullMillis is a time as a column keeps it; zero is NULL.
func nullMillis(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return millis(at)
}
