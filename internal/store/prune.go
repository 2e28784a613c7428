package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// Pruned counts what a prune removed, or would.
type Pruned struct {
	Captures     int64
	CapturedJobs int64
	Archives     int64
	ArchiveBytes int64 // of bodies and raw sections
	// ArchivesSHA256 is over a line for each archived copy: run, copy and digest,
	// in their order. It is empty where there is none.
	ArchivesSHA256 string
	// Erased: no byte of it is left in the store's files. It is false while
	// another process reads from before the prune; the next prune erases then.
	Erased bool
}

// Nothing reports that there is nothing to remove.
func (p Pruned) Nothing() bool { return p.Captures+p.Archives == 0 }

// pruneAt are the moments that a prune goes by.
type pruneAt struct{ now, older int64 }

func (s *Store) pruneAt(older time.Duration) pruneAt {
	now := s.now()
	return pruneAt{now: nanos(now), older: nanos(now.Add(-older))}
}

// What may go: a capture after its day, whether it was finished or not, and an
// archive after its retention; of those, what is older than was asked for.
const (
	oldCaptures = ` captured_at < ? AND captured_at <= ?`
	oldArchives = ` ` + keptUntil + ` < ? AND archived_at <= ?`
)

func (p pruneAt) captures() []any { return []any{p.now - int64(captureLife), p.older} }
func (p pruneAt) archives() []any { return []any{p.now, p.older} }

// Prunable counts what Prune would remove now.
func (s *Store) Prunable(ctx context.Context, older time.Duration) (p Pruned, err error) {
	err = s.read.snapshot(ctx, func(t querier) error {
		p, err = prunable(ctx, t, s.pruneAt(older))
		return err
	})
	return p, err
}

func prunable(ctx context.Context, q querier, at pruneAt) (Pruned, error) {
	var p Pruned
	err := q.QueryRowContext(ctx, `SELECT count(*) FROM captures WHERE`+oldCaptures, at.captures()...).Scan(&p.Captures)
	if err == nil {
		err = q.QueryRowContext(ctx, `SELECT count(*) FROM capture_jobs WHERE capture IN (SELECT id FROM captures WHERE`+oldCaptures+`)`,
			at.captures()...).Scan(&p.CapturedJobs)
	}
	if err == nil {
		err = countArchives(ctx, q, at, &p)
	}
	if err != nil {
		return Pruned{}, fmt.Errorf("look for what may be pruned: %w", err)
	}
	return p, nil
}

func countArchives(ctx context.Context, q querier, at pruneAt, p *Pruned) error {
	h := sha256.New()
	err := each(ctx, q, func(rows *sql.Rows) error {
		var run, copyID, sum string
		var bytes int64
		if err := rows.Scan(&run, &copyID, &sum, &bytes); err != nil {
			return err
		}
		p.Archives++
		p.ArchiveBytes += bytes
		_, err := io.WriteString(h, run+" "+copyID+" "+sum+"\n")
		return err
	}, `SELECT run, copy, sha256, length(body) + length(raw) FROM archives WHERE`+oldArchives+` ORDER BY run, copy`, at.archives()...)
	if p.Archives > 0 {
		p.ArchivesSHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return err
}

// Prune removes captures past their day and archives past their retention that
// are older than older (0: all of them), and writes rec with the counts and the
// digest in the same transaction. Audit records, and the plans, approvals and
// runs that they speak of, are never removed. Where there is nothing to remove
// nothing is written.
func (s *Store) Prune(ctx context.Context, older time.Duration, rec audit.Record) (Pruned, error) {
	at := s.pruneAt(older)
	var p Pruned
	_, err := s.write(ctx, "prune", 1, func(ctx context.Context, t *tx) error {
		var err error
		if p, err = prunable(ctx, t, at); err != nil || p.Nothing() {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM captures WHERE`+oldCaptures, at.captures()...); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM archives WHERE`+oldArchives, at.archives()...); err != nil {
			return err
		}
		return t.append(detailed(rec, p.details()))
	})
	if err != nil {
		return Pruned{}, err
	}
	p.Erased, err = s.erase(ctx)
	return p, err
}

// details are what the record of a prune tells of it.
func (p Pruned) details() map[string]string {
	d := map[string]string{}
	for name, n := range map[string]int64{
		"captures": p.Captures, "captured_jobs": p.CapturedJobs, "archives": p.Archives, "archive_bytes": p.ArchiveBytes,
	} {
		d[name] = strconv.FormatInt(n, 10)
	}
	if p.ArchivesSHA256 != "" {
		d["archives_sha256"] = p.ArchivesSHA256
	}
	return d
}

// eraseWait is how long a prune waits for those who read, in milliseconds.
const eraseWait = "busy_timeout(2000)"

// erase moves the write-ahead log into the file and empties it. With
// secure_delete what was removed is overwritten there; only the log still had
// the pages as they were. It is false where another process needs them.
func (s *Store) erase(ctx context.Context) (bool, error) {
	c, err := s.writer.db.Conn(ctx)
	if err != nil {
		return false, fmt.Errorf("empty the store's write-ahead log: %w", err)
	}
	var busy, log, moved int
	_, err = c.ExecContext(ctx, `PRAGMA `+eraseWait)
	if err == nil {
		err = c.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &log, &moved)
	}
	_, rerr := c.ExecContext(context.WithoutCancel(ctx), `PRAGMA `+busyPragma)
	if err = errors.Join(err, rerr, c.Close()); err != nil {
		return false, fmt.Errorf("empty the store's write-ahead log: %w", err)
	}
	return busy == 0, nil
}

// Sizes are what a store holds.
type Sizes struct {
	Bytes        int64 // of the file and its write-ahead log
	AuditRecords int64
	Plans        int64
	Runs         int64
	Captures     int64
	CapturedJobs int64
	Archives     int64
	ArchiveBytes int64
}

// Sizes counts what the store holds now.
func (s *Store) Sizes(ctx context.Context) (z Sizes, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM audit), (SELECT count(*) FROM plans), (SELECT count(*) FROM runs),
  (SELECT count(*) FROM captures WHERE whole = 1), (SELECT count(*) FROM capture_jobs), (SELECT count(*) FROM archives),
  (SELECT coalesce(sum(length(body) + length(raw)), 0) FROM archives)`).
		Scan(&z.AuditRecords, &z.Plans, &z.Runs, &z.Captures, &z.CapturedJobs, &z.Archives, &z.ArchiveBytes)
	if err != nil {
		return Sizes{}, fmt.Errorf("count what the store holds: %w", err)
	}
	z.Bytes, err = s.fileBytes()
	return z, err
}
