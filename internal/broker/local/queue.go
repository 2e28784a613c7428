package local

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

const (
	// maxBatch makes one commit, which waits for the disk, carry many messages
	// while it keeps other writers waiting for some milliseconds only.
	maxBatch      = 100
	maxBatchBytes = 16 << 20
	dedupWindow   = 5 * time.Minute
)

// Queue is one queue of the file, as a broker. Opened on a dead-letter queue it
// is what redrivectl works on; opened on any other it is what an application's
// producers and workers use, and Quarantine moves to that queue's dead-letter
// queue. Any queue of the same file is a destination.
type Queue struct {
	file *File
	name string
}

var _ broker.Broker = (*Queue)(nil)

// Queue names a queue of the file. Whether it exists is found out by each
// method: if not, they say broker.ErrNoQueue.
func (f *File) Queue(name string) *Queue { return &Queue{file: f, name: name} }

// Capabilities are the same for every queue of a file. MaxMessageBytes is the
// default; a queue can be created with another maximum.
func (q *Queue) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		FreePeek:         true,
		SelectiveReceive: true,
		StableMessageID:  true,
		ExactCounts:      true,
		NativeQuarantine: true,
		Ordered:          true,
		MaxBatch:         maxBatch,
		MaxBatchBytes:    maxBatchBytes,
		MaxMessageBytes:  defaultMaxBytes,
		MaxLease:         maxLease,
		DedupWindow:      dedupWindow,
	}
}

// depthQuery is answered from indexes; only the rows of leased copies are read.
// Expired copies count no more, even where they were not removed yet.
const depthQuery = `
SELECT count(*) FILTER (WHERE visible_at <= ?2),
       count(*) FILTER (WHERE visible_at >  ?2),
       (SELECT count(*) FROM message
         WHERE queue = ?1 AND receipt IS NOT NULL AND visible_at > ?2 AND (expires_at IS NULL OR expires_at > ?2)),
       min(sent_at)
  FROM message WHERE queue = ?1 AND (expires_at IS NULL OR expires_at > ?2)`

// Describe counts the queue exactly, as of one instant.
func (q *Queue) Describe(ctx context.Context) (broker.Description, error) {
	d, err := q.describe(ctx)
	if err != nil {
		return d, fmt.Errorf("describe: %w", sqlite.Ended(ctx, err))
	}
	return d, nil
}

func (q *Queue) describe(ctx context.Context) (d broker.Description, err error) {
	tx, err := q.file.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return d, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	c, err := foundQueue(q.name)(scanQueue(tx.QueryRowContext(ctx, selectQueue, q.name)))
	if err != nil {
		return d, err
	}
	var hidden int64
	var oldest sql.NullInt64
	d = broker.Description{Broker: "local", Queue: q.name, Retention: c.Retention, MaxReceives: c.MaxReceives}
	err = tx.QueryRowContext(ctx, depthQuery, q.name, millis(q.file.now())).
		Scan(&d.Depth.Visible, &hidden, &d.Depth.InFlight, &oldest)
	if err != nil {
		return d, err
	}
	d.Depth.Delayed = hidden - d.Depth.InFlight
	d.Depth.Exact = true
	d.OldestAt = fromMillis(oldest)
	d.Sources, err = sources(ctx, tx, q.name)
	return d, err
}

func sources(ctx context.Context, tx *sql.Tx, name string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT name FROM queue WHERE dead_letter = ? ORDER BY name`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		names = append(names, s)
	}
	return names, rows.Err()
}

// rowID is the row of a copy of this queue. A copy of another entity, or one
// that no row can have, is not held here.
func (q *Queue) rowID(c broker.CopyID) (int64, bool) {
	if c.Entity != q.name {
		return 0, false
	}
	id, err := strconv.ParseInt(c.ID, 10, 64)
	return id, err == nil
}

// copyID names the copy in a row of this queue.
func (q *Queue) copyID(row int64) broker.CopyID {
	return broker.CopyID{Entity: q.name, ID: strconv.FormatInt(row, 10)}
}

// checkBatch refuses a call that is larger than Capabilities allow.
func checkBatch(n int) error {
	if n > maxBatch {
		return fmt.Errorf("%d entries in one call, at most %d are allowed", n, maxBatch)
	}
	return nil
}
