package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// Begin starts a plan's one run. See redrive.Runs. The audit log is verified
// first. check runs inside the transaction, on the goroutine that writes, and
// must not call a method of the store that writes.
func (s *Store) Begin(ctx context.Context, b redrive.Begin, check func(redrive.Frozen, []redrive.Approval) error, rec audit.Record) (redrive.Frozen, redrive.Lease, error) {
	if err := s.verifyForRun(ctx); err != nil {
		return redrive.Frozen{}, redrive.Lease{}, fmt.Errorf("begin run: %w", err)
	}
	rec.Run, rec.Plan = string(b.Run), string(b.Plan)
	var l redrive.Lease
	var p redrive.Frozen
	_, err := s.write(ctx, "begin run", 2, func(ctx context.Context, t *tx) (err error) {
		if p, err = t.admit(ctx, b, check); err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, 0, '{}')`,
			string(b.Run), string(b.Plan), p.Queue, string(redrive.RunRunning), b.Holder, nanos(s.at(b.Now)))
		if err != nil {
			return err
		}
		if err := t.beginGate(ctx, b.Run, p.Terms); err != nil {
			return err
		}
		if err := t.setPlanState(ctx, b.Plan, redrive.PlanRunning); err != nil {
			return err
		}
		l, err = t.takeLease(ctx, p.Terms, b)
		return t.andMark(err, rec)
	})
	if err != nil && b.Opened == nil {
		err = errors.Join(err, p.Items.Close())
	}
	if err != nil {
		return redrive.Frozen{}, l, err
	}
	return p, l, nil
}

// admit opens what is to be run and refuses it: first for whoever was first, then
// as check says. What it opened it returns in any case.
func (t *tx) admit(ctx context.Context, b redrive.Begin, check func(redrive.Frozen, []redrive.Approval) error) (redrive.Frozen, error) {
	p, err := t.planOf(ctx, b)
	if err != nil {
		return p, err
	}
	if p.Run != "" {
		return p, t.taken(ctx, "plan", p.Run)
	}
	if err := t.vouched(ctx, b.Plan); err != nil {
		return p, err
	}
	if err := t.refuseHeld(ctx, p.Terms, b); err != nil {
		return p, err
	}
	as, err := approvals(ctx, t, b.Plan)
	if err != nil {
		return p, err
	}
	if err := check(p, as); err != nil {
		return p, refusal{err}
	}
	return p, nil
}

// vouched refuses a plan that the audit log did not see made, or whose run it
// saw begin and the store no longer has: somebody else than this program wrote
// the tables.
func (t *tx) vouched(ctx context.Context, id redrive.PlanID) error {
	var made, begun bool
	err := t.QueryRowContext(ctx, `SELECT coalesce(max(action = 'plan'), 0), coalesce(max(action = 'run' AND step = 'start'), 0)
  FROM audit WHERE plan = ? AND plan <> '' AND `+ofPlan+` AND action IN ('plan', 'run')`, string(id)).Scan(&made, &begun)
	switch {
	case err != nil:
		return err
	case !made:
		return refuse("plan %s: no record tells that it was made: %w", id, redrive.ErrChanged)
	case begun:
		return refuse("plan %s: a run that the log saw begin is gone: %w", id, redrive.ErrChanged)
	}
	return nil
}

// at is the time by which leases are judged: the caller's, but never earlier
// than the store's own.
func (s *Store) at(now time.Time) time.Time {
	if own := s.now(); own.After(now) {
		return own
	}
	return now
}

// taken is the refusal that names the run which holds the plan or the queue.
func (t *tx) taken(ctx context.Context, what string, run redrive.RunID) error {
	e := redrive.TakenError{What: what, Run: run}
	var since, until int64
	err := t.QueryRowContext(ctx, `SELECT coalesce(l.holder, r.holder), coalesce(l.since, r.started_at), coalesce(l.expires, 0)
  FROM runs r LEFT JOIN leases l ON l.run = r.id WHERE r.id = ?`, string(run)).Scan(&e.Holder, &since, &until)
	if err != nil {
		return err
	}
	e.Since, e.Until = fromNanos(since), fromNanos(until)
	return refusal{&e}
}

// refuseHeld refuses a queue on which another run has an unexpired lease.
func (t *tx) refuseHeld(ctx context.Context, p redrive.Terms, b redrive.Begin) error {
	var run redrive.RunID
	err := t.QueryRowContext(ctx, `SELECT run FROM leases WHERE key = ? AND run <> ? AND expires > ?`,
		leaseKey(p), string(b.Run), nanos(t.store.at(b.Now))).Scan(&run)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.taken(ctx, "queue", run)
}

// takeLease replaces whatever lease the queue had; the new token is greater
// than every one before.
func (t *tx) takeLease(ctx context.Context, p redrive.Terms, b redrive.Begin) (redrive.Lease, error) {
	now := t.store.at(b.Now)
	l := redrive.Lease{Queue: p.Queue, Run: b.Run, Holder: b.Holder, Since: now.UTC(), Expires: now.Add(b.TTL).UTC()}
	if _, err := t.ExecContext(ctx, `DELETE FROM leases WHERE key = ?`, leaseKey(p)); err != nil {
		return l, err
	}
	r, err := t.ExecContext(ctx, `INSERT INTO leases (key, run, holder, since, expires) VALUES (?, ?, ?, ?, ?)`,
		leaseKey(p), string(b.Run), b.Holder, nanos(l.Since), nanos(l.Expires))
	if err != nil {
		return l, err
	}
	l.Token, err = r.LastInsertId()
	return l, err
}

// andMark appends rec and a checkpoint, unless the step before failed.
func (t *tx) andMark(err error, rec audit.Record) error {
	if err == nil {
		err = t.append(rec)
	}
	if err == nil {
		err = t.mark(rec)
	}
	return err
}

// Resume takes the lease of a run that no longer lives and was neither finished
// nor aborted. The plan keeps its state, so that one which was revoked stays so.
// See redrive.Runs.
func (s *Store) Resume(ctx context.Context, run redrive.RunID, b redrive.Begin, rec audit.Record) (redrive.Lease, error) {
	if err := s.verifyForRun(ctx); err != nil {
		return redrive.Lease{}, fmt.Errorf("resume run: %w", err)
	}
	b.Run = run
	var l redrive.Lease
	_, err := s.write(ctx, "resume run", 2, func(ctx context.Context, t *tx) error {
		p, err := t.readmit(ctx, b)
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE runs SET state = ?, holder = ?, ended_at = 0 WHERE id = ?`,
			string(redrive.RunRunning), b.Holder, string(run))
		if err != nil {
			return err
		}
		if err := t.forgetPause(ctx, run); err != nil {
			return err
		}
		rec.Run, rec.Plan = string(run), string(p.ID)
		l, err = t.takeLease(ctx, p.Terms, b)
		return t.andMark(err, rec)
	})
	return l, err
}

func (t *tx) readmit(ctx context.Context, b redrive.Begin) (redrive.Frozen, error) {
	r, err := t.store.oneRun(ctx, t, b.Run)
	if err != nil {
		return redrive.Frozen{}, err
	}
	if err := t.refuseBusy(ctx, r, b); err != nil {
		return redrive.Frozen{}, err
	}
	if r.State.Ended() {
		return redrive.Frozen{}, refuse("run %s is %s: %w", b.Run, r.State, redrive.ErrRefused)
	}
	b.Plan = r.Plan
	p, err := t.planOf(ctx, b)
	if err == nil && b.Opened == nil {
		err = p.Items.Close()
	}
	if err != nil {
		return p, err
	}
	return p, t.refuseHeld(ctx, p.Terms, b)
}

// planOf opens what is to be run. Of what is open already only the bytes are
// compared with its ID: they say all but how the plan stands.
func (t *tx) planOf(ctx context.Context, b redrive.Begin) (redrive.Frozen, error) {
	if b.Opened == nil {
		return t.store.openPlan(ctx, t, b.Plan)
	}
	sum := sha256.New()
	now, err := t.store.copyPlan(ctx, t, b.Plan, sum)
	if err != nil {
		return redrive.Frozen{}, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != string(b.Opened.ID) {
		return redrive.Frozen{}, refuse("plan %s: stored bytes hash to %s: %w", b.Plan, got, redrive.ErrChanged)
	}
	p := *b.Opened
	p.State, p.Run = now.State, now.Run
	return p, nil
}

// termsOf is the plan without its jobs.
func (t *tx) termsOf(ctx context.Context, id redrive.PlanID) (redrive.Frozen, error) {
	p, err := t.store.openPlan(ctx, t, id)
	if err == nil {
		err = p.Items.Close()
	}
	return p, err
}

// Heartbeat extends the lease, also one that has expired and that nobody took
// since; audit.ErrFenced once it is another's.
func (s *Store) Heartbeat(ctx context.Context, l redrive.Lease, now time.Time, ttl time.Duration) (redrive.Lease, error) {
	_, err := s.write(ctx, "renew lease", 0, func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, time.Time{}); err != nil {
			return err
		}
		l.Expires = s.at(now).Add(ttl).UTC()
		_, err := t.ExecContext(ctx, `UPDATE leases SET expires = ? WHERE token = ?`, nanos(l.Expires), l.Token)
		return err
	})
	return l, err
}

const selectLease = `SELECT expires FROM leases WHERE token = ? AND run = ?`

// fence refuses a lease that another holds or that has expired at now; with the
// zero time it may have expired.
func (t *tx) fence(ctx context.Context, l redrive.Lease, now time.Time) error {
	var expires int64
	err := t.QueryRowContext(ctx, selectLease, l.Token, string(l.Run)).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return refuse("run %s: %w", l.Run, audit.ErrFenced)
	}
	if err != nil {
		return err
	}
	if nanos(now) >= expires {
		return refuse("run %s: lease expired at %s: %w", l.Run, fromNanos(expires).Format(time.RFC3339), audit.ErrFenced)
	}
	return nil
}

type fencedLog struct {
	store *Store
	lease redrive.Lease
}

// Fenced is a log for one lease. See redrive.Runs.
func (s *Store) Fenced(l redrive.Lease) audit.Log { return fencedLog{s, l} }

func (f fencedLog) Append(ctx context.Context, rs ...audit.Record) (audit.Head, error) {
	return f.store.appendIf(ctx, func(ctx context.Context, t *tx) error {
		return t.fence(ctx, f.lease, f.store.now())
	}, rs)
}

// End closes the run and frees the lease, also one that has expired and that
// nobody took since. A run that ends as finished or aborted finishes its running
// plan; any other end leaves the plan as it is, for resume.
func (s *Store) End(ctx context.Context, l redrive.Lease, state redrive.RunState, r redrive.Report, rec audit.Record) error {
	report, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("end run %s: %w", l.Run, err)
	}
	_, err = s.write(ctx, "end run", 2, func(ctx context.Context, t *tx) error {
		if err := t.fence(ctx, l, time.Time{}); err != nil {
			return err
		}
		plan, err := t.endRun(ctx, l, state, string(report))
		if err == nil && state.Ended() {
			_, err = t.ExecContext(ctx, `UPDATE plans SET state = 'finished' WHERE id = ? AND state = 'running'`, string(plan))
		}
		rec.Run, rec.Plan = string(l.Run), string(plan)
		return t.andMark(err, rec)
	})
	return err
}

func (t *tx) endRun(ctx context.Context, l redrive.Lease, state redrive.RunState, report string) (plan redrive.PlanID, err error) {
	err = t.QueryRowContext(ctx, `UPDATE runs SET state = ?, ended_at = ?, report = ? WHERE id = ? RETURNING plan`,
		string(state), nanos(t.store.now()), report, string(l.Run)).Scan(&plan)
	if err == nil {
		_, err = t.ExecContext(ctx, `DELETE FROM leases WHERE token = ?`, l.Token)
	}
	if err == nil {
		err = t.forgetPause(ctx, l.Run)
	}
	return plan, err
}

const selectRuns = `SELECT r.id, r.plan, r.queue, r.state, r.holder, r.started_at, r.ended_at, r.report, coalesce(l.expires, 0),
  coalesce(w.kind, ''), coalesce(w.person, ''), coalesce(w.reason, ''), coalesce(w.asked_at, 0),
  coalesce(p.asked, 0), coalesce(p.effective, 0), coalesce(p.lowest, 0), coalesce(p.slowed, 0), coalesce(p.slowed_by, ''),
  coalesce((SELECT a.record ->> 'reason' FROM audit a WHERE a.plan = r.plan AND a.plan <> '' AND ` + ofPlan + ` AND a.action = 'break_glass' ORDER BY a.seq LIMIT 1), '')
  FROM runs r LEFT JOIN leases l ON l.run = r.id LEFT JOIN wishes w ON w.run = r.id LEFT JOIN paces p ON p.run = r.id`

func scanRun(now time.Time, scan func(...any) error) (redrive.RunRecord, error) {
	var r redrive.RunRecord
	var started, ended, expires, asked int64
	var report []byte
	w, p := &r.Wish, &r.Pace
	err := scan(&r.ID, &r.Plan, &r.Queue, &r.State, &r.Holder, &started, &ended, &report, &expires,
		&w.Kind, &w.Person, &w.Reason, &asked, &p.Asked, &p.Effective, &p.Lowest, &p.Slowed, &p.By, &r.BreakGlass)
	if err != nil {
		return r, err
	}
	if w.Kind != "" {
		w.Run, w.At = r.ID, fromNanos(asked)
	}
	if err := json.Unmarshal(report, &r.Report); err != nil {
		return r, fmt.Errorf("report of run %s: %w", r.ID, err)
	}
	r.StartedAt, r.EndedAt = fromNanos(started), fromNanos(ended)
	r.Lives = (r.State == redrive.RunRunning || r.State == redrive.RunPaused) && expires > nanos(now)
	return r, nil
}

func (s *Store) oneRun(ctx context.Context, q querier, id redrive.RunID) (redrive.RunRecord, error) {
	r, err := scanRun(s.now(), q.QueryRowContext(ctx, selectRuns+` WHERE r.id = ?`, string(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return r, refuse("run %s: %w", id, redrive.ErrNotFound)
	}
	return r, err
}

// LoadRun finds a run by a unique prefix of its ID.
func (s *Store) LoadRun(ctx context.Context, prefix string) (redrive.RunRecord, error) {
	id, err := s.resolve(ctx, "runs", prefix)
	if err != nil {
		return redrive.RunRecord{}, fmt.Errorf("run %q: %w", prefix, err)
	}
	r, err := s.oneRun(ctx, s.read, redrive.RunID(id))
	if err == nil {
		r.Gate, err = s.Gate(ctx, r.ID)
	}
	return r, err
}

// ListRuns is every run of the queue, or of all, newest first. A gate that cannot be
// read is the fault of its run alone.
func (s *Store) ListRuns(ctx context.Context, queue string) ([]redrive.RunRecord, error) {
	var rs []redrive.RunRecord
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		r, err := scanRun(s.now(), rows.Scan)
		rs = append(rs, r)
		return err
	}, selectRuns+` WHERE ?1 = '' OR r.queue = ?1 ORDER BY r.started_at DESC, r.id`, queue)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	for i := range rs {
		if rs[i].Gate, err = s.Gate(ctx, rs[i].ID); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			rs[i].Gate, rs[i].GateFault = redrive.GateState{}, err.Error()
		}
	}
	return rs, nil
}

// Lives reports whether the run may still act. A run that this store does not
// know may belong to another store, so it is taken to live.
func (s *Store) Lives(ctx context.Context, run redrive.RunID) (bool, error) {
	r, err := s.oneRun(ctx, s.read, run)
	if errors.Is(err, redrive.ErrNotFound) {
		return true, nil
	}
	return r.Lives, err
}
