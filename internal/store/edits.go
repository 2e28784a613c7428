package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/redrivectl/redrivectl/redrive"
)

// replacedBy is the identity of the edited copy that a record of audit a tells
// of, or NULL; indexed is the same as the index has it. A record that is no JSON
// any more, since somebody has changed the file, tells of none: verification is
// what finds it.
const (
	replacedBy = `(CASE WHEN json_valid(a.record) THEN a.record ->> '$.details.replaced_by' END)`
	indexed    = `(CASE WHEN json_valid(record) THEN record ->> '$.details.replaced_by' END)`
)

// indexEdits makes the records of edits findable by the edited copy. What the
// store remembers of edits is what the audit log has of them.
func indexEdits(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE INDEX audit_replaced_by ON audit (`+indexed+`) WHERE `+indexed+` IS NOT NULL`)
	return err
}

// mayBeOut are the records a of a job that was published, or may have been: by a
// publish's outcome, or by an intent that nothing has closed yet.
var mayBeOut = `a.action = 'redrive' AND (a.phase = 'outcome' AND a.step = 'publish' AND a.result IN ('done', 'unknown')
    OR a.phase = 'intent' AND NOT ` + closedLater + `)`

// samePayload are the records, in the runs of their plans, of the items of jobs
// without a key that are one job: of one payload and one origin. A broker that
// takes a message as a new one forgets its origin, so within its dead-letter queue
// an origin that is not known may be any.
var samePayload = `a.seq IN (` + inRun(``, `SELECT p.seq, p.run, i.copy, i.plan
    FROM plan_items i CROSS JOIN audit p ON p.plan = i.plan AND p.plan <> '' AND (p.copy_id = '' OR p.run = '') AND p.run <> ?
    WHERE i.job_key = '' AND i.payload_sha256 = ? AND (i.origin = ? OR i.copy_entity = ? AND '' IN (i.origin, ?))`) + joined("plan") + `)`

func samePayloadArgs(id redrive.Identity, except redrive.RunID) []any {
	return []any{string(except), id.PayloadSHA256, id.Origin, id.Entity, id.Origin}
}

// replaced are the edits of one identity.
var replaced = `SELECT ` + replacedBy + ` FROM audit a %s AND a.run <> ? AND ` + replacedBy + ` IS NOT NULL AND ` + mayBeOut + `
  ORDER BY a.seq DESC LIMIT 1`

// ReplacedOf answers identity for identity. See redrive.Plans.
func (s *Store) ReplacedOf(ctx context.Context, ids []redrive.Identity, except redrive.RunID) ([]string, error) {
	by := make([]string, len(ids))
	err := s.read.snapshot(ctx, func(t querier) error {
		var edited bool
		err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit WHERE `+indexed+` IS NOT NULL)`).Scan(&edited)
		if err != nil || !edited {
			return err
		}
		for n, id := range ids {
			if by[n], err = replacedOf(ctx, t, id, except); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read edited jobs: %w", err)
	}
	return by, nil
}

func replacedOf(ctx context.Context, q querier, id redrive.Identity, except redrive.RunID) (by string, err error) {
	query, args := fmt.Sprintf(replaced, `WHERE a.seq IN `+following("job_key", `= ?`)), []any{id.JobKey}
	if id.JobKey == "" {
		query = fmt.Sprintf(replaced, `WHERE `+samePayload)
		args = samePayloadArgs(id, except)
	}
	args = append(args, string(except))
	err = each(ctx, q, func(rows *sql.Rows) error { return rows.Scan(&by) }, query, args...)
	return by, err
}
