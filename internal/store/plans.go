package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// live is the condition on plans p under which a plan holds its jobs; its
// parameter is the time.
const live = `(p.state = 'running' OR (p.state IN ('waiting', 'approved') AND p.expires_at > ?))`

// SavePlan stores a plan whose ID is the digest of its canonical bytes. See
// redrive.Plans.
func (s *Store) SavePlan(ctx context.Context, id redrive.PlanID, canonical []byte, p redrive.Plan, rec audit.Record) error {
	if audit.Hash(canonical) != string(id) {
		return fmt.Errorf("save plan %s: bytes do not hash to it: %w", id, redrive.ErrChanged)
	}
	rec.Plan = string(id)
	_, err := s.write(ctx, "save plan", 1, func(ctx context.Context, t *tx) error {
		if err := t.insertPlan(ctx, id, canonical, p); err != nil {
			return err
		}
		if err := t.refuseShared(ctx, id); err != nil {
			return err
		}
		return t.append(rec)
	})
	return err
}

func (t *tx) insertPlan(ctx context.Context, id redrive.PlanID, canonical []byte, p redrive.Plan) error {
	var exists bool
	if err := t.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM plans WHERE id = ?)`, id).Scan(&exists); err != nil {
		return err
	}
	if exists {
		return refuse("plan %s exists already: %w", id, redrive.ErrRefused)
	}
	state := redrive.PlanWaiting
	if p.Tier.Needed() == 0 {
		state = redrive.PlanApproved
	}
	_, err := t.ExecContext(ctx, `INSERT INTO plans VALUES (?, x'', ?, ?, ?, ?, ?, ?, ?)`,
		string(id), string(state), p.Queue, leaseKey(p.Terms), string(p.Tier), redrives(p),
		nanos(p.CreatedAt), nanos(p.ExpiresAt))
	if err == nil {
		err = t.insertBytes(ctx, id, canonical)
	}
	if err != nil {
		return err
	}
	return t.insertItems(ctx, id, p.Items)
}

// splitPlans gives the bytes of plans a table of their own, since each change of a
// row writes all of it again. Those of earlier versions stay where they are.
func splitPlans(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE plan_bytes (
  plan  TEXT PRIMARY KEY REFERENCES plans (id),
  bytes BLOB NOT NULL
) STRICT`)
	return err
}

// insertBytes writes the bytes piece by piece. See onePlan.
func (t *tx) insertBytes(ctx context.Context, id redrive.PlanID, canonical []byte) error {
	r, err := t.ExecContext(ctx, `INSERT INTO plan_bytes VALUES (?, zeroblob(?))`, string(id), len(canonical))
	if err != nil {
		return err
	}
	row, err := r.LastInsertId()
	if err != nil {
		return err
	}
	var n int64
	return t.QueryRowContext(ctx, `SELECT writeblob('main', 'plan_bytes', 'bytes', ?, 0, ?)`,
		row, sqlite3.Pointer(bytes.NewReader(canonical))).Scan(&n)
}

func (t *tx) insertItems(ctx context.Context, id redrive.PlanID, items []redrive.Item) error {
	insert, err := t.PrepareContext(ctx, `INSERT INTO plan_items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	for n, i := range items {
		_, err := insert.ExecContext(ctx, string(id), n, i.Copy.String(), i.Copy.Entity, i.Copy.ID,
			i.JobKey, i.Consumer, i.Origin, i.PayloadSHA256)
		if err != nil {
			return errors.Join(err, insert.Close())
		}
	}
	return insert.Close()
}

// leaseKey names the dead-letter queue itself: two configured names of one queue
// share its lease.
func leaseKey(p redrive.Terms) string { return p.Broker + ":" + p.Entity }

func redrives(p redrive.Plan) (n int) {
	for _, i := range p.Items {
		if i.Action == reconcile.Redrive {
			n++
		}
	}
	return n
}

// refuseShared refuses the plan that was just inserted when a copy or a job of
// it is in another live plan.
func (t *tx) refuseShared(ctx context.Context, id redrive.PlanID) error {
	const shared = `SELECT o.plan, n.job_key, n.copy FROM plan_items n JOIN plan_items o ON %s
  JOIN plans p ON p.id = o.plan WHERE n.plan = ? AND o.plan <> n.plan AND ` + live + ` LIMIT 1`
	for _, same := range []string{`o.copy = n.copy`, `n.job_key <> '' AND o.job_key <> '' AND o.job_key = n.job_key AND o.consumer = n.consumer`} {
		var in redrive.InPlanError
		var copyID string
		err := t.QueryRowContext(ctx, fmt.Sprintf(shared, same), string(id), nanos(t.store.now())).Scan(&in.Plan, &in.Job, &copyID)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if in.Job == "" {
			in.Job = copyID
		}
		return refusal{&in}
	}
	return nil
}

// bytesOf are a plan's bytes as one value.
const bytesOf = `coalesce((SELECT b.bytes FROM plan_bytes b WHERE b.plan = p.id), p.bytes)`

// selectPlans has the plan's bytes where they are asked for.
const selectPlans = `SELECT p.id, %s, p.state, p.expires_at, coalesce(r.id, '')
  FROM plans p LEFT JOIN runs r ON r.plan = p.id`

// scanPlan reads all of a plan but its bytes, which content is scanned for.
func scanPlan(now time.Time, content any, scan func(...any) error) (redrive.StoredPlan, error) {
	var p redrive.StoredPlan
	var expires int64
	if err := scan(&p.ID, content, &p.State, &expires, &p.Run); err != nil {
		return p, err
	}
	if p.State.Open() && nanos(now) >= expires {
		p.State = redrive.PlanExpired
	}
	return p, nil
}

// withBytes is the plan with its content.
func withBytes(p redrive.StoredPlan, content []byte) (redrive.StoredPlan, error) {
	p.Bytes = content
	if err := p.Read(); err != nil {
		return p, refuse("read plan %s: %w", p.ID, redrive.ErrChanged)
	}
	return p, nil
}

func (s *Store) plans(ctx context.Context, q querier, where string, args ...any) ([]redrive.StoredPlan, error) {
	var ps []redrive.StoredPlan
	err := each(ctx, q, func(rows *sql.Rows) error {
		var content []byte
		p, err := scanPlan(s.now(), &content, rows.Scan)
		if err == nil {
			p, err = withBytes(p, content)
		}
		ps = append(ps, p)
		return err
	}, fmt.Sprintf(selectPlans, bytesOf)+where, args...)
	return ps, err
}

// LoadPlan finds a plan by a unique prefix of its ID.
func (s *Store) LoadPlan(ctx context.Context, prefix string) (redrive.StoredPlan, error) {
	id, err := s.resolve(ctx, "plans", prefix)
	if err != nil {
		return redrive.StoredPlan{}, fmt.Errorf("plan %q: %w", prefix, err)
	}
	p, err := s.onePlan(ctx, s.read, redrive.PlanID(id))
	if err != nil {
		return redrive.StoredPlan{}, fmt.Errorf("load plan: %w", err)
	}
	return p, nil
}

// OpenPlan finds a plan as LoadPlan does. See redrive.Plans.
func (s *Store) OpenPlan(ctx context.Context, prefix string) (redrive.Frozen, error) {
	id, err := s.resolve(ctx, "plans", prefix)
	if err != nil {
		return redrive.Frozen{}, fmt.Errorf("plan %q: %w", prefix, err)
	}
	p, err := s.openPlan(ctx, s.read, redrive.PlanID(id))
	if err != nil {
		return redrive.Frozen{}, fmt.Errorf("load plan: %w", err)
	}
	return p, nil
}

// openPlan leaves the plan's bytes in a file. What is wrong with them is a refusal.
func (s *Store) openPlan(ctx context.Context, q querier, id redrive.PlanID) (redrive.Frozen, error) {
	spool, err := redrive.NewSpool()
	if err != nil {
		return redrive.Frozen{}, err
	}
	p, err := s.copyPlan(ctx, q, id, spool)
	if err != nil {
		return redrive.Frozen{}, errors.Join(err, spool.Close())
	}
	f, err := spool.Freeze(id)
	if err != nil {
		return redrive.Frozen{}, refusal{errors.Join(err, spool.Close())}
	}
	f.State, f.Run = p.State, p.Run
	return f, nil
}

// onePlan reads a plan whole.
func (s *Store) onePlan(ctx context.Context, q querier, id redrive.PlanID) (redrive.StoredPlan, error) {
	var content bytes.Buffer
	p, err := s.copyPlan(ctx, q, id, &content)
	if err != nil {
		return p, err
	}
	return withBytes(p, content.Bytes())
}

// copyPlan is a plan without its bytes, which it copies piece by piece: as one
// value they would stay in the connection's memory, which never shrinks.
func (s *Store) copyPlan(ctx context.Context, q querier, id redrive.PlanID, to io.Writer) (redrive.StoredPlan, error) {
	var table string
	var row, size int64
	err := q.QueryRowContext(ctx, `SELECT 'plan_bytes', rowid, length(bytes) FROM plan_bytes WHERE plan = ?1
  UNION ALL SELECT 'plans', rowid, length(bytes) FROM plans WHERE id = ?1 LIMIT 1`, string(id)).Scan(&table, &row, &size)
	if errors.Is(err, sql.ErrNoRows) {
		return redrive.StoredPlan{}, refuse("plan %s: %w", id, redrive.ErrNotFound)
	}
	if err != nil {
		return redrive.StoredPlan{}, err
	}
	if b, ok := to.(*bytes.Buffer); ok {
		b.Grow(int(size))
	}
	query := fmt.Sprintf(selectPlans, `readblob('main', ?3, 'bytes', ?4, 0, ?2)`) + ` WHERE p.id = ?1`
	out := sqlite3.Pointer(struct{ io.Writer }{to}) // else it would be closed with the query
	return scanPlan(s.now(), &size, q.QueryRowContext(ctx, query, string(id), out, table, row).Scan)
}

// resolve finds the one ID in a table that has the prefix.
func (s *Store) resolve(ctx context.Context, table, prefix string) (string, error) {
	var ids []string
	prefix = strings.ToLower(prefix)
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM `+table+` WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT 2`, len(prefix), prefix)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0 || prefix == "":
		return "", redrive.ErrNotFound
	case len(ids) > 1 && ids[0] != prefix:
		return "", redrive.ErrAmbiguous
	}
	return ids[0], nil
}

// ListPlans is every plan of the queue, or of all, newest first.
func (s *Store) ListPlans(ctx context.Context, queue string) ([]redrive.StoredPlan, error) {
	ps, err := s.plans(ctx, s.read, ` WHERE ?1 = '' OR p.queue = ?1 ORDER BY p.created_at DESC, p.id`, queue)
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	return ps, nil
}

// SetPlanState moves a plan if it is in state from. See redrive.Plans.
func (s *Store) SetPlanState(ctx context.Context, id redrive.PlanID, from, to redrive.PlanState, rec audit.Record) error {
	rec.Plan = string(id)
	_, err := s.write(ctx, "move plan", 1, func(ctx context.Context, t *tx) error {
		p, err := s.onePlan(ctx, t, id)
		if err != nil {
			return err
		}
		if p.State != from {
			return refuse("plan %s is %s, not %s: %w", id, p.State, from, redrive.ErrRefused)
		}
		if err := t.setPlanState(ctx, id, to); err != nil {
			return err
		}
		return t.append(rec)
	})
	return err
}

func (t *tx) setPlanState(ctx context.Context, id redrive.PlanID, to redrive.PlanState) error {
	_, err := t.ExecContext(ctx, `UPDATE plans SET state = ? WHERE id = ?`, string(to), string(id))
	return err
}

// InLivePlans maps the copies and job keys of live plans to their plan.
func (s *Store) InLivePlans(ctx context.Context, queue string, now time.Time) (map[string]redrive.PlanID, error) {
	in := map[string]redrive.PlanID{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var plan redrive.PlanID
		var copyID, jobKey string
		if err := rows.Scan(&plan, &copyID, &jobKey); err != nil {
			return err
		}
		in[copyID] = plan
		if jobKey != "" {
			in[jobKey] = plan
		}
		return nil
	}, `SELECT i.plan, i.copy, i.job_key FROM plans p JOIN plan_items i ON i.plan = p.id
  WHERE p.queue = ? AND `+live, queue, nanos(now))
	if err != nil {
		return nil, fmt.Errorf("read live plans: %w", err)
	}
	return in, nil
}

// SelfRedrives counts the redrives planned under the self tier since then.
func (s *Store) SelfRedrives(ctx context.Context, queue string, since time.Time) (n int, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(sum(p.redrives), 0) FROM plans p
  WHERE p.queue = ? AND p.tier = 'self' AND p.created_at >= ? AND (p.state = 'finished' OR `+live+`)`,
		queue, nanos(since), nanos(s.now())).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count self-approved redrives: %w", err)
	}
	return n, nil
}

// backed says that a rollback took the job of record a back in its run: nobody
// claims it any more. It is looked up by the job, since a run has many records.
const backed = `EXISTS (SELECT 1 FROM audit b WHERE b.job_key = a.job_key AND b.job_key <> '' AND ` + leadsTo + ` AND +b.run = a.run
    AND b.action = 'rollback' AND b.phase = 'outcome' AND b.result = 'done')`

// published are the copies of redrives whose publish happened, or may have. It is
// one row per run and copy. An item is looked up by the copy, since a plan has many.
var published = `SELECT a.run, a.copy_id, coalesce(i.copy_entity, ''), coalesce(i.copy_id, ''), max(a.time) AS at,
  coalesce(max(CASE WHEN a.phase = 'outcome' AND a.record ->> 'ledger_row' = ? THEN a.record ->> 'attempt' END), 0),
  max(` + backed + `)
  FROM audit a LEFT JOIN plan_items i ON +i.plan = a.plan AND i.copy = a.copy_id
  WHERE (%s) AND a.run <> ? AND ` + mayBeOut + `
  GROUP BY a.run, a.copy_id ORDER BY at, a.run`

// PublishedOf answers identity for identity. See redrive.Plans.
func (s *Store) PublishedOf(ctx context.Context, ids []redrive.Identity, except redrive.RunID) ([]redrive.Published, error) {
	ps := make([]redrive.Published, len(ids))
	err := s.read.snapshot(ctx, func(t querier) error {
		elsewhere, err := inOtherRuns(ctx, t, ids, except)
		for n, id := range ids {
			if err == nil && (!plain(id.JobKey) || elsewhere[id.JobKey]) {
				err = publishedOf(ctx, t, id, except, &ps[n])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read published jobs: %w", err)
	}
	return ps, nil
}

// inOtherRuns are those of the job keys, and of those of edited copies, that any
// record of another run's redrives has. It is asked for all at once, since nearly
// none has any.
func inOtherRuns(ctx context.Context, q querier, ids []redrive.Identity, except redrive.RunID) (map[string]bool, error) {
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		if plain(id.JobKey) {
			keys = append(keys, id.JobKey)
		}
	}
	asked, err := json.Marshal(keys)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	in := map[string]bool{}
	err = each(ctx, q, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		in[key] = true
		return err
	}, `SELECT k.value FROM json_each(?1) k
  WHERE EXISTS (SELECT 1 FROM audit a WHERE a.job_key = k.value AND a.job_key <> '' AND `+leads+` AND a.action = 'redrive' AND a.run <> ?2)
    OR EXISTS (SELECT 1 FROM audit a WHERE `+replacedBy+` = k.value AND `+replacedBy+` IS NOT NULL AND a.action = 'redrive' AND a.run <> ?2)`,
		string(asked), string(except))
	return in, err
}

// plain reports that a job key is one, and survives JSON as it is.
func plain(jobKey string) bool {
	return jobKey != "" && utf8.ValidString(jobKey) && !strings.ContainsRune(jobKey, 0)
}

// publishedOf counts the redrives of a job as it is, and those of an original of
// which it is the edited copy.
func publishedOf(ctx context.Context, q querier, id redrive.Identity, except redrive.RunID, p *redrive.Published) error {
	count := func(where string, args ...any) error {
		args = append([]any{id.LedgerRow}, append(args, string(except))...)
		return countPublished(ctx, q, p, where, args...)
	}
	edited := replacedBy + ` = ? AND ` + replacedBy + ` IS NOT NULL`
	if id.JobKey != "" {
		return count(`a.seq IN `+following("job_key", `= ?`)+` OR `+edited, id.JobKey, id.JobKey)
	}
	return errors.Join(
		count(samePayload, samePayloadArgs(id, except)...),
		count(edited, redrive.PayloadIdentity(id.PayloadSHA256)),
	)
}

func countPublished(ctx context.Context, q querier, p *redrive.Published, where string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var c broker.CopyID
		var name string
		var at int64
		var attempt, back int
		if err := rows.Scan(&p.LastRun, &name, &c.Entity, &c.ID, &at, &attempt, &back); err != nil {
			return err
		}
		p.RolledBack += back
		p.Attempt = max(p.Attempt, attempt)
		if c.ID == "" {
			c = splitCopy(name)
		}
		p.Count++
		p.Last = fromNanos(at)
		p.Copies = append(p.Copies, c)
		return nil
	}, fmt.Sprintf(published, where), args...)
}

// splitCopy reads a copy identity back from its text, where no plan has its
// parts.
func splitCopy(name string) broker.CopyID {
	n := strings.LastIndexByte(name, '/')
	if n < 0 {
		return broker.CopyID{ID: name}
	}
	return broker.CopyID{Entity: name[:n], ID: name[n+1:]}
}
