package local

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

const (
	// A page ends at either bound, so a look needs the same memory for a queue of
	// any length.
	pageRows  = 256
	pageBytes = 2 << 20

	browsePage = `
SELECT ` + messageColumns + ` FROM message
 WHERE queue = ?1 AND id > ?2 AND id <= ?3 AND (expires_at IS NULL OR expires_at > ?4)
 ORDER BY id LIMIT ?5`

	lastRow = `SELECT coalesce(max(id), 0) FROM message WHERE queue = ?`
)

// Browse shows every copy that was in the queue when the look began and still
// is when its page is read: visible, delayed and leased ones alike, in the
// order of their arrival. It changes nothing. No transaction is open while each
// runs, so each may take its time and may use the same file.
func (q *Queue) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	last, err := q.last(ctx)
	if err != nil {
		return partly("the queue could not be read"), fmt.Errorf("browse %s: %w", q.name, sqlite.Ended(ctx, err))
	}
	seen := 0
	for after := int64(0); ; {
		want := pageRows
		if limit > 0 {
			// One more than asked for tells whether the limit cut anything off.
			want = min(want, limit-seen+1)
		}
		page, err := q.page(ctx, after, last, want)
		if err != nil {
			return partly("the queue could not be read to its end"), fmt.Errorf("browse %s: %w", q.name, sqlite.Ended(ctx, err))
		}
		if len(page) == 0 {
			return broker.Completeness{Complete: true}, nil
		}
		for _, m := range page {
			if limit > 0 && seen == limit {
				return partly(fmt.Sprintf("stopped at the limit of %d", limit)), nil
			}
			if err := each(m); err != nil {
				return partly("the look was stopped"), err
			}
			seen++
		}
		if after, err = strconv.ParseInt(page[len(page)-1].Copy.ID, 10, 64); err != nil {
			return partly("the queue could not be read to its end"), fmt.Errorf("browse %s: %w", q.name, sqlite.Ended(ctx, err))
		}
	}
}

func partly(why string) broker.Completeness { return broker.Completeness{Why: why} }

// last is the newest row of the queue: where a look ends that begins now.
func (q *Queue) last(ctx context.Context) (last int64, err error) {
	tx, err := q.file.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	if _, err := foundQueue(q.name)(scanQueue(tx.QueryRowContext(ctx, selectQueue, q.name))); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, lastRow, q.name).Scan(&last)
	return last, err
}

func (q *Queue) page(ctx context.Context, after, last int64, rows int) ([]broker.Message, error) {
	r, err := q.file.read.QueryContext(ctx, browsePage, q.name, after, last, millis(q.file.now()), rows)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var page []broker.Message
	for bytes := 0; bytes < pageBytes && r.Next(); {
		m, err := scanMessage(r)
		if err != nil {
			return nil, err
		}
		page = append(page, m)
		bytes += size(m)
	}
	return page, r.Err()
}
