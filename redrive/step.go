package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// work is one item in the hands of a batch. The flags say what is already
// durable, so that a resumed item starts at the first step that is missing.
type work struct {
	index    int
	item     *Item
	action   reconcile.Action
	delivery broker.Delivery
	job      job.Job
	attempt  *int     // what the records say: the attempt that is published
	edited   *job.Job // the edit of it, where the plan has one and nothing is published
	account  string   // of the ledger's row
	turn     *turn    // the batch's part of the rate

	intended  bool // step 3: the intent is in the log
	queued    bool // step 4: the row is queued by this run, or needs no move
	published bool // step 5: the publish is in the log, or nothing is to be published
	doubt     bool // step 5 may have happened before a crash, without a record
}

// carry takes the works of one batch through the steps, in the one order that
// makes a crash anywhere safe. A work that a step stops does not reach the
// next; an error stops the run, and what it leaves open is for resume.
//
//  1. receive and match (receive.go)
//  2. re-check; what the rate has no place for any more goes back
//  3. archive what is settled or discarded; intent, durable
//  4. ledger, by compare-and-set
//  5. publish; outcome, durable
//  6. acknowledge; outcome
//
// Before each act outside the store, at its very call, stands the lease: a
// process that was suspended past it does nothing more. The store itself
// refuses the records of a lease that is another's.
func (s *session) carry(ctx context.Context, ws []*work) error {
	steps := []func(context.Context, []*work) ([]*work, error){
		s.recheck, s.fit, s.keep, s.intend, s.change, s.publish, s.acknowledge,
	}
	for _, step := range steps {
		if len(ws) == 0 {
			return nil
		}
		var err error
		if ws, err = step(ctx, ws); err != nil {
			return err
		}
	}
	return nil
}

// recheck is step 2: what is true now must be what was approved.
func (s *session) recheck(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.1.received")
	stop := map[*work]ItemEnd{}
	var unsent []*work
	for _, w := range ws {
		if !w.item.isOf(w.job) {
			stop[w] = ItemEnd{endSkipped, "changed_message"}
			continue
		}
		if end, ok := s.reedit(ctx, w); !ok {
			stop[w] = end
		} else if !w.published { // else the job is with its destination, and only the copy is left
			unsent = append(unsent, w)
		}
	}
	if err := s.compare(ctx, unsent, stop); err != nil {
		return nil, err
	}
	return s.drop(ctx, ws, stop)
}

// compare assesses the jobs anew and stops those that are not as planned. A row
// that this run has queued was compared before it was; of its job only a manual
// hold is asked for, which a person may have set since.
func (s *session) compare(ctx context.Context, unsent []*work, stop map[*work]ItemEnd) error {
	if len(unsent) == 0 {
		return nil
	}
	jobs := make([]job.Job, len(unsent))
	for i, w := range unsent {
		jobs[i] = w.job
		jobs[i].Message.Receives = w.item.Receives
	}
	as, err := s.together.assess.call(ctx, jobs)
	if err != nil {
		return err
	}
	for i, w := range unsent {
		if as[i].Row != nil {
			w.account = as[i].Row.Row.Account
		}
		why := ""
		switch {
		case as[i].Hold != nil:
			why = reconcile.WhyManualHold
		case !w.queued:
			why = s.changed(w, as[i])
		}
		if why != "" {
			stop[w] = ItemEnd{endSkipped, why}
		}
	}
	return errors.Join(s.notSince(ctx, unsent, stop), s.sameEdits(ctx, unsent, stop))
}

func (s *session) assessAll(ctx context.Context, jobs []job.Job) ([]reconcile.Assessed, error) {
	as, err := s.Assess.Assess(ctx, jobs, s.plan.Lifts)
	if err != nil {
		return nil, fmt.Errorf("re-check %d jobs: %w", len(jobs), err)
	}
	if len(as) != len(jobs) {
		return nil, fmt.Errorf("re-check %d jobs: %d answers", len(jobs), len(as))
	}
	return as, nil
}

// changed names what is no longer as approved, or is empty.
func (s *session) changed(w *work, a reconcile.Assessed) string {
	it := w.item
	switch {
	case s.tracker.isBlocked(w.index) && s.ordered:
		return "order_blocked"
	case a.Row != nil && a.Row.Found == ledger.Unreadable:
		return "ledger_unreadable"
	case (a.Row == nil) != (it.LedgerState == "") || a.Row != nil && !it.asPlanned(*a.Row):
		return it.rowChange(a.Row)
	case a.Decision.Action == reconcile.Hold && a.Input.Block.OfReference():
		return string(a.Input.Block)
	}
	return it.differs(frozen(a, w.job), s.Now())
}

// whyAlreadySent is why a job is not redriven whose effect is on record since the
// plan was made.
const whyAlreadySent = "already_sent"

// rowChange says what became of a row that is not as planned.
func (it *Item) rowChange(l *ledger.Lookup) string {
	sent := l != nil && l.Found == ledger.Present && (l.Row.State.Committed() || l.Row.LateAccept)
	if sent && it.Action == reconcile.Redrive {
		return whyAlreadySent
	}
	return "changed_ledger"
}

// differs names what has changed since the item was frozen, or is empty.
func (it *Item) differs(now Item, at time.Time) string {
	switch {
	case now.Class != it.Class || now.Rule != it.Rule || now.Disposition != it.Disposition:
		return "changed_class"
	case now.Effect != it.Effect:
		return "changed_effect"
	case now.Verdict != it.Verdict || now.EvidenceSHA256 != it.EvidenceSHA256:
		return "changed_verdict"
	case now.Action != it.judged() || now.Row != it.Row || now.Why != it.Why || now.Lift != it.Lift:
		return "changed_action"
	case !it.SendBefore.IsZero() && !at.Before(it.SendBefore):
		return "send_before_passed"
	default:
		return ""
	}
}

// fit gives back what the rate, lowered since the batch asked for its part, has no
// place for. Nothing of it was begun here, and a later batch waits for its places
// where a stop ends the wait.
func (s *session) fit(ctx context.Context, ws []*work) ([]*work, error) {
	n := ws[0].turn.room(len(ws))
	s.giveBack(ctx, ws[n:]...)
	return ws[:n], nil
}

// keep writes the archive of what leaves its queue without going anywhere, or
// goes in another form.
func (s *session) keep(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.2.rechecked")
	var as []Archived
	for _, w := range ws {
		if w.action == reconcile.Redrive && (w.item.Edit == nil || w.published) {
			continue
		}
		as = append(as, Archived{
			Run: s.run, Plan: s.id, Queue: s.plan.Queue, Owner: s.owner(w.item), Retention: s.plan.ArchiveRetention(),
			Job: w.job, Action: w.action, At: s.Now(),
		})
	}
	if len(as) == 0 {
		return ws, nil
	}
	if err := s.Archive.Save(ctx, as...); err != nil {
		return nil, fmt.Errorf("archive %d copies of %s: %w: %w", len(as), s.plan.Entity, audit.ErrNotWritable, err)
	}
	return ws, nil
}

// owner is whose the archived copy is: the class's, else the requester's.
func (s *session) owner(it *Item) string {
	return firstOf(s.Owner(it.Class), s.plan.Requester)
}

// intend is step 3. Until the log has the intents nothing is done; if it cannot
// take them the run ends here.
func (s *session) intend(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.2.archived")
	ws, err := s.extend(ctx, ws)
	if err != nil {
		return nil, err
	}
	rs := make([]audit.Record, 0, len(ws))
	for _, w := range ws {
		if !w.intended {
			rs = append(rs, s.intentRecord(w))
		}
	}
	if len(rs) == 0 {
		return ws, nil
	}
	if err := s.mayStart(); err != nil {
		return nil, err
	}
	if err := s.record(ctx, rs...); err != nil {
		return nil, err
	}
	for _, w := range ws {
		w.intended = true
	}
	return ws, nil
}

// change is step 4: the row becomes this run's, or the item stops.
func (s *session) change(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.3.intended")
	ws, err := s.withoutMove(ctx, ws)
	if err != nil {
		return nil, err
	}
	if !s.writable() {
		return ws, nil
	}
	var cs []ledger.Change
	var moved []*work
	for _, w := range ws {
		c, ok := changeOf(w.item, s.run, w.action)
		if w.queued || !ok {
			continue
		}
		c.Actor, c.Unread = s.Actor.Name, true
		cs, moved = append(cs, w.newRow(c)), append(moved, w)
	}
	rs, err := s.apply(ctx, cs)
	if err != nil {
		return nil, err
	}
	stop := map[*work]ItemEnd{}
	for i, r := range rs {
		switch r.Outcome {
		case ledger.Won:
			moved[i].queued = true
		case ledger.Lost:
			stop[moved[i]] = ItemEnd{endSkipped, "ledger_lost"}
		default:
			stop[moved[i]] = ItemEnd{endUnknown, "ledger"}
		}
	}
	return s.drop(ctx, ws, stop)
}

// apply makes the changes and reads back what was not clearly won: a row that
// this run queued was won, whatever became of the reply.
func (s *session) apply(ctx context.Context, cs []ledger.Change) ([]ledger.Result, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	rs, err := s.together.apply.call(ctx, cs)
	for i := range rs {
		if rs[i].Outcome == ledger.Won {
			continue
		}
		l := s.Ledger.Get(ctx, []ledger.Key{cs[i].Key})[0]
		if l.Found == ledger.Present && achieved(cs[i], l.Row) && s.rowInPlace(ctx, cs[i]) {
			rs[i].Outcome = ledger.Won
		}
	}
	return rs, err
}

func (s *session) applyAll(ctx context.Context, cs []ledger.Change) ([]ledger.Result, error) {
	var rs []ledger.Result
	for part := range slices.Chunk(cs, atLeast(s.Ledger.Capabilities().MaxBatch, len(cs))) {
		if err := s.lease.check(ctx); err != nil {
			return nil, err
		}
		rs = append(rs, s.Ledger.Apply(ctx, part)...)
	}
	return rs, nil
}

// publish is step 5, at the rate: all of a batch at once, unless the rate has
// become less than that meanwhile.
func (s *session) publish(ctx context.Context, ws []*work) ([]*work, error) {
	crash.At("run.4.queued")
	var on []*work
	for len(ws) > 0 {
		n, over, err := ws[0].turn.begin(ctx, len(ws))
		if err != nil {
			return nil, err
		}
		part, err := s.publishNow(ctx, ws[:n], over)
		over()
		if err != nil {
			return nil, err
		}
		on, ws = append(on, part...), ws[n:]
	}
	return on, nil
}

// publishNow has its outcomes in the log before anything is acknowledged. It calls
// over when nothing more is sent.
func (s *session) publishNow(ctx context.Context, ws []*work, over func()) ([]*work, error) {
	ws, err := s.extend(ctx, ws)
	if err != nil {
		return nil, err
	}
	if ws, err = s.dropExpired(ctx, ws); err != nil {
		return nil, err
	}
	var send []*work
	for _, w := range ws {
		if !w.published && w.action == reconcile.Redrive {
			send = append(send, w)
		}
	}
	if len(send) == 0 {
		return ws, nil
	}
	if err := s.lease.check(ctx); err != nil {
		return nil, err
	}
	rs := s.send(ctx, send)
	over()
	crash.At("run.5.published")
	recs := make([]audit.Record, len(send))
	for i, w := range send {
		recs[i] = s.outcomeRecord(w, audit.StepPublish, rs[i])
	}
	if err := s.record(ctx, recs...); err != nil {
		return nil, err
	}
	stop := map[*work]ItemEnd{}
	for i, w := range send {
		s.breaker.sent(w, rs[i])
		if rs[i].Outcome == broker.Done {
			w.published = true
			continue
		}
		stop[w] = s.unsent(w, rs[i])
	}
	return s.drop(ctx, ws, stop)
}

// dropExpired stops what an expired plan may not do any more: publish, and take
// a discarded copy away. What was published or has had its effect goes on.
func (s *session) dropExpired(ctx context.Context, ws []*work) ([]*work, error) {
	if s.mayStart() == nil {
		return ws, nil
	}
	stop := map[*work]ItemEnd{}
	for _, w := range ws {
		if !w.published && w.action != reconcile.Settle {
			stop[w] = ItemEnd{endSkipped, "expired"}
		}
	}
	return s.drop(ctx, ws, stop)
}

// unsent is how an item ends whose publish was not done. One that the broker
// asked to slow down for stays open: its intent and its row stand, so it is
// sent by a later batch at the lower rate. So does one that the broker does not
// permit, where resume may send it; the run ends.
func (s *session) unsent(w *work, r broker.Result) ItemEnd {
	switch {
	case r.Outcome == broker.Unknown:
		return ItemEnd{endUnknown, "publish"}
	case errors.Is(r.Err, broker.ErrThrottled) && s.again(w):
		return ItemEnd{}
	case s.deny("send to "+w.item.Destination, r) && s.resumable(w) && s.again(w):
		return ItemEnd{}
	default:
		return ItemEnd{endFailed, "publish_refused"}
	}
}

// mayStart refuses what is new once the plan has expired.
func (s *session) mayStart() error {
	if now := s.Now(); !now.Before(s.plan.ExpiresAt) {
		return &StoppedError{Why: "expired", At: s.plan.ExpiresAt}
	}
	return nil
}

// StoppedError says why a run ended before its plan was done, by its own rules.
type StoppedError struct {
	Why    string // "expired", "revoked", "aborted", "gate_failed", "policy changed", …
	At     time.Time
	By     string // who aborted it
	Reason string // and why; of a gate what it found
}

func (e *StoppedError) Error() string {
	if e.By != "" {
		return fmt.Sprintf("run stopped: %s by %s at %s: %s", e.Why, e.By, stamp(e.At), e.Reason)
	}
	if e.Gate() {
		return fmt.Sprintf("run stopped: its gate failed at %s: %s", stamp(e.At), e.Reason)
	}
	return fmt.Sprintf("run stopped: %s at %s", e.Why, stamp(e.At))
}

// Aborted reports that a person ended the run.
func (e *StoppedError) Aborted() bool { return e.Why == whyAborted }

// Gate reports that the canary did not meet the thresholds.
func (e *StoppedError) Gate() bool { return e.Why == whyGateFailed }

// Is makes a StoppedError a refusal, or one of the gate.
func (e *StoppedError) Is(target error) bool {
	return target == ErrRefused || target == ErrGate && e.Gate()
}
