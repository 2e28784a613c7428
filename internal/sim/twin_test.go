package sim

import (
	"context"
	"errors"
	"go/token"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestStoreIsLikeTheReal runs schedules in which the real store does whatever the
// one in memory does, in the same moment, and holds each answer of the one to that
// of the other: faults, crashes and several processes included.
func TestStoreIsLikeTheReal(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{"StoreID": true} // it has no answer to compare
	missing := []string{"all"}
	for seed := uint64(1); seed <= 30 || len(missing) > 0 && seed < 400; seed++ {
		runTwins(t, seed, asked)
		missing = nil
		for m := range reflect.TypeFor[operatorStore]().Methods() {
			if m.IsExported() && !asked[m.Name] {
				missing = append(missing, m.Name)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("no schedule asks for %q", missing)
	}
}

func runTwins(t *testing.T, seed uint64, asked map[string]bool) {
	t.Helper()
	w, err := newWorld(Options{Seed: seed, Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	tw := &twins{t: t, w: w, at: epoch, asked: asked}
	tw.real, err = store.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), store.Options{Create: true, GroupWait: -1, Now: func() time.Time { return tw.at }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tw.real.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.memory.head.Store = tw.real.StoreID()
	w.twin = func(s storeOf) operatorStore { return twin{s, tw} }
	w.begin()
	w.newProc("auditor", time.Hour, (*proc).askAll)
	w.run()
	w.finish()
	if w.broken != nil {
		t.Errorf("seed %d breaks %s", seed, w.broken)
	}
	if tw.differ {
		t.Fatalf("seed %d:\n%s", seed, w.trace())
	}
}

// askAll asks in the end for all that is in the store.
func (p *proc) askAll() {
	for !p.closing && p.broken == nil {
		p.wait(time.Hour)
	}
	ctx, s := context.Background(), p.store()
	plans, _ := s.ListPlans(ctx, deadName)
	for _, k := range plans {
		_, _ = s.Approvals(ctx, k.ID)
	}
	runs, _ := s.ListRuns(ctx, "")
	for _, r := range runs {
		_, _ = s.Gate(ctx, r.ID)
		_, _ = s.Publishes(ctx, r.ID)
		_, _ = s.OpenIntents(ctx, r.ID)
		_, _ = s.Ends(ctx, r.ID)
		_, _ = s.Wish(ctx, r.ID)
	}
	_ = s.FindAudit(ctx, audit.Query{}, func(audit.Entry) error { return nil })
}

// twins are the two stores of one schedule.
type twins struct {
	t      *testing.T
	w      *world
	real   *store.Store
	at     time.Time
	asked  map[string]bool
	differ bool
}

// twin is both stores as one process sees them. What it answers is the answer of
// the one in memory.
type twin struct {
	storeOf
	*twins
}

// both asks both stores. The real one is asked in the moment in which the other is
// applied, if it is.
func both[T any](tw twin, op string, mine, theirs func() (T, error)) (T, error) {
	var want T
	var wantErr error
	applied := false
	tw.p.applied = func() {
		tw.at, tw.asked[op] = tw.p.clock(), true
		want, wantErr = theirs()
		applied = true
	}
	got, err := mine()
	tw.p.applied = nil
	if !applied || errors.Is(err, errFault) || errors.Is(err, errDead) || tw.differ {
		return got, err
	}
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), exported)
	if err != nil || wantErr != nil {
		diff = "" // what comes with an error is nothing to rely on
	}
	if diff != "" || !sameError(err, wantErr) {
		tw.differ = true
		tw.w.say("## %s differs", op)
		tw.t.Errorf("%s: %v, the real store: %v\n%s", op, err, wantErr, diff)
	}
	return got, err
}

// exported leaves aside what a package keeps to itself.
var exported = cmp.FilterPath(func(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && !token.IsExported(f.Name())
}, cmp.Ignore())

func tell(tw twin, op string, mine, theirs func() error) error {
	none := func(do func() error) func() (struct{}, error) {
		return func() (struct{}, error) { return struct{}{}, do() }
	}
	_, err := both(tw, op, none(mine), none(theirs))
	return err
}

// sameError: a caller cannot tell the one from the other.
func sameError(a, b error) bool {
	for _, is := range []error{redrive.ErrNotFound, redrive.ErrRefused, redrive.ErrChanged, audit.ErrFenced, audit.ErrNotWritable} {
		if errors.Is(a, is) != errors.Is(b, is) {
			return false
		}
	}
	var x, y *redrive.TakenError
	if errors.As(a, &x) != errors.As(b, &y) || x != nil && !cmp.Equal(*x, *y) {
		return false
	}
	var in, theirs *redrive.InPlanError
	if errors.As(a, &in) != errors.As(b, &theirs) || in != nil && in.Plan != theirs.Plan {
		return false
	}
	return (a == nil) == (b == nil)
}

func (tw twin) Append(ctx context.Context, rs ...audit.Record) (audit.Head, error) {
	return both(tw, "Append", func() (audit.Head, error) { return tw.storeOf.Append(ctx, rs...) }, func() (audit.Head, error) { return tw.real.Append(ctx, rs...) })
}

func (tw twin) LoadPlan(ctx context.Context, prefix string) (redrive.StoredPlan, error) {
	return both(tw, "LoadPlan", func() (redrive.StoredPlan, error) { return tw.storeOf.LoadPlan(ctx, prefix) }, func() (redrive.StoredPlan, error) { return tw.real.LoadPlan(ctx, prefix) })
}

func (tw twin) ListPlans(ctx context.Context, queue string) ([]redrive.StoredPlan, error) {
	return both(tw, "ListPlans", func() ([]redrive.StoredPlan, error) { return tw.storeOf.ListPlans(ctx, queue) }, func() ([]redrive.StoredPlan, error) { return tw.real.ListPlans(ctx, queue) })
}

func (tw twin) InLivePlans(ctx context.Context, queue string, now time.Time) (map[string]redrive.PlanID, error) {
	return both(tw, "InLivePlans", func() (map[string]redrive.PlanID, error) { return tw.storeOf.InLivePlans(ctx, queue, now) }, func() (map[string]redrive.PlanID, error) { return tw.real.InLivePlans(ctx, queue, now) })
}

func (tw twin) Approvals(ctx context.Context, id redrive.PlanID) ([]redrive.Approval, error) {
	return both(tw, "Approvals", func() ([]redrive.Approval, error) { return tw.storeOf.Approvals(ctx, id) }, func() ([]redrive.Approval, error) { return tw.real.Approvals(ctx, id) })
}

func (tw twin) ApprovedDigests(ctx context.Context) (map[string]bool, error) {
	return both(tw, "ApprovedDigests", func() (map[string]bool, error) { return tw.storeOf.ApprovedDigests(ctx) }, func() (map[string]bool, error) { return tw.real.ApprovedDigests(ctx) })
}

func (tw twin) SelfRedrives(ctx context.Context, queue string, since time.Time) (int, error) {
	return both(tw, "SelfRedrives", func() (int, error) { return tw.storeOf.SelfRedrives(ctx, queue, since) }, func() (int, error) { return tw.real.SelfRedrives(ctx, queue, since) })
}

func (tw twin) PublishedOf(ctx context.Context, ids []redrive.Identity, except redrive.RunID) ([]redrive.Published, error) {
	return both(tw, "PublishedOf", func() ([]redrive.Published, error) { return tw.storeOf.PublishedOf(ctx, ids, except) }, func() ([]redrive.Published, error) { return tw.real.PublishedOf(ctx, ids, except) })
}

func (tw twin) ReplacedOf(ctx context.Context, ids []redrive.Identity, except redrive.RunID) ([]string, error) {
	return both(tw, "ReplacedOf", func() ([]string, error) { return tw.storeOf.ReplacedOf(ctx, ids, except) }, func() ([]string, error) { return tw.real.ReplacedOf(ctx, ids, except) })
}

func (tw twin) Begin(ctx context.Context, b redrive.Begin, check func(redrive.Frozen, []redrive.Approval) error, rec audit.Record) (f redrive.Frozen, l redrive.Lease, err error) {
	_, err = both(tw, "Begin", func() (opened, error) {
		f, l, err = tw.storeOf.Begin(ctx, b, check, rec)
		return read(f, l, err)
	}, func() (opened, error) { return readAndClosed(tw.real.Begin(ctx, b, check, rec)) })
	return f, l, err
}

func (tw twin) OpenPlan(ctx context.Context, prefix string) (f redrive.Frozen, err error) {
	_, err = both(tw, "OpenPlan", func() (opened, error) {
		f, err = tw.storeOf.OpenPlan(ctx, prefix)
		return read(f, redrive.Lease{}, err)
	}, func() (opened, error) {
		theirs, err := tw.real.OpenPlan(ctx, prefix)
		return readAndClosed(theirs, redrive.Lease{}, err)
	})
	return f, err
}

// opened is a plan that was opened, with all that is in it.
type opened struct {
	Plan  redrive.Frozen
	Items []redrive.Item
	Lease redrive.Lease
}

func read(f redrive.Frozen, l redrive.Lease, err error) (opened, error) {
	o := opened{Plan: f, Lease: l}
	for i := 0; err == nil && i < f.Items.Len(); i++ {
		var it *redrive.Item
		if it, err = f.Items.At(i); err == nil {
			o.Items = append(o.Items, *it)
		}
	}
	return o, err
}

func readAndClosed(f redrive.Frozen, l redrive.Lease, err error) (opened, error) {
	o, readErr := read(f, l, err)
	if err == nil {
		readErr = errors.Join(readErr, f.Items.Close())
	}
	return o, readErr
}

func (tw twin) Resume(ctx context.Context, run redrive.RunID, b redrive.Begin, rec audit.Record) (redrive.Lease, error) {
	return both(tw, "Resume", func() (redrive.Lease, error) { return tw.storeOf.Resume(ctx, run, b, rec) }, func() (redrive.Lease, error) { return tw.real.Resume(ctx, run, b, rec) })
}

func (tw twin) Heartbeat(ctx context.Context, l redrive.Lease, now time.Time, ttl time.Duration) (redrive.Lease, error) {
	return both(tw, "Heartbeat", func() (redrive.Lease, error) { return tw.storeOf.Heartbeat(ctx, l, now, ttl) }, func() (redrive.Lease, error) { return tw.real.Heartbeat(ctx, l, now, ttl) })
}

func (tw twin) Wish(ctx context.Context, run redrive.RunID) (redrive.Wish, error) {
	return both(tw, "Wish", func() (redrive.Wish, error) { return tw.storeOf.Wish(ctx, run) }, func() (redrive.Wish, error) { return tw.real.Wish(ctx, run) })
}

func (tw twin) LoadRun(ctx context.Context, prefix string) (redrive.RunRecord, error) {
	return both(tw, "LoadRun", func() (redrive.RunRecord, error) { return tw.storeOf.LoadRun(ctx, prefix) }, func() (redrive.RunRecord, error) { return tw.real.LoadRun(ctx, prefix) })
}

func (tw twin) ListRuns(ctx context.Context, queue string) ([]redrive.RunRecord, error) {
	return both(tw, "ListRuns", func() ([]redrive.RunRecord, error) { return tw.storeOf.ListRuns(ctx, queue) }, func() ([]redrive.RunRecord, error) { return tw.real.ListRuns(ctx, queue) })
}

func (tw twin) Lives(ctx context.Context, run redrive.RunID) (bool, error) {
	return both(tw, "Lives", func() (bool, error) { return tw.storeOf.Lives(ctx, run) }, func() (bool, error) { return tw.real.Lives(ctx, run) })
}

func (tw twin) OpenIntents(ctx context.Context, run redrive.RunID) ([]redrive.Intent, error) {
	return both(tw, "OpenIntents", func() ([]redrive.Intent, error) { return tw.storeOf.OpenIntents(ctx, run) }, func() ([]redrive.Intent, error) { return tw.real.OpenIntents(ctx, run) })
}

func (tw twin) Ends(ctx context.Context, run redrive.RunID) (map[string]redrive.ItemEnd, error) {
	return both(tw, "Ends", func() (map[string]redrive.ItemEnd, error) { return tw.storeOf.Ends(ctx, run) }, func() (map[string]redrive.ItemEnd, error) { return tw.real.Ends(ctx, run) })
}

func (tw twin) SaveWish(ctx context.Context, w redrive.Wish, rec audit.Record) (redrive.RunRecord, error) {
	return both(tw, "SaveWish", func() (redrive.RunRecord, error) { return tw.storeOf.SaveWish(ctx, w, rec) }, func() (redrive.RunRecord, error) { return tw.real.SaveWish(ctx, w, rec) })
}

func (tw twin) LiftPause(ctx context.Context, run redrive.RunID, rec audit.Record) (redrive.RunRecord, error) {
	return both(tw, "LiftPause", func() (redrive.RunRecord, error) { return tw.storeOf.LiftPause(ctx, run, rec) }, func() (redrive.RunRecord, error) { return tw.real.LiftPause(ctx, run, rec) })
}

func (tw twin) Promote(ctx context.Context, run redrive.RunID, rec audit.Record) (redrive.RunRecord, error) {
	return both(tw, "Promote", func() (redrive.RunRecord, error) { return tw.storeOf.Promote(ctx, run, rec) }, func() (redrive.RunRecord, error) { return tw.real.Promote(ctx, run, rec) })
}

func (tw twin) BeginRollback(ctx context.Context, b redrive.Begin, w redrive.Wish, rec audit.Record) (redrive.Lease, error) {
	return both(tw, "BeginRollback", func() (redrive.Lease, error) { return tw.storeOf.BeginRollback(ctx, b, w, rec) }, func() (redrive.Lease, error) { return tw.real.BeginRollback(ctx, b, w, rec) })
}

func (tw twin) Gate(ctx context.Context, run redrive.RunID) (redrive.GateState, error) {
	return both(tw, "Gate", func() (redrive.GateState, error) { return tw.storeOf.Gate(ctx, run) }, func() (redrive.GateState, error) { return tw.real.Gate(ctx, run) })
}

func (tw twin) Publishes(ctx context.Context, run redrive.RunID) ([]redrive.PublishedCopy, error) {
	return both(tw, "Publishes", func() ([]redrive.PublishedCopy, error) { return tw.storeOf.Publishes(ctx, run) }, func() ([]redrive.PublishedCopy, error) { return tw.real.Publishes(ctx, run) })
}

func (tw twin) LatestVerdicts(ctx context.Context, queue string, jobKeys []string) (map[string]reconcile.Found, error) {
	return both(tw, "LatestVerdicts", func() (map[string]reconcile.Found, error) { return tw.storeOf.LatestVerdicts(ctx, queue, jobKeys) }, func() (map[string]reconcile.Found, error) { return tw.real.LatestVerdicts(ctx, queue, jobKeys) })
}

func (tw twin) Seen(ctx context.Context, ledgerName string, keys []ledger.Key) (map[ledger.Key]reconcile.SeenRow, error) {
	return both(tw, "Seen", func() (map[ledger.Key]reconcile.SeenRow, error) { return tw.storeOf.Seen(ctx, ledgerName, keys) }, func() (map[ledger.Key]reconcile.SeenRow, error) { return tw.real.Seen(ctx, ledgerName, keys) })
}

func (tw twin) TriedBefore(ctx context.Context, payloads []string) (map[string]bool, error) {
	return both(tw, "TriedBefore", func() (map[string]bool, error) { return tw.storeOf.TriedBefore(ctx, payloads) }, func() (map[string]bool, error) { return tw.real.TriedBefore(ctx, payloads) })
}

func (tw twin) HoldsOf(ctx context.Context, ids []reconcile.HoldID) (map[reconcile.HoldID]reconcile.ManualHold, error) {
	return both(tw, "HoldsOf", func() (map[reconcile.HoldID]reconcile.ManualHold, error) { return tw.storeOf.HoldsOf(ctx, ids) }, func() (map[reconcile.HoldID]reconcile.ManualHold, error) { return tw.real.HoldsOf(ctx, ids) })
}

func (tw twin) SavePlan(ctx context.Context, id redrive.PlanID, canonical []byte, p redrive.Plan, rec audit.Record) error {
	return tell(tw, "SavePlan", func() error { return tw.storeOf.SavePlan(ctx, id, canonical, p, rec) }, func() error { return tw.real.SavePlan(ctx, id, canonical, p, rec) })
}

func (tw twin) SetPlanState(ctx context.Context, id redrive.PlanID, from, to redrive.PlanState, rec audit.Record) error {
	return tell(tw, "SetPlanState", func() error { return tw.storeOf.SetPlanState(ctx, id, from, to, rec) }, func() error { return tw.real.SetPlanState(ctx, id, from, to, rec) })
}

func (tw twin) SaveApproval(ctx context.Context, a redrive.Approval, rec audit.Record) error {
	return tell(tw, "SaveApproval", func() error { return tw.storeOf.SaveApproval(ctx, a, rec) }, func() error { return tw.real.SaveApproval(ctx, a, rec) })
}

func (tw twin) SetState(ctx context.Context, l redrive.Lease, st redrive.RunState, rec audit.Record) error {
	return tell(tw, "SetState", func() error { return tw.storeOf.SetState(ctx, l, st, rec) }, func() error { return tw.real.SetState(ctx, l, st, rec) })
}

func (tw twin) SetPace(ctx context.Context, l redrive.Lease, pace redrive.Pace, rs ...audit.Record) error {
	return tell(tw, "SetPace", func() error { return tw.storeOf.SetPace(ctx, l, pace, rs...) }, func() error { return tw.real.SetPace(ctx, l, pace, rs...) })
}

func (tw twin) End(ctx context.Context, l redrive.Lease, st redrive.RunState, r redrive.Report, rec audit.Record) error {
	return tell(tw, "End", func() error { return tw.storeOf.End(ctx, l, st, r, rec) }, func() error { return tw.real.End(ctx, l, st, r, rec) })
}

func (tw twin) EndRollback(ctx context.Context, l redrive.Lease, rec audit.Record) error {
	return tell(tw, "EndRollback", func() error { return tw.storeOf.EndRollback(ctx, l, rec) }, func() error { return tw.real.EndRollback(ctx, l, rec) })
}

func (tw twin) SaveVerdict(ctx context.Context, l redrive.Lease, rec audit.Record) error {
	return tell(tw, "SaveVerdict", func() error { return tw.storeOf.SaveVerdict(ctx, l, rec) }, func() error { return tw.real.SaveVerdict(ctx, l, rec) })
}

func (tw twin) Save(ctx context.Context, as ...redrive.Archived) error {
	return tell(tw, "Save", func() error { return tw.storeOf.Save(ctx, as...) }, func() error { return tw.real.Save(ctx, as...) })
}

func (tw twin) SaveVerdicts(ctx context.Context, fs ...reconcile.Found) error {
	return tell(tw, "SaveVerdicts", func() error { return tw.storeOf.SaveVerdicts(ctx, fs...) }, func() error { return tw.real.SaveVerdicts(ctx, fs...) })
}

func (tw twin) Remember(ctx context.Context, ledgerName string, rs []ledger.Row) error {
	return tell(tw, "Remember", func() error { return tw.storeOf.Remember(ctx, ledgerName, rs) }, func() error { return tw.real.Remember(ctx, ledgerName, rs) })
}

// FindAudit compares what is found before it is handed on.
func (tw twin) FindAudit(ctx context.Context, q audit.Query, each func(audit.Entry) error) error {
	all := func(find func(context.Context, audit.Query, func(audit.Entry) error) error) func() ([]audit.Entry, error) {
		return func() (es []audit.Entry, err error) {
			err = find(ctx, q, func(e audit.Entry) error { es = append(es, e); return nil })
			return es, err
		}
	}
	es, err := both(tw, "FindAudit", all(tw.storeOf.FindAudit), all(tw.real.FindAudit))
	for _, e := range es {
		if err := each(e); err != nil {
			return err
		}
	}
	return err
}

// Fenced are both logs under a lease.
func (tw twin) Fenced(l redrive.Lease) audit.Log {
	return twinLog{tw, tw.storeOf.Fenced(l), tw.real.Fenced(l)}
}

type twinLog struct {
	twin
	mine, theirs audit.Log
}

func (l twinLog) Append(ctx context.Context, rs ...audit.Record) (audit.Head, error) {
	return both(l.twin, "Fenced", func() (audit.Head, error) { return l.mine.Append(ctx, rs...) }, func() (audit.Head, error) { return l.theirs.Append(ctx, rs...) })
}
