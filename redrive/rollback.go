package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// ActionRollback is the action of the records of a rollback: one intent and one
// outcome for it as a whole, and for each row that it moves; what it could not
// take back has an outcome alone. They name rows, and the copy in their details:
// a rollback touches no copy.
const ActionRollback = "rollback"

// detailCopy is where a rollback's record names the dead copy of its item.
const detailCopy = "copy_id"

// backAtOnce bounds the rows of one batch where the ledger does not.
const backAtOnce = 500

// backRounds is how often the rows of a batch are looked at: a worker claims once,
// and a step 4 that comes late moves a row once, so that none needs more.
const backRounds = 4

// Rollbacks is what rollbacks need of the store.
type Rollbacks interface {
	Wishes
	// BeginRollback takes the lease of the run's queue in whatever state the run was
	// left, asks it to be aborted unless it has ended, so that no resume publishes
	// any more, and writes rec. A living run, another's lease, or another rollback of
	// the run is a *TakenError.
	BeginRollback(ctx context.Context, b Begin, w Wish, rec audit.Record) (Lease, error)
	// EndRollback frees the lease and writes rec, in one transaction.
	EndRollback(ctx context.Context, l Lease, rec audit.Record) error
	Finder
}

// BackItem is one item in a rollback.
type BackItem struct {
	Index int // in the plan
	Back  Back
	Why   string
	// LedgerRow names the row that the run queued, as records do.
	LedgerRow string
	// Row is the ledger's as it was read last; its State is empty where none was.
	Row ledger.Row
}

// RollbackReport is what a rollback did, or would do. The counts add up to the
// plan's items.
type RollbackReport struct {
	Run   RunID
	Plan  PlanID
	Queue string
	State RunState // of the run, afterwards
	// Planned is the sum of Counts, unless the rollback was cut short.
	Planned int
	Counts  map[Back]int
	// Items are those of which the run may have done something, in plan order.
	Items []BackItem
}

// Whole reports that nothing of what the run queued was claimed, left or unknown.
func (r RollbackReport) Whole() bool {
	return r.Counts[BackClaimed]+r.Counts[BackLeft]+r.Counts[BackUnknown] == 0
}

// rollback is one rollback at work.
type rollback struct {
	*session
	items  []Item // of the plan
	reason string
	begun  map[string]bool   // copies of which the run has an intent
	before map[string]string // how earlier rollbacks closed a row, by job key
	open   map[string]bool   // job keys of intents that no outcome has closed
	report RollbackReport
}

// Rollback takes back what a run has queued and no worker has claimed, so that
// nobody claims it any more, and publishes nothing. A run that has not ended is
// aborted, and settled as abort settles it. It is the same again after a crash,
// and changes nothing once it is done. ErrRefused: there is no ledger to write, or
// the queue is another's; other errors as Run's.
func (r *Runner) Rollback(ctx context.Context, prefix, reason string) (RollbackReport, error) {
	rr, sp, err := r.toRollBack(ctx, prefix)
	if err != nil {
		return RollbackReport{}, err
	}
	wish := Wish{Run: rr.ID, Kind: WishAbort, Person: r.Actor.Name, Reason: reason, At: r.Now()}
	if err := r.stopped(ctx, rr, wish); err != nil {
		return RollbackReport{}, err
	}
	rec := r.rollbackRecord(sp.ID, sp.Plan.Queue, rr.ID)
	rec.Phase, rec.Reason = audit.Intent, reason
	lease, err := r.Rollbacks.BeginRollback(ctx, r.begin(sp.ID, rr.ID), wish, rec)
	if err != nil {
		return RollbackReport{}, err // it names whoever has the queue
	}
	crash.At("rollback.0.begun")
	b := r.newRollback(sp, rr, lease, reason)
	err = b.whole(ctx)
	if err == nil {
		err = r.settleAborted(ctx, rr.ID)
	}
	return b.ended(ctx, err)
}

// SurveyRollback says what Rollback would do now, and changes nothing.
func (r *Runner) SurveyRollback(ctx context.Context, prefix string) (RollbackReport, error) {
	rr, sp, err := r.toRollBack(ctx, prefix)
	if err != nil {
		return RollbackReport{}, err
	}
	b := r.newRollback(sp, rr, Lease{Run: rr.ID}, "")
	if err := b.remember(ctx); err != nil {
		return RollbackReport{}, err
	}
	for part := range slices.Chunk(b.all(), b.atOnce()) {
		for i, f := range b.look(ctx, part) {
			b.note(part[i], f)
		}
	}
	return b.report, nil
}

// toRollBack finds the run and its plan, and refuses what has no ledger to write.
func (r *Runner) toRollBack(ctx context.Context, prefix string) (RunRecord, StoredPlan, error) {
	rr, err := r.Runs.LoadRun(ctx, prefix)
	if err != nil {
		return rr, StoredPlan{}, fmt.Errorf("load run %s: %w", prefix, err)
	}
	sp, err := r.Plans.LoadPlan(ctx, string(rr.Plan))
	if err != nil {
		return rr, sp, fmt.Errorf("load plan %s: %w", rr.Plan, err)
	}
	if sp.Plan, err = sp.Verify(); err != nil {
		return rr, sp, err
	}
	switch {
	case sp.Plan.Store != r.Plans.StoreID():
		return rr, sp, fmt.Errorf("plan %s was made in another store: %w", sp.ID, ErrRefused)
	case r.Ledger == nil:
		return rr, sp, fmt.Errorf("run %s: a rollback moves ledger rows, and %s has no ledger: %w", rr.ID, sp.Plan.Queue, ErrRefused)
	case !r.Ledger.Capabilities().Writable:
		return rr, sp, fmt.Errorf("run %s: a rollback moves ledger rows: %w: %w", rr.ID, ledger.ErrReadOnly, ErrRefused)
	}
	return rr, sp, nil
}

// stopped has a living run aborted, and waits until it has ended or its lease has.
func (r *Runner) stopped(ctx context.Context, rr RunRecord, wish Wish) error {
	if !rr.Lives {
		return nil
	}
	rec := controlRecord(r.Who, stepAskAbort, wish.Reason)
	if _, err := r.Rollbacks.SaveWish(ctx, wish, rec); err != nil && !errors.Is(err, ErrRefused) {
		return err // refused: it has ended in this moment
	}
	for rr.Lives {
		if err := r.Sleep(ctx, wishEvery); err != nil {
			return err
		}
		var err error
		if rr, err = r.Runs.LoadRun(ctx, string(rr.ID)); err != nil {
			return fmt.Errorf("load run %s: %w", rr.ID, err)
		}
	}
	return nil
}

// settleAborted settles what an aborted run left open, unless it has ended.
func (r *Runner) settleAborted(ctx context.Context, run RunID) error {
	rr, err := r.Runs.LoadRun(ctx, string(run))
	if err != nil || rr.State.Ended() {
		return err
	}
	_, err = r.Resume(ctx, string(run))
	var stopped *StoppedError
	if errors.As(err, new(*TakenError)) || errors.As(err, &stopped) && stopped.Aborted() {
		return nil // somebody else settles it, or it is done
	}
	return err
}

func (r *Runner) rollbackRecord(id PlanID, queue string, run RunID) audit.Record {
	rec := r.runRecord(ActionRollback, run, id, queue)
	if r.Solo != "" {
		rec.Details["solo"] = r.Solo
	}
	return rec
}

func (r *Runner) newRollback(sp StoredPlan, rr RunRecord, l Lease, reason string) *rollback {
	return &rollback{
		session: r.newSession(sp.Frozen(), l, nil, Pace{}), items: sp.Plan.Items, reason: reason,
		begun: map[string]bool{}, before: map[string]string{}, open: map[string]bool{},
		report: RollbackReport{Run: rr.ID, Plan: sp.ID, Queue: sp.Plan.Queue, State: rr.State, Planned: len(sp.Plan.Items), Counts: map[Back]int{}},
	}
}

// whole takes back under heartbeat, and closes the rollback unless it was cut
// short: what is open then is closed by the next.
func (b *rollback) whole(ctx context.Context) error {
	err := b.beating(ctx, b.takeBack)
	if errors.Is(err, audit.ErrFenced) {
		return err
	}
	rec := b.rollbackRecord(b.id, b.plan.Queue, b.run)
	rec.Phase, rec.Reason, rec.Result = audit.Outcome, b.reason, b.result(err)
	rec.Details = b.counted(rec.Details)
	if endErr := b.Rollbacks.EndRollback(context.WithoutCancel(ctx), b.lease.current(), rec); endErr != nil {
		return errors.Join(err, fmt.Errorf("end rollback of run %s: %w", b.run, endErr))
	}
	crash.At("rollback.4.ended")
	return err
}

func (b *rollback) result(err error) string {
	switch {
	case err != nil:
		return audit.ResultFailed
	case b.report.Counts[BackUnknown] > 0:
		return audit.ResultUnknown
	default:
		return audit.ResultDone
	}
}

// counted adds the counts to what a record has in its details.
func (b *rollback) counted(details map[string]string) map[string]string {
	counts := map[string]string{}
	maps.Copy(counts, details)
	for back, n := range b.report.Counts {
		counts[string(back)] = strconv.Itoa(n)
	}
	return counts
}

// ended reads how the run stands after all, for the report.
func (b *rollback) ended(ctx context.Context, err error) (RollbackReport, error) {
	rr, readErr := b.Runs.LoadRun(context.WithoutCancel(ctx), string(b.run))
	if readErr == nil {
		b.report.State = rr.State
	}
	return b.report, errors.Join(err, readErr)
}

// remember reads of which items the run has an intent, and what earlier rollbacks
// have recorded. Nobody writes under the run's lease meanwhile.
func (b *rollback) remember(ctx context.Context) error {
	intents := audit.Query{Run: string(b.run), Action: audit.ActionRedrive, Phase: audit.Intent}
	err := b.Rollbacks.FindAudit(ctx, intents, func(e audit.Entry) error {
		b.begun[e.Record.CopyID] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("intents of run %s: %w", b.run, err)
	}
	earlier := audit.Query{Run: string(b.run), Action: ActionRollback, OldestFirst: true}
	err = b.Rollbacks.FindAudit(ctx, earlier, func(e audit.Entry) error {
		r := e.Record
		switch {
		case r.JobKey == "": // of a rollback as a whole
		case r.Phase == audit.Intent:
			b.open[r.JobKey] = true
		default:
			delete(b.open, r.JobKey)
			b.before[r.JobKey] = r.Result + ":" + r.Reason
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("earlier rollbacks of run %s: %w", b.run, err)
	}
	return nil
}

func (b *rollback) all() []int {
	is := make([]int, len(b.items))
	for i := range is {
		is[i] = i
	}
	return is
}

func (b *rollback) atOnce() int { return atLeast(b.Ledger.Capabilities().MaxBatch, backAtOnce) }

// note counts an item.
func (b *rollback) note(i int, f foundRow) {
	b.report.Counts[f.back]++
	switch f.back {
	case BackNotOut, BackSettled, BackDropped:
	default:
		b.report.Items = append(b.report.Items, BackItem{Index: i, LedgerRow: b.rowName(f.key), Back: f.back, Why: f.why, Row: f.row.Row})
	}
}

// record of one item. The row that it names is the one that is moved.
func (b *rollback) itemRecord(i int, f foundRow) audit.Record {
	w := b.workOf(i, &b.items[i], broker.Delivery{})
	rec := b.session.itemRecord(w)
	rec.Action, rec.MessageID = ActionRollback, w.item.MessageID
	rec.Details[detailCopy], rec.CopyID = rec.CopyID, ""
	rec.LedgerRow = b.rowName(f.key)
	rec.Attempt = nil
	if f.row.Found == ledger.Present {
		rec.Attempt = &f.row.Row.Attempt
	}
	return rec
}
