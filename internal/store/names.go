package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// Name is by what one copy of a job is known; parts that a source does not have
// are empty.
type Name struct{ JobKey, MessageID, CopyID string }

// Kept is a job that was kept whole or in part, where and when.
type Kept struct {
	Queue  string
	At     time.Time
	Plan   redrive.PlanID   // of an archive
	Run    redrive.RunID    // of an archive
	Action reconcile.Action // of an archive: what took it off its queue
	Job    job.Job          // without content
}

// nameSources are where the store knows jobs from; %s becomes the condition on
// job_key and message_id, which the audit log has of its own.
var nameSources = []string{
	`SELECT job_key, message_id, copy_id AS copy FROM audit WHERE seq IN (WITH RECURSIVE ` + everySpan + `
  SELECT seq FROM audit WHERE job_key >= ?1 AND job_key < ?1 || char(0x10ffff) AND job_key <> '' AND ` + leads + `
  UNION SELECT l.seq FROM spans s CROSS JOIN audit l ON (l.seq >> 11) = s.n
    AND l.message_id >= ?1 AND l.message_id < ?1 || char(0x10ffff) AND l.message_id <> '' AND ` + leadsOf + `
  UNION SELECT l.seq FROM spans s CROSS JOIN audit l ON (l.seq >> 11) = s.n
    AND substr(l.copy_id, -16) = substr(?1, -16) AND l.copy_id = ?1 AND l.copy_id <> '')`,
	`SELECT job_key, message_id, copy FROM holds WHERE %s`,
	`SELECT job_key, '' AS message_id, '' AS copy FROM plan_items WHERE %s`,
	`SELECT job_key, '' AS message_id, '' AS copy FROM verdicts WHERE %s`,
	`SELECT job_key, message_id, copy FROM (SELECT ` + keptJobKey + ` AS job_key,
    ` + keptMessageID + ` AS message_id, copy FROM archives) WHERE %s`,
	`SELECT job_key, message_id, copy FROM (SELECT ` + keptJobKey + ` AS job_key,
    ` + keptMessageID + ` AS message_id,
    (job ->> '$.Message.Copy.entity') || '/' || (job ->> '$.Message.Copy.id') AS copy FROM capture_jobs) WHERE %s`,
}

// Names are the copies of jobs, from any part of the store, whose job key or
// message ID begins with the text, or whose copy is the text; of each part no
// more than ten thousand, those that the text names whole first. An empty text
// names nothing.
func (s *Store) Names(ctx context.Context, text string) ([]Name, error) {
	if text == "" {
		return nil, nil
	}
	var names []Name
	seen := map[Name]bool{}
	for _, source := range nameSources {
		where := `(job_key >= ?1 AND job_key < ?1 || char(0x10ffff) AND job_key <> '')`
		if !strings.Contains(source, `'' AS message_id`) {
			where += ` OR (message_id >= ?1 AND message_id < ?1 || char(0x10ffff) AND message_id <> '') OR copy = ?1`
		}
		err := each(ctx, s.read, func(rows *sql.Rows) error {
			var n Name
			err := rows.Scan(&n.JobKey, &n.MessageID, &n.CopyID)
			if err == nil && !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
			return err
		}, `SELECT DISTINCT * FROM (`+strings.ReplaceAll(source, "%s", where)+`)
  ORDER BY ?1 IN (job_key, message_id) DESC LIMIT 10000`, text)
		if err != nil {
			return nil, fmt.Errorf("find %s in the store: %w", text, err)
		}
	}
	return names, nil
}

// Captured are the jobs in the newest captures that the name is of.
func (s *Store) Captured(ctx context.Context, n Name) ([]Kept, error) {
	ks, err := s.kept(ctx, n, `SELECT c.queue, c.captured_at, '', '', '', j.job FROM captures c JOIN capture_jobs j ON j.capture = c.id
  WHERE c.whole = 1 AND `)
	if err != nil {
		return nil, fmt.Errorf("read captures: %w", err)
	}
	return ks, nil
}

// ArchivedAs are the archived copies that the name is of, without content.
func (s *Store) ArchivedAs(ctx context.Context, n Name) ([]Kept, error) {
	ks, err := s.kept(ctx, n, `SELECT j.queue, j.archived_at, j.plan, j.run, j.action, j.job FROM archives j WHERE `)
	if err != nil {
		return nil, fmt.Errorf("read archives: %w", err)
	}
	return ks, nil
}

func (s *Store) kept(ctx context.Context, n Name, query string) ([]Kept, error) {
	var ks []Kept
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var k Kept
		var at int64
		var raw []byte
		err := rows.Scan(&k.Queue, &at, &k.Plan, &k.Run, &k.Action, &raw)
		if err == nil {
			k.At, err = fromNanos(at), json.Unmarshal(raw, &k.Job)
		}
		ks = append(ks, k)
		return err
	}, query+`CASE WHEN ?1 <> '' THEN j.job ->> '$.JobKey' = ?1 ELSE j.job ->> '$.Message.MessageID' = ?2 END ORDER BY 2`,
		n.JobKey, n.MessageID)
	return ks, err
}

// VerdictsOn are all verdicts on record for a job key, in all queues, oldest first.
func (s *Store) VerdictsOn(ctx context.Context, jobKey string) ([]reconcile.Found, error) {
	var fs []reconcile.Found
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var f reconcile.Found
		var at, until int64
		var evidence []byte
		err := rows.Scan(&f.Queue, &f.JobKey, &f.Attempt, &f.Verdict, &at, &until, &evidence, &f.EvidenceSHA256)
		if err == nil {
			f.At, f.Until = fromNanos(at), fromNanos(until)
			err = json.Unmarshal(evidence, &f.Evidence)
		}
		fs = append(fs, f)
		return err
	}, `SELECT queue, job_key, attempt, verdict, at, until, evidence, evidence_sha256 FROM verdicts
  WHERE job_key = ? AND job_key <> '' ORDER BY at, id`, jobKey)
	if err != nil {
		return nil, fmt.Errorf("read verdicts on %s: %w", jobKey, err)
	}
	return fs, nil
}

// PlansWith are the plans that have the job among their items, oldest first.
func (s *Store) PlansWith(ctx context.Context, n Name) ([]redrive.StoredPlan, error) {
	ps, err := s.plans(ctx, s.read, ` WHERE p.id IN (SELECT plan FROM plan_items
  WHERE (job_key = ?1 AND job_key <> '') OR (?1 = '' AND copy = ?2)) ORDER BY p.created_at, p.id`, n.JobKey, n.CopyID)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	return ps, nil
}
