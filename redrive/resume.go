package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Resume goes on with a run that no longer lives: first its open intents, then
// what the plan has left. After expiry or revocation it only acknowledges and
// records. The run is found by a unique prefix; results are as Run's.
func (r *Runner) Resume(ctx context.Context, prefix string) (Ended, error) {
	rr, err := r.Runs.LoadRun(ctx, prefix)
	if err != nil {
		return Ended{}, fmt.Errorf("load run %s: %w", prefix, err)
	}
	p, err := r.Plans.OpenPlan(ctx, string(rr.Plan))
	if err != nil {
		return Ended{}, fmt.Errorf("load plan %s: %w", rr.Plan, err)
	}
	s, err := r.taken(ctx, rr, p)
	if err != nil {
		return Ended{}, errors.Join(err, p.Items.Close())
	}
	return s.whole(ctx, s.resume)
}

// taken takes the run over, as it was left.
func (r *Runner) taken(ctx context.Context, rr RunRecord, p Frozen) (*session, error) {
	if p.Store != r.Plans.StoreID() {
		return nil, fmt.Errorf("plan %s was made in another store: %w", p.ID, ErrRefused)
	}
	rec, err := r.startRecord(ctx, p, rr.ID, stepResume)
	if err != nil {
		return nil, err
	}
	rec.Reason = firstOf(r.Reason, rec.Reason)
	b := r.begin(p.ID, rr.ID)
	b.Opened = &p
	lease, err := r.Runs.Resume(ctx, rr.ID, b, rec)
	if err != nil {
		return nil, err // it names the run, or whoever has the queue
	}
	crash.At("resume.0.begun")
	ends, err := r.Runs.Ends(ctx, rr.ID)
	if err != nil {
		return nil, fmt.Errorf("ends of run %s: %w", rr.ID, err)
	}
	s := r.newSession(p, lease, ends, rr.Pace)
	s.glass = rec.Details[audit.DetailBreakGlass]
	return s, s.recallGate(ctx)
}

// resume settles the open intents and then goes on. The order matters: what
// only wants an acknowledgement comes first and needs no permission, since its
// job is with the destination already.
func (s *session) resume(ctx context.Context) error {
	todo, err := s.openIntents(ctx)
	if err != nil {
		return err
	}
	if err := s.closeNow(ctx, todo); err != nil {
		return err
	}
	crash.At("resume.1.closed")
	if err := s.settleIntents(ctx, todo.acknowledge, s.mayAcknowledge); err != nil {
		return err
	}
	crash.At("resume.2.acknowledged")
	var stopped *StoppedError
	switch err := s.permitted(ctx); {
	case errors.As(err, &stopped):
		return errors.Join(s.closeStopped(ctx, todo, stopped), err)
	case err != nil && !isPaused(err): // a pause is waited for before each batch
		return err
	}
	if err := s.stillTripped(ctx); err != nil {
		return err
	}
	if err := s.settleIntents(ctx, todo.act, s.mayGoOn); err != nil {
		return err
	}
	crash.At("resume.3.settled")
	return s.rest(ctx)
}

// todo is what the resume table makes of the open intents, by item.
type todo struct {
	acknowledge []int // the copy goes; nothing is sent
	act         []int // from step 2, or published again under the same attempt
	close       map[int]ItemEnd
	unsure      map[int]bool // what may have been published, and no answer says so
}

func (s *session) openIntents(ctx context.Context) (todo, error) {
	intents, err := s.Runs.OpenIntents(ctx, s.run)
	if err != nil {
		return todo{}, fmt.Errorf("open intents of run %s: %w", s.run, err)
	}
	t := todo{close: map[int]ItemEnd{}, unsure: map[int]bool{}}
	open := map[int]string{} // index to the recorded publish
	var keys []ledger.Key
	var order []int
	var items []*Item
	for _, in := range intents {
		i, ok := s.plan.Items.find(in.Record.CopyID)
		if !ok {
			continue // an intent of the run as a whole
		}
		if _, twice := open[i]; !twice {
			it, err := s.plan.Items.At(i)
			if err != nil {
				return todo{}, err
			}
			order, items, keys = append(order, i), append(items, it), append(keys, ledger.Key{JobKey: it.JobKey, Consumer: it.Consumer})
		}
		open[i] = in.Publish
		s.tracker.reopen(i)
	}
	rows := s.rows(ctx, keys)
	edits := s.inPlaces(ctx, items, rows)
	for n, i := range order {
		it, row := items[n], rows[n]
		if edits[n] != nil {
			it, row = it.edited(), edits[n]
		}
		t.sort(s, i, it, open[i], row)
	}
	return t, nil
}

// rows reads the ledger for the open intents; nil without a ledger.
func (s *session) rows(ctx context.Context, keys []ledger.Key) []*ledger.Lookup {
	ls := make([]*ledger.Lookup, len(keys))
	if s.Ledger == nil || len(keys) == 0 {
		return ls
	}
	for i, l := range s.Ledger.Get(ctx, keys) {
		ls[i] = &l
	}
	return ls
}

// sort puts one item where the table says. Of an edit that is in its original's
// place, it and row are the edited copy's.
func (t *todo) sort(s *session, i int, it *Item, publish string, row *ledger.Lookup) {
	to, e, end := afterCrash(it, s.run, publish, row)
	untouched := s.writable() && row != nil && row.Found == ledger.Present && it.asPlanned(*row)
	e.doubt = it.Action == reconcile.Redrive && publish == "" && !untouched
	s.entries[i] = e
	t.unsure[i] = e.doubt || publish == audit.ResultUnknown
	switch to {
	case toAcknowledge:
		t.acknowledge = append(t.acknowledge, i)
	case toAct:
		t.act = append(t.act, i)
	case toClose:
		t.close[i] = end
	default:
		s.tracker.end(i, end)
	}
}

type next int

const (
	toLeave next = iota // nothing can be known now: the intent stays open
	toAcknowledge
	toAct
	toClose
)

// afterCrash is the resume table. Its order is its meaning:
//
//	the publish is recorded               acknowledge that copy, and nothing else
//	no ledger                             settle, discard: start again at step 2
//	                                      declared idempotent: publish again
//	                                      else hold
//	the row is as planned                 start again at step 2
//	sent, reconciled, or late_accept      archive and acknowledge: settle
//	queued by this run                    publish again under the same attempt
//	discarded by this run                 acknowledge, if the plan still permits it
//	replaced by this run                  the edited copy's row, by this table
//	failed by a rollback of this run      keep the copy: skipped
//	failed                                keep the copy
//	sending, fenced, queued by another    keep the copy: held
//	unreadable, or anything else          keep everything: the intent stays open
func afterCrash(it *Item, run RunID, publish string, row *ledger.Lookup) (next, entry, ItemEnd) {
	begun := entry{intended: true}
	all := entry{intended: true, queued: true, published: true}
	switch {
	case publish == audit.ResultDone:
		return toAcknowledge, all, ItemEnd{}
	case row == nil && it.Action != reconcile.Redrive:
		return toAct, begun, ItemEnd{}
	case row == nil && it.declaredIdempotent():
		return toAct, begun, ItemEnd{}
	case row == nil:
		return toClose, begun, ItemEnd{endHeld, "publish_unknown"}
	case it.asPlanned(*row):
		return toAct, begun, ItemEnd{}
	case row.Found != ledger.Present:
		return toLeave, begun, ItemEnd{endUnknown, "ledger_" + string(row.Found)}
	}
	r := row.Row
	switch {
	case r.State.Committed() || r.LateAccept:
		all.settle = true
		return toAcknowledge, all, ItemEnd{}
	case it.isMoved(run, r):
		return toAct, entry{intended: true, queued: true}, ItemEnd{}
	case RolledBack(r, run):
		return toClose, begun, ItemEnd{endSkipped, whyRolledBack}
	case r.State == ledger.Failed:
		return toClose, begun, ItemEnd{endFailed, "row_failed"}
	default:
		return toClose, begun, ItemEnd{endHeld, "row_" + string(r.State)}
	}
}

// isMoved reports that step 4 is done: the row is what this run makes of it. A
// discard is still not permitted by that, since its acknowledgement is what
// destroys.
func (it *Item) isMoved(run RunID, r ledger.Row) bool {
	if it.Action == reconcile.Redrive {
		return r.State == ledger.Queued && r.Run == string(run)
	}
	c, ok := changeOf(it, run, it.Action)
	return ok && achieved(c, r)
}

// resumable reports that resume may send an item whose intent was left open: its
// row tells, or sending twice is declared harmless.
func (s *session) resumable(w *work) bool {
	return s.writable() || s.Ledger == nil && w.item.declaredIdempotent()
}

func (it *Item) declaredIdempotent() bool { return it.LedgerState == "" && it.Lift == liftIdempotent }

// liftIdempotent is the lift of an effect that is declared harmless to repeat.
const liftIdempotent = "idempotent"

// closeNow closes what needs no copy.
func (s *session) closeNow(ctx context.Context, t todo) error {
	var recs []audit.Record
	for _, i := range slices.Sorted(maps.Keys(t.close)) {
		w, err := s.newWork(i, broker.Delivery{})
		if err != nil {
			return err
		}
		recs = append(recs, s.closeRecords(w, t.close[i])...)
	}
	if err := s.mayHold(ctx); err != nil {
		return err
	}
	if err := s.record(ctx, recs...); err != nil {
		return err
	}
	for i, e := range t.close {
		s.tracker.end(i, e)
	}
	return nil
}

// settleIntents carries open intents; a dead copy that is gone leaves its
// outcome unknown for good. Copies of other items of the plan that came meanwhile
// are let go, so that the next step receives them.
func (s *session) settleIntents(ctx context.Context, set []int, guard func(context.Context) error) error {
	if len(set) == 0 {
		return nil
	}
	err := s.loop(ctx, set, guard)
	s.letGo(context.WithoutCancel(ctx), func(c broker.CopyID) bool {
		i, ok := s.plan.Items.of(c)
		return ok && s.tracker.isOpen(i)
	})
	if err != nil {
		return err
	}
	return s.gone(ctx, set, ItemEnd{endUnknown, "copy_gone"})
}

// closeStopped closes the intents that may not be acted upon any more: as unknown
// where the job may have been published. Their rows stay queued by this run, and
// anyone may redrive them.
func (s *session) closeStopped(ctx context.Context, open todo, why *StoppedError) error {
	t := todo{close: map[int]ItemEnd{}}
	for _, i := range open.act {
		t.close[i] = ItemEnd{endSkipped, why.Why}
		if open.unsure[i] {
			t.close[i] = ItemEnd{endUnknown, why.Why}
		}
	}
	err := s.closeNow(ctx, t)
	crash.At("resume.2.stopped")
	return err
}
