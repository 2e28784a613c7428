package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/redrive"
)

// captureLife is how long a capture is kept.
const captureLife = 24 * time.Hour

// captureChunk is how many jobs of a capture one transaction writes, so that a
// large one does not keep the audit log waiting.
const captureChunk = 500

// SaveCapture replaces the queue's capture, once the new one is whole, and drops
// what is older than a day. Content of messages is left out. See
// redrive.Captures.
func (s *Store) SaveCapture(ctx context.Context, c redrive.Capture) error {
	const what = "save capture"
	id, err := s.beginCapture(ctx, what, c)
	if err != nil {
		return err
	}
	for n := 0; n < len(c.Jobs); n += captureChunk {
		chunk := c.Jobs[n:min(n+captureChunk, len(c.Jobs))]
		_, err := s.write(ctx, what, 0, func(ctx context.Context, t *tx) error {
			return t.insertCaptured(ctx, id, n, chunk)
		})
		if err != nil {
			return err
		}
	}
	_, err = s.write(ctx, what, 0, func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, `UPDATE captures SET whole = 1 WHERE id = ?`, id); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `DELETE FROM captures WHERE (queue = ? AND id < ?) OR captured_at < ?`,
			c.Queue, id, nanos(s.now().Add(-captureLife)))
		return err
	})
	return err
}

func (s *Store) beginCapture(ctx context.Context, what string, c redrive.Capture) (id int64, err error) {
	header := c
	header.Jobs = nil
	b, err := json.Marshal(header)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	_, err = s.write(ctx, what, 0, func(ctx context.Context, t *tx) error {
		r, err := t.ExecContext(ctx, `INSERT INTO captures (queue, captured_at, whole, header) VALUES (?, ?, 0, ?)`,
			c.Queue, nanos(c.CapturedAt), string(b))
		if err != nil {
			return err
		}
		id, err = r.LastInsertId()
		return err
	})
	return id, err
}

func (t *tx) insertCaptured(ctx context.Context, capture int64, first int, jobs []job.Job) error {
	insert, err := t.PrepareContext(ctx, `INSERT INTO capture_jobs VALUES (?, ?, ?)`)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		b, err := json.Marshal(stripped(j))
		if err == nil {
			_, err = insert.ExecContext(ctx, capture, first+i, string(b))
		}
		if err != nil {
			return errors.Join(err, insert.Close())
		}
	}
	return insert.Close()
}

// LatestCapture is the queue's capture, unless none is younger than a day.
func (s *Store) LatestCapture(ctx context.Context, queue string) (c redrive.Capture, found bool, err error) {
	err = s.snapshot(ctx, func(t *sql.Tx) error {
		var id int64
		var header []byte
		err := t.QueryRowContext(ctx, `SELECT id, header FROM captures WHERE queue = ? AND whole = 1 AND captured_at >= ?
  ORDER BY id DESC LIMIT 1`, queue, nanos(s.now().Add(-captureLife))).Scan(&id, &header)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(header, &c)
		}
		if err == nil {
			found, err = true, captured(ctx, t, id, &c)
		}
		return err
	})
	if err != nil {
		return redrive.Capture{}, false, fmt.Errorf("read capture of %s: %w", queue, err)
	}
	return c, found, nil
}

func captured(ctx context.Context, q querier, id int64, c *redrive.Capture) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var b sql.RawBytes
		if err := rows.Scan(&b); err != nil {
			return err
		}
		var j job.Job
		err := json.Unmarshal(b, &j)
		c.Jobs = append(c.Jobs, j)
		return err
	}, `SELECT job FROM capture_jobs WHERE capture = ? ORDER BY n`, id)
}
