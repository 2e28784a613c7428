package redrive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Bounds of a circuit breaker.
const (
	breakerWindow = 100 // redrives that it judges by, the latest of which the end is known
	breakerOpen   = 200 // redrives without an outcome that it looks at; others pass unseen meanwhile
	breakerMet    = 1000
)

// breaker is the circuit breaker of a run's bulk phase. It watches what becomes of
// the redrives, a bounded number at a time, and trips where the latest of them break
// a threshold of the plan, however the rest of its window will end. What it watched
// is not kept: each start of a run begins with an empty window.
type breaker struct {
	s    *session
	size int    // of the window; fewer where the bulk has fewer redrives
	kind string // what tells of outcomes: GateLedger or GateDLQOnly
	t    Thresholds

	mu    sync.Mutex
	fresh []*canaryJob     // sent since the last look
	met   []broker.Message // dead copies that are not the plan's, received since
	open  int              // redrives without an outcome

	look sync.Mutex // held by whoever looks
	o    *observer  // of the window, the latest last, and then of what is open
	next time.Time  // no look before
}

// trippedError stands between two batches of a run whose breaker has tripped.
type trippedError struct {
	why     string
	figures Figures
}

func (e *trippedError) Error() string { return "the circuit breaker tripped: " + e.why }

// newBreaker is nil where the plan has no thresholds, or nothing to send. The nil
// breaker watches nothing and never trips.
func (s *session) newBreaker() *breaker {
	if s.plan.Thresholds == nil {
		return nil
	}
	bulk := s.plan.Items.Actions()[reconcile.Redrive] - s.plan.Canary
	if bulk <= 0 {
		return nil
	}
	b := &breaker{s: s, size: min(bulk, breakerWindow), kind: s.plan.Gate, t: *s.plan.Thresholds, o: &observer{s: s, seen: -1}}
	switch {
	case b.kind != GateNone:
	case s.Ledger != nil:
		b.kind = GateLedger
	default:
		b.kind = GateDLQOnly
	}
	return b
}

// sent watches a redrive that was handed to its destination, or perhaps. A job
// without a key is in no ledger that could tell of it.
func (b *breaker) sent(w *work, r broker.Result) {
	if b == nil || r.Outcome == broker.Refused || b.kind == GateLedger && w.item.JobKey == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open+len(b.fresh) >= breakerOpen {
		return
	}
	p := PublishedCopy{NewMessageID: r.NewMessageID, At: b.s.Now()}
	b.fresh = append(b.fresh, b.s.newCanaryJob(w.item, p))
}

// meet takes note of a dead copy that the run received and that is none of its
// plan's: on a broker where looking costs, that is how what came back is found.
func (b *breaker) meet(m broker.Message) {
	if b == nil || b.s.caps.FreePeek {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.met) < breakerMet {
		b.met = append(b.met, m)
	}
}

// ask is asked before every batch: it looks where a look is due, and is a
// trippedError once a threshold is broken. One batch looks for all.
func (b *breaker) ask(ctx context.Context) error {
	if b == nil || !b.look.TryLock() {
		return nil
	}
	defer b.look.Unlock()
	now := b.s.Now()
	if now.Before(b.next) {
		return nil
	}
	b.next = now.Add(shortestLook)
	f, err := b.figures(ctx)
	if err != nil {
		return err
	}
	if broken := f.trips(b.t, b.kind, b.size); len(broken) > 0 {
		return &trippedError{strings.Join(broken, "; "), f}
	}
	return nil
}

// figures looks, and counts what the window holds. A ledger or a queue that does not
// answer leaves outcomes open.
func (b *breaker) figures(ctx context.Context) (Figures, error) {
	b.takeFresh()
	if b.kind == GateLedger {
		if b.o.offset == nil {
			b.o.offset = b.s.clockOffset(ctx)
		}
		b.o.readRows(ctx)
	}
	if b.s.caps.FreePeek && len(b.o.jobs) > 0 {
		if err := b.o.lookAtQueue(ctx, false); err != nil {
			return Figures{}, err
		}
	}
	b.heed()
	return b.slide(), ctx.Err()
}

func (b *breaker) takeFresh() {
	b.mu.Lock()
	fresh, met := b.fresh, b.met
	b.fresh, b.met = nil, nil
	b.open += len(fresh)
	b.mu.Unlock()
	b.o.jobs = append(b.o.jobs, fresh...)
	if len(met) == 0 || len(b.o.jobs) == 0 {
		return
	}
	see := b.o.meet(b.o.jobs[0].publishedAt)
	for _, m := range met {
		_ = see(m) // it never fails
	}
}

// heed lowers the rate where the provider throttles. What it throttled is answered
// by that and leaves the watch, so that nothing trips as long as the rate can go
// lower; what it throttles at the lowest rate stays and counts.
func (b *breaker) heed() {
	var rest []*canaryJob
	lowest, news := b.s.limiter.lowest(), false
	for _, c := range b.o.jobs {
		news = news || c.throttled && !c.heeded
		if c.heeded = c.throttled; !c.throttled || lowest {
			rest = append(rest, c)
		}
	}
	if news {
		b.s.pacer.throttled(slowedByProvider)
	}
	b.o.jobs = rest
}

// slide keeps the latest of what is known, before what is open, and counts them.
func (b *breaker) slide() Figures {
	var known, open []*canaryJob
	now, late := b.s.Now(), 0
	for _, c := range b.o.jobs {
		if b.isKnown(c, now) {
			known = append(known, c)
		} else {
			open = append(open, c)
		}
	}
	known = known[max(0, len(known)-b.size):]
	for _, c := range known {
		if !c.ended() {
			late++
		}
		if c.publishedAt.After(b.o.last) {
			b.o.last = c.publishedAt
		}
	}
	b.o.jobs = known
	f := b.o.figures()
	f.Window, f.Late, f.Pending = b.size, late, 0
	b.o.jobs = append(known, open...)
	b.mu.Lock()
	b.open = len(open)
	b.mu.Unlock()
	return f
}

// ended reports that the redrive has an outcome.
func (c *canaryJob) ended() bool { return c.sent || c.failed || c.returned }

// isKnown reports that the end of a redrive is known, or should be by now. Where
// nothing but the dead-letter queue tells, that is so when it was handed over.
func (b *breaker) isKnown(c *canaryJob, now time.Time) bool {
	return c.ended() || b.kind == GateDLQOnly || now.Sub(c.publishedAt) >= b.t.Observe()
}

// trips says which thresholds a window of that size breaks, however the redrives end
// that it has still room for.
func (f Figures) trips(t Thresholds, kind string, size int) []string {
	var broken []string
	hold := func(n int, what string, share float64, of int) {
		if float64(n) > share*float64(of)+tiny {
			broken = append(broken, fmt.Sprintf("%d of the last %d %s, and at most %s of %d may", n, f.Redrives, what, classify.FormatShare(share), of))
		}
	}
	if kind == GateLedger {
		hold(f.Redrives-f.Sent, "did not reach sent", 1-t.MinSuccess, size)
		hold(f.Throttled, "were throttled at the lowest rate", t.MaxThrottled, size)
	}
	hold(f.Returned, "came back", t.MaxReturned, size)
	if t.MaxP95Seconds > 0 && kind == GateLedger {
		hold(f.Slow, "took longer than "+seconds(t.MaxP95Seconds), 0.05, f.Sent+size-f.Redrives)
	}
	return broken
}

// mayGoOnBulk is asked before every batch of the bulk phase.
func (s *session) mayGoOnBulk(ctx context.Context) error {
	if err := s.mayGoOn(ctx); err != nil {
		return err
	}
	return s.breaker.ask(ctx)
}

// bulk carries the plan's items under the circuit breaker. Once it has tripped only
// a person lets the run go on, with a breaker that has seen nothing.
func (s *session) bulk(ctx context.Context) error {
	for {
		s.breaker = s.newBreaker()
		err := s.loop(ctx, nil, s.mayGoOnBulk)
		var tripped *trippedError
		if !errors.As(err, &tripped) {
			return err
		}
		if err := s.trip(ctx, tripped); err != nil {
			return err
		}
	}
}

// trip makes it durable that the breaker has tripped, and waits for a person as a
// gate does. Nothing of the queue is held meanwhile.
func (s *session) trip(ctx context.Context, e *trippedError) error {
	crash.At("breaker.1.tripped")
	s.forgetAside(context.WithoutCancel(ctx))
	g := GateState{
		Exists: true, Kind: s.breaker.kind, Thresholds: s.plan.Thresholds, Verdict: VerdictTripped, Why: e.why, Figures: e.figures, At: s.Now(),
	}
	if err := s.saveVerdict(ctx, g); err != nil {
		return err
	}
	crash.At("breaker.2.recorded")
	s.tell(s.breaker.o, g, false)
	return s.undecided(ctx, s.breaker.o)
}

// stillTripped holds a resumed run whose breaker has tripped and that nobody
// promoted.
func (s *session) stillTripped(ctx context.Context) error {
	if s.gate.Verdict != VerdictTripped || s.gate.Open() {
		return nil
	}
	return s.undecided(ctx, &observer{s: s, seen: -1})
}
