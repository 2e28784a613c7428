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

// captureWriter writes one capture, chunk by chunk.
type captureWriter struct {
	store *Store
	queue string
	id    int64
	n     int // jobs written
	chunk []job.Job
}

// NewCapture begins a capture. See redrive.Captures.
func (s *Store) NewCapture(ctx context.Context, queue string, at time.Time) (redrive.CaptureWriter, error) {
	w := &captureWriter{store: s, queue: queue}
	_, err := s.write(ctx, "begin capture", 0, func(ctx context.Context, t *tx) error {
		r, err := t.ExecContext(ctx, `INSERT INTO captures (queue, captured_at, whole, header) VALUES (?, ?, 0, '{}')`, queue, nanos(at))
		if err != nil {
			return err
		}
		w.id, err = r.LastInsertId()
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Add keeps jobs without their content.
func (w *captureWriter) Add(ctx context.Context, jobs ...job.Job) error {
	for _, j := range jobs {
		w.chunk = append(w.chunk, j.WithoutContent())
		if len(w.chunk) < captureChunk {
			continue
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *captureWriter) flush(ctx context.Context) error {
	if len(w.chunk) == 0 {
		return nil
	}
	_, err := w.store.write(ctx, "save capture", 0, func(ctx context.Context, t *tx) error {
		return t.insertCaptured(ctx, w.id, w.n, w.chunk)
	})
	w.n += len(w.chunk)
	w.chunk = w.chunk[:0]
	return err
}

// Finish shows the capture, and drops the queue's older ones and whatever is
// older than a day.
func (w *captureWriter) Finish(ctx context.Context, c redrive.Capture) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	c.Jobs = nil
	header, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("save capture: %w", err)
	}
	_, err = w.store.write(ctx, "save capture", 0, func(ctx context.Context, t *tx) error {
		if _, err := t.ExecContext(ctx, `UPDATE captures SET whole = 1, header = ? WHERE id = ?`, string(header), w.id); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `DELETE FROM captures WHERE (queue = ? AND id < ?) OR captured_at < ?`,
			w.queue, w.id, nanos(w.store.now().Add(-captureLife)))
		return err
	})
	return err
}

func (t *tx) insertCaptured(ctx context.Context, capture int64, first int, jobs []job.Job) error {
	insert, err := t.PrepareContext(ctx, `INSERT INTO capture_jobs VALUES (?, ?, ?)`)
	if err != nil {
		return err
	}
	for i, j := range jobs {
		b, err := json.Marshal(j)
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
func (s *Store) LatestCapture(ctx context.Context, queue string) (redrive.Capture, bool, error) {
	var c redrive.Capture
	found, err := s.WalkCapture(ctx, queue, func(header redrive.Capture) func(job.Job) error {
		c = header
		return func(j job.Job) error {
			c.Jobs = append(c.Jobs, j)
			return nil
		}
	})
	if err != nil {
		return redrive.Capture{}, false, err
	}
	return c, found, nil
}

// WalkCapture gives that capture to begin, without its jobs, and then each job to
// what begin returns; with nil none is read. found is false where there is none.
func (s *Store) WalkCapture(ctx context.Context, queue string, begin func(redrive.Capture) func(job.Job) error) (found bool, err error) {
	err = s.read.snapshot(ctx, func(t querier) error {
		var id int64
		var header []byte
		var c redrive.Capture
		err := t.QueryRowContext(ctx, `SELECT id, header FROM captures WHERE queue = ? AND whole = 1 AND captured_at >= ?
  ORDER BY id DESC LIMIT 1`, queue, nanos(s.now().Add(-captureLife))).Scan(&id, &header)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal(header, &c)
		}
		if err != nil {
			return err
		}
		found = true
		if do := begin(c); do != nil {
			return captured(ctx, t, id, do)
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read capture of %s: %w", queue, err)
	}
	return found, nil
}

func captured(ctx context.Context, q querier, id int64, do func(job.Job) error) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var b sql.RawBytes
		if err := rows.Scan(&b); err != nil {
			return err
		}
		var j job.Job
		if err := json.Unmarshal(b, &j); err != nil {
			return err
		}
		return do(j)
	}, `SELECT job FROM capture_jobs WHERE capture = ? ORDER BY n`, id)
}
