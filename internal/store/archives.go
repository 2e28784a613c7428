package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// ArchiveQuery selects archived copies. Empty fields select everything; the
// others must all hold.
type ArchiveQuery struct {
	Run   redrive.RunID
	Queue string
	Copy  string // CopyID.String
	Job   string // job key or message ID, whole
}

// The names of a job that is kept as JSON, in archives and captures.
const (
	keptJobKey    = `coalesce(job ->> '$.JobKey', '')`
	keptMessageID = `coalesce(job ->> '$.Message.MessageID', '')`
	// keptUntil is in nanoseconds, as all times are.
	keptUntil = `archived_at + retention_seconds * 1000000000`
)

func (q ArchiveQuery) conditions() (string, []any) {
	var terms []string
	var args []any
	add := func(term string, values ...any) {
		terms, args = append(terms, term), append(args, values...)
	}
	if q.Run != "" {
		add(`run = ?`, string(q.Run))
	}
	if q.Queue != "" {
		add(`queue = ?`, q.Queue)
	}
	if q.Copy != "" {
		add(`copy = ?`, q.Copy)
	}
	if q.Job != "" {
		add(`(`+keptJobKey+` = ? OR `+keptMessageID+` = ?)`, q.Job, q.Job)
	}
	if len(terms) == 0 {
		return "", nil
	}
	return ` WHERE ` + strings.Join(terms, ` AND `), args
}

// ArchivedCopy is an archived copy as a list has it, without its content.
type ArchivedCopy struct {
	Run       redrive.RunID
	Plan      redrive.PlanID
	Queue     string
	Owner     string
	Action    string
	Copy      string
	JobKey    string
	MessageID string
	At        time.Time
	KeptUntil time.Time
	Bytes     int64 // of body and raw sections
}

// Archives calls each for the copies that the query selects, newest first. It
// reads no payload and does not check what is stored.
func (s *Store) Archives(ctx context.Context, q ArchiveQuery, found func(ArchivedCopy) error) error {
	where, args := q.conditions()
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var a ArchivedCopy
		var at, until int64
		err := rows.Scan(&a.Run, &a.Plan, &a.Queue, &a.Owner, &a.Action, &a.Copy, &a.JobKey, &a.MessageID, &at, &until, &a.Bytes)
		if err != nil {
			return err
		}
		a.At, a.KeptUntil = fromNanos(at), fromNanos(until)
		return found(a)
	}, `SELECT run, plan, queue, owner, action, copy, `+keptJobKey+`, `+keptMessageID+`, archived_at, `+keptUntil+`,
  length(body) + length(raw) FROM archives`+where+` ORDER BY rowid DESC`, args...)
	if err != nil {
		return fmt.Errorf("list archives: %w", err)
	}
	return nil
}

// CountArchived counts the copies that the query selects.
func (s *Store) CountArchived(ctx context.Context, q ArchiveQuery) (n int64, err error) {
	where, args := q.conditions()
	if err = s.read.QueryRowContext(ctx, `SELECT count(*) FROM archives`+where, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count archives: %w", err)
	}
	return n, nil
}
