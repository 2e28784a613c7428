package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// storeOf is the operators' store as one process sees it, on that machine's clock.
type storeOf struct {
	p *proc
	m *memory
}

// operatorStore is all that the parts ask of a store.
type operatorStore interface {
	audit.Log
	redrive.Plans
	redrive.Runs
	redrive.Rollbacks
	redrive.Archive
	redrive.Gates
	reconcile.Verdicts
	reconcile.Memory
	reconcile.Holds
	open(ctx context.Context, queue string) ([]audit.Record, error)
}

var _ operatorStore = storeOf{}

// hasApplied lets a test know that the store has done what it was asked for.
func (p *proc) hasApplied() {
	if p.applied != nil {
		p.applied()
	}
}

// read is one question to the store.
func (s storeOf) read(op string, do func()) error {
	if f := s.p.enter("store "+op, failed); f != fine {
		return f.err()
	}
	do()
	s.p.hasApplied()
	s.p.last = s.p.world.now
	return nil
}

// write is one transaction. One that may have been committed says, as the real
// store does, that nothing may be taken for written.
func (s storeOf) write(op string, do func() error) error {
	f := s.p.enter("store "+op, failed, lostAfter)
	if f == failed || f == killed {
		return fmt.Errorf("%s: %w: %w", op, audit.ErrNotWritable, f.err())
	}
	err := do()
	s.p.hasApplied()
	if !s.p.leave("store "+op) || f == lostAfter {
		return fmt.Errorf("%s: %w: %w", op, audit.ErrNotWritable, errFault)
	}
	return err
}

func (s storeOf) now() time.Time { return s.p.clock() }

// Append implements audit.Log.
func (s storeOf) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	err := s.write("append", func() error { return s.append(rs) })
	return s.m.head, err
}

func (s storeOf) append(rs []audit.Record) error {
	s.p.mayRecord(rs)
	err := s.m.append(s.now(), rs...)
	for _, r := range rs {
		s.p.note("record %s %s %s %s %s %s %s", r.Action, r.Phase, r.Step, r.Result, r.JobKey, r.CopyID, r.Reason)
	}
	return err
}

type fencedLog struct {
	storeOf
	lease redrive.Lease
}

// Fenced implements redrive.Runs.
func (s storeOf) Fenced(l redrive.Lease) audit.Log { return fencedLog{s, l} }

// Append refuses for a lease that is another's, or over.
func (f fencedLog) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	err := f.write("append", func() error {
		if err := f.m.fence(f.lease, f.now()); err != nil {
			return err
		}
		return f.append(rs)
	})
	return f.m.head, err
}

// StoreID implements redrive.Plans.
func (s storeOf) StoreID() string { return s.m.head.Store }

// SavePlan implements redrive.Plans.
func (s storeOf) SavePlan(_ context.Context, id redrive.PlanID, canonical []byte, p redrive.Plan, rec audit.Record) error {
	return s.write("save plan", func() error { return s.m.savePlan(id, canonical, p, s.now(), rec) })
}

// LoadPlan implements redrive.Plans.
func (s storeOf) LoadPlan(_ context.Context, prefix string) (p redrive.StoredPlan, err error) {
	failed := s.read("load plan", func() { p, err = s.m.plan(prefix, s.now()) })
	if failed != nil {
		return p, failed
	}
	return p, err
}

// OpenPlan implements redrive.Plans.
func (s storeOf) OpenPlan(ctx context.Context, prefix string) (redrive.Frozen, error) {
	p, err := s.LoadPlan(ctx, prefix)
	if err != nil {
		return redrive.Frozen{}, err
	}
	return p.Open()
}

// ListPlans implements redrive.Plans.
func (s storeOf) ListPlans(_ context.Context, queue string) (ps []redrive.StoredPlan, err error) {
	err = s.read("list plans", func() {
		for _, id := range slices.Backward(s.m.order) {
			if p := s.m.plans[id].StoredPlan; queue == "" || p.Plan.Queue == queue {
				p.State = s.m.plans[id].state(s.now())
				ps = append(ps, p)
			}
		}
	})
	return ps, err
}

// SetPlanState implements redrive.Plans.
func (s storeOf) SetPlanState(_ context.Context, id redrive.PlanID, from, to redrive.PlanState, rec audit.Record) error {
	return s.write("set plan state", func() error { return s.m.setPlanState(id, from, to, s.now(), rec) })
}

// InLivePlans implements redrive.Plans.
func (s storeOf) InLivePlans(_ context.Context, queue string, now time.Time) (in map[string]redrive.PlanID, err error) {
	err = s.read("live plans", func() { in = s.m.inLive(queue, now) })
	return in, err
}

// SaveApproval implements redrive.Plans.
func (s storeOf) SaveApproval(_ context.Context, a redrive.Approval, rec audit.Record) error {
	return s.write("save approval", func() error {
		s.p.stated(a)
		return s.m.saveApproval(a, s.now(), rec)
	})
}

// Approvals implements redrive.Plans.
func (s storeOf) Approvals(_ context.Context, id redrive.PlanID) (as []redrive.Approval, err error) {
	err = s.read("approvals", func() { as = slices.Clone(s.m.says[id]) })
	return as, err
}

// ApprovedDigests implements redrive.Plans.
func (s storeOf) ApprovedDigests(context.Context) (ds map[string]bool, err error) {
	err = s.read("approved digests", func() { ds = s.m.approvedDigests() })
	return ds, err
}

// SelfRedrives implements redrive.Plans.
func (s storeOf) SelfRedrives(_ context.Context, queue string, since time.Time) (n int, err error) {
	err = s.read("self redrives", func() { n = s.m.selfRedrives(queue, since, s.now()) })
	return n, err
}

// PublishedOf implements redrive.Plans.
func (s storeOf) PublishedOf(_ context.Context, ids []redrive.Identity, except redrive.RunID) ([]redrive.Published, error) {
	ps := make([]redrive.Published, len(ids))
	err := s.read("published", func() {
		for i, id := range ids {
			ps[i] = s.m.publishedOf(id, except)
		}
	})
	return ps, err
}

// ReplacedOf implements redrive.Plans.
func (s storeOf) ReplacedOf(_ context.Context, ids []redrive.Identity, except redrive.RunID) ([]string, error) {
	by := make([]string, len(ids))
	err := s.read("replaced", func() {
		for i, id := range ids {
			by[i] = s.m.replacedOf(id, except)
		}
	})
	return by, err
}

// Begin implements redrive.Runs.
func (s storeOf) Begin(_ context.Context, b redrive.Begin, check func(redrive.Frozen, []redrive.Approval) error, rec audit.Record) (f redrive.Frozen, l redrive.Lease, err error) {
	err = s.write("begin run", func() (err error) {
		f, l, err = s.m.begin(b, s.now(), check, rec)
		s.p.began(b.Plan, l, err)
		return err
	})
	return f, l, err
}

// Resume implements redrive.Runs.
func (s storeOf) Resume(_ context.Context, run redrive.RunID, b redrive.Begin, rec audit.Record) (l redrive.Lease, err error) {
	err = s.write("resume run", func() (err error) {
		l, err = s.m.resume(run, b, s.now(), rec)
		s.p.began(b.Plan, l, err)
		return err
	})
	return l, err
}

// Heartbeat implements redrive.Runs.
func (s storeOf) Heartbeat(_ context.Context, l redrive.Lease, _ time.Time, ttl time.Duration) (out redrive.Lease, err error) {
	err = s.write("heartbeat", func() (err error) {
		out, err = s.m.heartbeat(l, s.now(), ttl)
		return err
	})
	return out, err
}

// Wish implements redrive.Runs.
func (s storeOf) Wish(_ context.Context, run redrive.RunID) (w redrive.Wish, err error) {
	err = s.read("wish", func() { w = s.m.wishes[run] })
	return w, err
}

// SetState implements redrive.Runs.
func (s storeOf) SetState(_ context.Context, l redrive.Lease, st redrive.RunState, rec audit.Record) error {
	return s.write("set state", func() error { return s.m.setState(l, st, s.now(), rec) })
}

// SetPace implements redrive.Runs.
func (s storeOf) SetPace(_ context.Context, l redrive.Lease, pace redrive.Pace, rs ...audit.Record) error {
	return s.write("set pace", func() error {
		if err := s.m.fence(l, s.now()); err != nil {
			return err
		}
		s.m.runs[l.Run].Pace = pace
		return s.append(rs)
	})
}

// End implements redrive.Runs.
func (s storeOf) End(_ context.Context, l redrive.Lease, st redrive.RunState, r redrive.Report, rec audit.Record) error {
	return s.write("end run", func() error {
		err := s.m.end(l, st, r, s.now(), rec)
		if err == nil { // else another process has the run, and its report counts
			s.p.reported(l.Run, r)
		}
		return err
	})
}

// LoadRun implements redrive.Runs and redrive.Wishes.
func (s storeOf) LoadRun(_ context.Context, prefix string) (r redrive.RunRecord, err error) {
	failed := s.read("load run", func() {
		if row := s.m.runs[redrive.RunID(prefix)]; row != nil {
			r, err = row.whole(s.m, s.now())
			return
		}
		err = redrive.ErrNotFound
	})
	if failed != nil {
		return r, failed
	}
	return r, err
}

// ListRuns implements redrive.Runs.
func (s storeOf) ListRuns(_ context.Context, queue string) (rs []redrive.RunRecord, err error) {
	err = s.read("list runs", func() {
		for _, id := range slices.Backward(s.m.started) {
			if r := s.m.runs[id]; queue == "" || r.Queue == queue {
				w, err := r.whole(s.m, s.now())
				if err != nil {
					w.GateFault = err.Error()
				}
				rs = append(rs, w)
			}
		}
	})
	return rs, err
}

// Lives implements redrive.Runs. A run that is not known is taken to live.
func (s storeOf) Lives(_ context.Context, run redrive.RunID) (lives bool, err error) {
	err = s.read("lives", func() {
		r := s.m.runs[run]
		lives = r == nil || r.record(s.m, s.now()).Lives
	})
	return lives, err
}

// OpenIntents implements redrive.Runs.
func (s storeOf) OpenIntents(_ context.Context, run redrive.RunID) (is []redrive.Intent, err error) {
	err = s.read("open intents", func() { is = s.m.openIntents(run) })
	return is, err
}

// Ends implements redrive.Runs.
func (s storeOf) Ends(_ context.Context, run redrive.RunID) (es map[string]redrive.ItemEnd, err error) {
	err = s.read("ends", func() { es = s.m.ends(run) })
	return es, err
}

// SaveWish implements redrive.Wishes.
func (s storeOf) SaveWish(_ context.Context, w redrive.Wish, rec audit.Record) (r redrive.RunRecord, err error) {
	err = s.write("save wish", func() (err error) {
		r, err = s.m.saveWish(w, s.now(), rec)
		if err == nil {
			s.p.wished[w.Run] = s.p.world.now
		}
		return err
	})
	return r, err
}

// LiftPause implements redrive.Wishes.
func (s storeOf) LiftPause(_ context.Context, run redrive.RunID, rec audit.Record) (r redrive.RunRecord, err error) {
	err = s.write("lift pause", func() (err error) {
		r, err = s.m.liftPause(run, s.now(), rec)
		return err
	})
	return r, err
}

// BeginRollback implements redrive.Rollbacks.
func (s storeOf) BeginRollback(_ context.Context, b redrive.Begin, w redrive.Wish, rec audit.Record) (l redrive.Lease, err error) {
	err = s.write("begin rollback", func() (err error) {
		l, err = s.m.beginRollback(b, w, s.now(), rec)
		return err
	})
	return l, err
}

// EndRollback implements redrive.Rollbacks.
func (s storeOf) EndRollback(_ context.Context, l redrive.Lease, rec audit.Record) error {
	return s.write("end rollback", func() error { return s.m.endRollback(l, s.now(), rec) })
}

// FindAudit implements redrive.Rollbacks.
func (s storeOf) FindAudit(_ context.Context, q audit.Query, each func(audit.Entry) error) error {
	var found []audit.Entry
	err := s.read("find records", func() {
		for _, r := range s.m.log {
			if q.Match(r.Record) {
				found = append(found, audit.Entry{Record: r.Record, Hash: r.hash})
			}
		}
	})
	if !q.OldestFirst {
		slices.Reverse(found)
	}
	for _, e := range found {
		if err := each(e); err != nil {
			return err
		}
	}
	return err
}

// Save implements redrive.Archive.
func (s storeOf) Save(_ context.Context, as ...redrive.Archived) error {
	return s.write("archive", func() error {
		for _, a := range as {
			s.m.archive[string(a.Run)+" "+a.Job.Message.Copy.String()] = a
		}
		return nil
	})
}

// SaveVerdicts implements reconcile.Verdicts.
func (s storeOf) SaveVerdicts(_ context.Context, fs ...reconcile.Found) error {
	return s.write("save verdicts", func() error {
		for _, f := range fs {
			s.p.note("verdict on %s at attempt %d: %s, %s", f.JobKey, f.Attempt, f.Verdict, f.Evidence.Why)
			s.m.verdicts[f.JobKey] = append(s.m.verdicts[f.JobKey], f)
		}
		return nil
	})
}

// LatestVerdicts implements reconcile.Verdicts.
func (s storeOf) LatestVerdicts(_ context.Context, _ string, jobKeys []string) (map[string]reconcile.Found, error) {
	found := map[string]reconcile.Found{}
	err := s.read("verdicts", func() {
		for _, k := range jobKeys {
			if f, ok := s.m.latestVerdict(k); ok {
				found[k] = f
			}
		}
	})
	return found, err
}

// Remember implements reconcile.Memory.
func (s storeOf) Remember(_ context.Context, _ string, rs []ledger.Row) error {
	return s.write("remember", func() error { s.m.remember(rs); return nil })
}

// Seen implements reconcile.Memory.
func (s storeOf) Seen(_ context.Context, _ string, keys []ledger.Key) (map[ledger.Key]reconcile.SeenRow, error) {
	seen := map[ledger.Key]reconcile.SeenRow{}
	err := s.read("seen", func() {
		for _, k := range keys {
			if r, ok := s.m.seen[k]; ok {
				seen[k] = r
			}
		}
	})
	return seen, err
}

// TriedBefore implements reconcile.Memory: nothing is imported here.
func (s storeOf) TriedBefore(context.Context, []string) (map[string]bool, error) {
	return map[string]bool{}, s.read("tried before", func() {})
}

// HoldsOf implements reconcile.Holds.
func (s storeOf) HoldsOf(context.Context, []reconcile.HoldID) (map[reconcile.HoldID]reconcile.ManualHold, error) {
	return map[reconcile.HoldID]reconcile.ManualHold{}, s.read("holds", func() {})
}

// open are the intents of reconciliations that nothing has closed.
func (s storeOf) open(_ context.Context, queue string) (rs []audit.Record, err error) {
	err = s.read("open reconciliations", func() { rs = s.m.openReconciliations(queue) })
	return rs, err
}
