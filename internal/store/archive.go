package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

// Save archives copies whole. Saving a copy of a run again changes nothing; the
// same copy with other content is redrive.ErrChanged. See redrive.Archive.
func (s *Store) Save(ctx context.Context, as ...redrive.Archived) error {
	_, err := s.write(ctx, "save to archive", len(as), func(ctx context.Context, t *tx) error {
		for _, a := range as {
			if err := t.archive(ctx, a); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (t *tx) archive(ctx context.Context, a redrive.Archived) error {
	rest, err := json.Marshal(a.Job.WithoutContent())
	if err != nil {
		return refuse("encode %s: %w", a.Job.Message.Copy, err)
	}
	m := a.Job.Message
	sum := archiveSum(rest, m.Body, m.Raw)
	_, err = t.ExecContext(ctx, `INSERT INTO archives VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		string(a.Run), m.Copy.String(), string(a.Plan), a.Queue, a.Owner, string(a.Action), nanos(a.At),
		int64(a.Retention/time.Second), string(rest), notNil(m.Body), notNil(m.Raw), sum)
	if err != nil {
		return err
	}
	return t.sameCopy(ctx, a.Run, m)
}

// sameCopy refuses to take an archived copy for another message's.
func (t *tx) sameCopy(ctx context.Context, run redrive.RunID, m broker.Message) error {
	var body, raw []byte
	err := t.QueryRowContext(ctx, `SELECT body, raw FROM archives WHERE run = ? AND copy = ?`,
		string(run), m.Copy.String()).Scan(&body, &raw)
	if err != nil {
		return err
	}
	if !bytes.Equal(body, m.Body) || !bytes.Equal(raw, m.Raw) {
		return refuse("copy %s is archived with other content: %w", m.Copy, redrive.ErrChanged)
	}
	return nil
}

// Archived reads a copy back, whole. It is redrive.ErrNotFound when the run
// archived no such copy, and redrive.ErrChanged when what is stored is not what
// was saved. The job's Payload is empty: it is part of the body.
func (s *Store) Archived(ctx context.Context, run redrive.RunID, c broker.CopyID) (redrive.Archived, error) {
	var found []redrive.Archived
	err := s.EachArchived(ctx, ArchiveQuery{Run: run, Copy: c.String()}, func(a redrive.Archived) error {
		found = append(found, a)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("archived copy %s of run %s: %w", c, run, redrive.ErrNotFound)
	}
	if err != nil {
		return redrive.Archived{Run: run}, err
	}
	return found[0], nil
}

// EachArchived calls each for the copies that the query selects, whole, in the
// order in which they were archived. It is redrive.ErrChanged when what is stored
// is not what was saved. The job's Payload is empty: it is part of the body.
func (s *Store) EachArchived(ctx context.Context, q ArchiveQuery, found func(redrive.Archived) error) error {
	where, args := q.conditions()
	return each(ctx, s.read, func(rows *sql.Rows) error {
		a, err := scanArchived(rows)
		if err != nil {
			return err
		}
		return found(a)
	}, `SELECT run, copy, plan, queue, owner, action, archived_at, retention_seconds, job, body, raw, sha256
  FROM archives`+where+` ORDER BY rowid`, args...)
}

func scanArchived(rows *sql.Rows) (a redrive.Archived, err error) {
	var at, retention int64
	var rest, body, raw []byte
	var copyID, sum string
	err = rows.Scan(&a.Run, &copyID, &a.Plan, &a.Queue, &a.Owner, &a.Action, &at, &retention, &rest, &body, &raw, &sum)
	if err == nil && sum != archiveSum(rest, body, raw) {
		err = redrive.ErrChanged
	}
	if err == nil {
		err = json.Unmarshal(rest, &a.Job)
	}
	if err != nil {
		return a, fmt.Errorf("read archived copy %s of run %s: %w", copyID, a.Run, err)
	}
	a.At, a.Retention = fromNanos(at), time.Duration(retention)*time.Second
	a.Job.Message.Body = body
	if len(raw) > 0 { // else body and attributes are the whole message
		a.Job.Message.Raw = raw
	}
	return a, nil
}

// ArchivedCopies are the copies (CopyID.String) that a run archived, in order.
func (s *Store) ArchivedCopies(ctx context.Context, run redrive.RunID) ([]string, error) {
	var copies []string
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var c string
		err := rows.Scan(&c)
		copies = append(copies, c)
		return err
	}, `SELECT copy FROM archives WHERE run = ? ORDER BY copy`, string(run))
	if err != nil {
		return nil, fmt.Errorf("list archived copies of run %s: %w", run, err)
	}
	return copies, nil
}

// archiveSum covers everything of a copy; each part's length keeps two of them
// from running together.
func archiveSum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		h.Write([]byte{':'})
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
