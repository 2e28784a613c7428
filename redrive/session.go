package redrive

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// actionRun is the Action of the records about a run as a whole.
const actionRun = "run"

// Steps of the records that begin and end a session of a run.
const (
	stepStart  = "start"
	stepResume = "resume"
	stepEnd    = "end"
)

// entry is where an item with an open intent goes on.
type entry struct {
	intended, queued, published bool
	settle                      bool // the effect is proven: take the copy off with its archive
	doubt                       bool // it may have been published, and no record says so
	again                       int  // how often it went back for a later batch
}

// session is one start of one run: what begin or resume made, until it ends.
type session struct {
	*Runner
	id      PlanID
	plan    Frozen
	run     RunID
	Broker  broker.Broker // the runner's, which is heard when it asks to slow down
	caps    broker.Capabilities
	ordered bool
	lease   *keeper
	tracker *tracker
	limiter *limiter
	pacer   *pacer
	glass   string    // why it goes without the approvals that it needs; empty: it does not
	breaker *breaker  // of the bulk phase; nil before it, and where nothing is judged
	editor  *Editor   // nil: the plan edits nothing, or its rule cannot be applied
	gate    GateState // changed by canary alone, while no batch is under way

	// together is what the batches under way ask as one.
	together struct {
		assess    gather[job.Job, reconcile.Assessed]
		apply     gather[ledger.Change, ledger.Result]
		permit    gather[struct{}, struct{}]
		published gather[Identity, Published]
	}

	mu      sync.Mutex
	denied  *DeniedError // ends the run before the next batch
	aside   map[broker.CopyID]broker.Delivery
	entries map[int]entry
	met     map[broker.CopyID]bool // every copy that was held aside, ever
}

func (r *Runner) newSession(p Frozen, l Lease, ends map[string]ItemEnd, last Pace) *session {
	rate, err := ParseRate(p.RatePerSecond)
	if err != nil {
		rate = 1e-6 // checked before; never faster than stated
	}
	caps := r.Broker.Capabilities()
	var editor *Editor
	if p.Lifts.Edit != nil {
		if editor, err = NewEditor(p.Lifts.Edit, r.Decode); err != nil {
			editor = nil // checked before; without it every edit is skipped
		}
	}
	s := &session{
		Runner: r, id: p.ID, plan: p, run: l.Run, caps: caps,
		ordered: caps.Ordered && !p.Lifts.BreakOrder && p.Items.grouped(),
		lease:   &keeper{runs: r.Runs, now: r.Now, ttl: r.LeaseTTL, lease: l},
		tracker: newTracker(p.Items, ends),
		limiter: newLimiter(rate, last.Effective, r.Now, r.Sleep),
		editor:  editor,
		aside:   map[broker.CopyID]broker.Delivery{},
		entries: map[int]entry{},
		met:     map[broker.CopyID]bool{},
		gate:    GateState{Exists: p.Canary > 0, Kind: p.Gate, Thresholds: p.Thresholds},
	}
	s.pacer = newPacer(s.limiter, r.Now, last)
	s.Broker = &heeding{r.Broker, func() { s.pacer.throttled(slowedByBroker) }}
	s.together.assess.do, s.together.apply.do = s.assessAll, s.applyAll
	s.together.permit.do, s.together.published.do = s.permitAll, s.publishedAll
	return s
}

// rest runs what is open, the canary first, and closes what the queue no longer
// yields.
func (s *session) rest(ctx context.Context) error {
	if err := s.canary(ctx); err != nil {
		return err
	}
	if err := s.bulk(ctx); err != nil {
		return err
	}
	return s.gone(ctx, nil, ItemEnd{endSkipped, s.missing(ctx)})
}

// loop works on a set of items (nil: all) until all are closed or nothing new
// comes. A pause that the guard finds holds it between two batches.
func (s *session) loop(ctx context.Context, set []int, guard func(context.Context) error) error {
	for {
		var paused *pausedError
		if err := s.sweep(ctx, set, guard); !errors.As(err, &paused) {
			return err
		}
		if err := s.pause(ctx, paused.wish, guard); err != nil {
			return err
		}
	}
}

// sweep is the loop up to a pause. It returns when no batch is under way; a
// failure of one outweighs a pause that another found.
func (s *session) sweep(ctx context.Context, set []int, guard func(context.Context) error) error {
	workers := max(s.Workers, 1)
	if s.ordered {
		workers = 1
	}
	var failed firstError
	p := s.newPatience()
	g, ctx2 := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { return failed.note(s.worker(ctx2, set, guard, p)) })
	}
	err := g.Wait()
	switch denied := s.notDenied(); {
	case isPaused(err) && failed.err != nil:
		return failed.err
	case denied != nil && (err == nil || isPaused(err)):
		return denied
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(err, context.Canceled):
		return ctx.Err()
	default:
		return err
	}
}

func (s *session) worker(ctx context.Context, set []int, guard func(context.Context) error, p *patience) error {
	failures, refusals := 0, 0 // receives in a row that failed, and that were asked to slow down
	for !p.over() {
		open, held := s.tracker.left(set)
		if open == 0 {
			return nil
		}
		came, err := s.once(ctx, set, open, guard)
		if err == nil {
			failures, refusals = 0, 0
		}
		var failed *receiveError
		wait := s.EmptyWait
		switch {
		case errors.As(err, &failed) && errors.Is(err, broker.ErrThrottled) && refusals < maxThrottledReceives:
			wait = min(wait<<refusals, slowestReceive)
			refusals++
		case errors.As(err, &failed) && failures+1 < s.EmptyTries && !errors.Is(err, broker.ErrNoQueue) && !errors.Is(err, broker.ErrDenied):
			failures++
		case err != nil:
			return err
		case came == much:
			p.renew()
			continue
		case came == others:
			s.metOthers(ctx, p, held)
			continue
		case held > 0: // another batch has what is open
		case p.waited() <= s.deliveryLease() && s.mayReturn(ctx):
		default:
			p.miss()
		}
		if err := s.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// A receive that the broker throttles is tried again after waits that double up to
// slowestReceive: a run that does as it is asked does not fail for it at once.
const (
	maxThrottledReceives = 10
	slowestReceive       = 10 * time.Second
)

// mayReturn reports that copies may still be under the lease of a reader that is
// gone, such as the process that this one resumes: they become visible when it
// ends, so nothing counts as gone before.
func (s *session) mayReturn(ctx context.Context) bool {
	d, err := s.Broker.Describe(ctx)
	return err != nil || !d.Depth.Exact || d.Depth.InFlight > int64(s.asideCount())
}

// metOthers counts a receive that brought none of the plan's copies, though others,
// where nobody else may have what is open. If copies are still visible, these were
// in front of it; if none is, they have only just died.
func (s *session) metOthers(ctx context.Context, p *patience, held int) {
	if held > 0 || p.waited() <= s.deliveryLease() {
		return
	}
	if d, err := s.Broker.Describe(ctx); err == nil && d.Depth.Visible == 0 {
		p.miss()
	}
}

// missing is why the queue did not yield an item: it is gone where that is
// certain, else only not received.
func (s *session) missing(ctx context.Context) string {
	d, err := s.Broker.Describe(ctx)
	if err == nil && d.Depth.Exact && (s.caps.SelectiveReceive || d.Depth.Total() <= int64(s.asideCount())) {
		return "gone"
	}
	return "not_received"
}

func (s *session) asideCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.aside)
}

// once waits for its share of the rate, asks whether the run may go on, and
// carries one batch. The batch itself is not cut short when ctx ends.
func (s *session) once(ctx context.Context, set []int, open int, guard func(context.Context) error) (arrival, error) {
	t, err := s.limiter.turn(ctx, min(open, atLeast(s.caps.MaxBatch, open)), guard)
	if err != nil {
		return nothing, err
	}
	defer t.leave()
	if err := guard(ctx); err != nil {
		return nothing, err
	}
	came, err := s.batch(context.WithoutCancel(ctx), set, t)
	if s.Progress != nil {
		s.Progress(s.tracker.report())
	}
	if err == nil {
		err = s.tellPace(ctx, false)
	}
	return came, err
}

// batch receives once and carries what it got, wave by wave.
func (s *session) batch(ctx context.Context, set []int, t *turn) (arrival, error) {
	s.keepAside(ctx)
	ws, came, err := s.receive(ctx, set, t.ahead)
	if err != nil {
		return nothing, err
	}
	for _, w := range ws {
		w.turn = t
	}
	waves := s.waves(ws)
	for i, wave := range waves {
		if err := s.carry(ctx, wave); err != nil {
			s.leave(ws)
			return came, err
		}
		if s.ordered && s.reopened(wave) || s.notDenied() != nil {
			for _, w := range waves[i+1:] {
				s.giveBack(ctx, w...)
			}
			break
		}
	}
	return came, nil
}

// reopened reports that an item of the wave waits for another batch, so that
// nothing behind it may go first.
func (s *session) reopened(wave []*work) bool {
	for _, w := range wave {
		if s.tracker.isOpen(w.index) {
			return true
		}
	}
	return false
}

// leave notes what a run that stops leaves behind: an item with an intent is
// unknown until resume, the others were not touched.
func (s *session) leave(ws []*work) {
	for _, w := range ws {
		if !s.tracker.isOpen(w.index) {
			continue
		}
		if w.intended {
			s.tracker.end(w.index, ItemEnd{endUnknown, "stopped"})
		}
		s.setAside(w.delivery)
	}
}

// mayGoOn is asked before every batch: the lease, the clock, the approvals.
func (s *session) mayGoOn(ctx context.Context) error {
	if err := s.mayHold(ctx); err != nil {
		return err
	}
	return s.permitted(ctx)
}

// mayHold asks for what even acknowledging needs.
func (s *session) mayHold(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.notDenied(); err != nil {
		return err
	}
	return s.lease.check(ctx)
}

// permitted reports, as a StoppedError, why nothing new may start, or, as a
// pausedError, that it may not now.
func (s *session) permitted(ctx context.Context) error {
	_, err := s.together.permit.call(ctx, nil)
	return err
}

func (s *session) permitAll(ctx context.Context, _ []struct{}) ([]struct{}, error) {
	return nil, s.permit(ctx)
}

func (s *session) permit(ctx context.Context) error {
	w, err := s.wish(ctx)
	if err != nil {
		return err
	}
	if err := w.aborted(); err != nil {
		return err
	}
	if err := s.gate.stopped(); err != nil {
		return err
	}
	now, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	if why := s.changedSince(s.plan.Terms, now); why != "" {
		return &StoppedError{Why: why, At: s.Now()}
	}
	if err := s.mayStart(); err != nil {
		return err
	}
	as, err := s.Plans.Approvals(ctx, s.id)
	if err != nil {
		return fmt.Errorf("approvals of plan %s: %w", s.id, err)
	}
	if err := CheckApprovals(s.plan, as, s.Now(), s.Persons); err != nil {
		return &StoppedError{Why: s.stopWhy(as), At: s.Now()}
	}
	return w.paused()
}

func (s *session) stopWhy(as []Approval) string {
	if _, revoked := takenBack(s.id, as); revoked {
		return "revoked"
	}
	return "approval_expired"
}

// gone closes what the queue did not yield in several tries.
func (s *session) gone(ctx context.Context, set []int, e ItemEnd) error {
	var recs []audit.Record
	open := s.tracker.open(set, s.plan.Items.Len())
	defer s.tracker.asked(open)
	ends := make([]ItemEnd, len(open))
	for n, i := range open {
		ends[n] = s.blockedOr(i, e)
		if ends[n].Result == endUnknown && ends[n] != e {
			continue // its intent stays open
		}
		w, err := s.newWork(i, broker.Delivery{})
		if err != nil {
			return err
		}
		recs = append(recs, s.closeRecords(w, ends[n])...)
	}
	if err := s.lease.check(ctx); err != nil {
		return err
	}
	if err := s.record(ctx, recs...); err != nil {
		return err
	}
	crash.At("run.7.gone")
	for n, i := range open {
		s.tracker.end(i, ends[n])
	}
	return nil
}

// blockedOr: the copies behind one that was held aside do not come, and are not
// gone. An open intent among them stays open.
func (s *session) blockedOr(i int, e ItemEnd) ItemEnd {
	switch {
	case !s.ordered || !s.tracker.isBlocked(i):
		return e
	case e.Result == endUnknown:
		return ItemEnd{endUnknown, "order_blocked"}
	default:
		return ItemEnd{endSkipped, "order_blocked"}
	}
}

// record makes records durable under the lease, in one append. Outcomes that
// the log cannot take go to Orphans, so that they are not lost without a trace.
func (s *session) record(ctx context.Context, rs ...audit.Record) error {
	if len(rs) == 0 {
		return nil
	}
	_, err := s.Runs.Fenced(s.lease.current()).Append(ctx, rs...)
	if err == nil {
		return nil
	}
	var outcomes []audit.Record
	for _, r := range rs {
		if r.Phase == audit.Outcome {
			outcomes = append(outcomes, r)
		}
	}
	if len(outcomes) > 0 && s.Orphans != nil {
		s.Orphans(outcomes)
	}
	if !errors.Is(err, audit.ErrFenced) && !errors.Is(err, audit.ErrNotWritable) {
		err = fmt.Errorf("%w: %w", audit.ErrNotWritable, err)
	}
	return fmt.Errorf("record %d steps of run %s: %w", len(rs), s.run, err)
}

func (s *session) endRecord(state RunState, r Report) audit.Record {
	rec := s.stepRecord(stepEnd, "")
	rec.Result = string(state)
	skipped := 0
	for _, n := range r.Skipped {
		skipped += n
	}
	for name, n := range map[string]int{
		"planned": r.Planned, "redriven": r.Redriven, "settled": r.Settled, "discarded": r.Discarded, "skipped": skipped,
		"failed": r.Failed, "unknown": r.Unknown, "remaining": r.Remaining,
	} {
		rec.Details[name] = strconv.Itoa(n)
	}
	return rec
}

// writable reports that step 4 has a ledger to write.
func (s *session) writable() bool { return s.Ledger != nil && s.Ledger.Capabilities().Writable }
