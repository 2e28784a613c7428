package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

const (
	defaultVisibility = 30 * time.Second
	defaultMaxBytes   = 1 << 20
	maxLease          = 12 * time.Hour
)

// ErrQueueExists says that a queue of that name exists with other attributes.
var ErrQueueExists = errors.New("queue exists with other attributes")

// QueueConfig are the attributes of a queue. Times are kept in milliseconds.
type QueueConfig struct {
	Name string
	// Visibility is the lease of a receive that names none: 1 ms to 12 h, 30 s
	// where it is zero.
	Visibility time.Duration
	// Delay hides a new message for so long, unless the message has its own.
	Delay time.Duration
	// Retention removes a copy so long after it came into this queue, be it sent
	// or dead-lettered; zero keeps it for ever.
	Retention time.Duration
	// DeadLetter names an existing queue. A copy that was received MaxReceives
	// times moves there instead of being received once more; with MaxReceives
	// zero only Quarantine moves copies.
	DeadLetter  string
	MaxReceives int
	// Ordered delivers the copies of one OrderKey in the order of their arrival,
	// one at a time.
	Ordered bool
	// MaxMessageBytes bounds body, raw sections and the sender's attributes
	// (names, types, values) together; 1 MiB where it is zero.
	MaxMessageBytes int
}

func (c QueueConfig) withDefaults() QueueConfig {
	if c.Visibility == 0 {
		c.Visibility = defaultVisibility
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = defaultMaxBytes
	}
	return c
}

func (c QueueConfig) validate() error {
	switch {
	case c.Name == "" || badText(c.Name):
		return errors.New("the name must be UTF-8 text without NUL, and not empty")
	case c.Visibility < time.Millisecond || c.Visibility > maxLease:
		return fmt.Errorf("visibility %s is outside 1ms to %s", c.Visibility, maxLease)
	case c.Delay < 0 || c.Retention < 0 || c.MaxReceives < 0 || c.MaxMessageBytes < 0:
		return errors.New("delay, retention, maximum receives and message size cannot be negative")
	case c.Retention > 0 && c.Retention < time.Millisecond:
		return errors.New("retention is shorter than 1ms")
	case c.MaxReceives > 0 && c.DeadLetter == "":
		return errors.New("maximum receives needs a dead-letter queue")
	case c.DeadLetter == c.Name:
		return errors.New("a queue cannot be its own dead-letter queue")
	}
	return nil
}

// badText says that s cannot be kept as SQL text that every client reads alike.
func badText(s string) bool { return !utf8.ValidString(s) || strings.ContainsRune(s, 0) }

const insertQueue = `
INSERT INTO queue (name, visibility_ms, delay_ms, retention_ms, dead_letter, max_receives, ordered, max_bytes)
VALUES (?, ?, ?, ?, nullif(?, ''), ?, ?, ?) ON CONFLICT (name) DO NOTHING`

const queueColumns = `name, visibility_ms, delay_ms, retention_ms, coalesce(dead_letter, ''), max_receives, ordered, max_bytes`

const selectQueue = `SELECT ` + queueColumns + ` FROM queue WHERE name = ?`

// CreateQueue makes a queue. It does nothing if the queue exists with the same
// attributes, and is ErrQueueExists if they differ. A dead-letter queue that
// does not exist is broker.ErrNoQueue.
func (f *File) CreateQueue(ctx context.Context, c QueueConfig) error {
	c = c.withDefaults()
	err := c.validate()
	if err == nil {
		err = f.update(ctx, func(t *tx) error { return t.createQueue(ctx, c) })
	}
	if err != nil {
		return fmt.Errorf("create queue %q: %w", c.Name, err)
	}
	return nil
}

func (t *tx) createQueue(ctx context.Context, c QueueConfig) error {
	if c.DeadLetter != "" {
		if _, err := t.queue(ctx, c.DeadLetter); err != nil {
			return err
		}
	}
	_, err := t.ExecContext(ctx, insertQueue, c.Name, c.Visibility.Milliseconds(), c.Delay.Milliseconds(),
		c.Retention.Milliseconds(), c.DeadLetter, c.MaxReceives, c.Ordered, c.MaxMessageBytes)
	if err != nil {
		return err
	}
	have, err := t.queue(ctx, c.Name)
	if err != nil {
		return err
	}
	if have != c.inMillis() {
		return ErrQueueExists
	}
	return nil
}

// inMillis is c as the file keeps it.
func (c QueueConfig) inMillis() QueueConfig {
	c.Visibility = c.Visibility.Truncate(time.Millisecond)
	c.Delay = c.Delay.Truncate(time.Millisecond)
	c.Retention = c.Retention.Truncate(time.Millisecond)
	return c
}

// Queues lists all queues of the file by name.
func (f *File) Queues(ctx context.Context) ([]QueueConfig, error) {
	rows, err := f.read.QueryContext(ctx, `SELECT `+queueColumns+` FROM queue ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list queues of %s: %w", f.path, sqlite.Ended(ctx, err))
	}
	defer rows.Close()
	var all []QueueConfig
	for rows.Next() {
		c, err := scanQueue(rows)
		if err != nil {
			return nil, fmt.Errorf("list queues of %s: %w", f.path, sqlite.Ended(ctx, err))
		}
		all = append(all, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list queues of %s: %w", f.path, sqlite.Ended(ctx, err))
	}
	return all, nil
}

// queue reads the attributes of a queue as the transaction sees them.
func (t *tx) queue(ctx context.Context, name string) (QueueConfig, error) {
	return foundQueue(name)(scanQueue(t.row(ctx, selectQueue, name)))
}

func foundQueue(name string) func(QueueConfig, error) (QueueConfig, error) {
	return func(c QueueConfig, err error) (QueueConfig, error) {
		if errors.Is(err, sql.ErrNoRows) {
			return c, fmt.Errorf("queue %q: %w", name, broker.ErrNoQueue)
		}
		return c, err
	}
}

func scanQueue(row interface{ Scan(...any) error }) (QueueConfig, error) {
	var c QueueConfig
	var visibility, delay, retention int64
	err := row.Scan(&c.Name, &visibility, &delay, &retention, &c.DeadLetter, &c.MaxReceives, &c.Ordered, &c.MaxMessageBytes)
	c.Visibility = time.Duration(visibility) * time.Millisecond
	c.Delay = time.Duration(delay) * time.Millisecond
	c.Retention = time.Duration(retention) * time.Millisecond
	return c, err
}
