package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/redrivectl/redrivectl/internal/broker"
)

const (
	insertMessage = `
INSERT INTO message (queue, message_id, order_key, visible_at, expires_at, sent_at, raw_format, raw, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertAttribute = `
INSERT INTO attribute (message, system, position, name, type, value) VALUES (?, ?, ?, ?, ?, ?)`

	selectDedup = `SELECT message_id FROM dedup WHERE queue = ? AND dedup_id = ? AND until > ?`

	upsertDedup = `
INSERT INTO dedup (queue, dedup_id, until, message_id) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, dedup_id) DO UPDATE SET until = excluded.until, message_id = excluded.message_id`

	purgeDedup = `
DELETE FROM dedup WHERE (queue, dedup_id) IN (SELECT queue, dedup_id FROM dedup WHERE until <= ? LIMIT 1000)`
)

// Publish sends messages to a queue of the file in one transaction. A message
// that the queue cannot take is Refused and the others go on. A message whose
// DedupID the queue accepted within the last five minutes is Done with the
// earlier one's ID and is not delivered again. System attributes go with the
// message, except those that this broker adds when it dead-letters.
func (q *Queue) Publish(ctx context.Context, destination string, ms []broker.Outgoing) []broker.Result {
	results := make([]broker.Result, len(ms))
	err := checkPublish(ms)
	if err == nil && len(ms) > 0 {
		err = q.file.update(ctx, func(t *tx) error { return t.publish(ctx, destination, ms, results) })
	}
	if err != nil {
		return broker.All(len(ms), whole(fmt.Errorf("publish to %s: %w", destination, err)))
	}
	return results
}

func checkPublish(ms []broker.Outgoing) error {
	if err := checkBatch(len(ms)); err != nil {
		return err
	}
	total := 0
	for _, m := range ms {
		total += size(m.Message)
	}
	if total > maxBatchBytes && len(ms) > 1 {
		return fmt.Errorf("%d bytes in one call, at most %d are allowed", total, maxBatchBytes)
	}
	return nil
}

func (t *tx) publish(ctx context.Context, destination string, ms []broker.Outgoing, results []broker.Result) error {
	c, err := t.queue(ctx, destination)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, purgeDedup, t.now); err != nil {
		return err
	}
	for i, m := range ms {
		if err := checkOutgoing(m, c); err != nil {
			results[i] = refused(fmt.Errorf("publish to %s: %w", destination, err))
			continue
		}
		id, err := t.publishOne(ctx, c, m)
		if err != nil {
			return err
		}
		results[i] = broker.Result{Outcome: broker.Done, NewMessageID: id}
	}
	return nil
}

func checkOutgoing(m broker.Outgoing, c QueueConfig) error {
	if n := size(m.Message); n > c.MaxMessageBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", broker.ErrTooLarge, n, c.MaxMessageBytes)
	}
	if m.Delay < 0 {
		return fmt.Errorf("delay %s is negative", m.Delay)
	}
	return checkTexts(m)
}

// checkTexts finds what SQL text cannot keep.
func checkTexts(m broker.Outgoing) error {
	if badText(m.OrderKey) || badText(m.DedupID) || badText(m.RawFormat) {
		return errors.New("ordering key, deduplication ID and raw format must be UTF-8 text without NUL")
	}
	for _, as := range [][]broker.Attribute{m.Attributes, m.System} {
		for _, a := range as {
			if a.Name == "" || badText(a.Name) || badText(a.Type) {
				return fmt.Errorf("attribute %q: name and type must be UTF-8 text without NUL, the name not empty", a.Name)
			}
		}
	}
	return nil
}

// publishOne returns the message ID of the new message, or of the earlier one
// that it repeats.
func (t *tx) publishOne(ctx context.Context, c QueueConfig, m broker.Outgoing) (string, error) {
	messageID := uuid.NewString()
	if m.DedupID != "" {
		earlier, err := t.dedup(ctx, c.Name, m.DedupID, messageID)
		if err != nil || earlier != "" {
			return earlier, err
		}
	}
	delay := m.Delay
	if delay == 0 {
		delay = c.Delay
	}
	id, err := t.insert(ctx, insertMessage, c.Name, messageID, m.OrderKey, t.now+delay.Milliseconds(), expiry(t.now, c.Retention),
		t.now, m.RawFormat, m.Raw, bytesOrEmpty(m.Body))
	if err != nil {
		return "", err
	}
	if err := t.addAttributes(ctx, id, 0, 0, m.Attributes); err != nil {
		return "", err
	}
	return messageID, t.addAttributes(ctx, id, 1, 0, withoutReason(m.System))
}

// dedup returns the ID of the message that this one repeats, or notes this one.
func (t *tx) dedup(ctx context.Context, queue, dedupID, messageID string) (earlier string, err error) {
	err = t.row(ctx, selectDedup, queue, dedupID, t.now).Scan(&earlier)
	if !errors.Is(err, sql.ErrNoRows) {
		return earlier, err
	}
	_, err = t.exec(ctx, upsertDedup, queue, dedupID, t.now+dedupWindow.Milliseconds(), messageID)
	return "", err
}

// addAttributes appends attributes to a copy, from position first on; system is
// 1 for those that are not the sender's.
func (t *tx) addAttributes(ctx context.Context, id int64, system, first int, as []broker.Attribute) error {
	for i, a := range as {
		_, err := t.exec(ctx, insertAttribute, id, system, first+i, a.Name, a.Type, bytesOrEmpty(a.Value))
		if err != nil {
			return err
		}
	}
	return nil
}

// expiry is when a copy that arrives now is removed; nil: never.
func expiry(now int64, retention time.Duration) any {
	if retention == 0 {
		return nil
	}
	return now + retention.Milliseconds()
}
