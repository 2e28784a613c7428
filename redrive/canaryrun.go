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
)

// Observation is one look at a canary, as Runner.Observing is told of it.
type Observation struct {
	Run       RunID
	Figures   Figures
	Until     time.Time // when outcomes are waited for no more
	LookCosts bool      // the look at the dead-letter queue will count as a receive
	Gate      GateState // zero: it is observed on
	Paused    bool      // the run waits for a person
}

// canary is the run's first phase: the sample goes out, the gate waits for what
// becomes of it, and only what the gate lets through returns without an error. It
// begins where an earlier start left off: what was sent is in the log, the time of
// observation runs from the last publish of it, and a verdict stands.
//
// A StoppedError of the gate ends the run for good; an UndecidedError leaves it
// paused.
func (s *session) canary(ctx context.Context) error {
	if s.plan.Canary == 0 || s.gate.Open() || s.gate.Verdict == VerdictTripped {
		return nil
	}
	if err := s.gate.stopped(); err != nil {
		return err
	}
	sample, err := sampleOf(s.plan, s.ordered)
	if err != nil {
		return err
	}
	if err := s.sendCanary(ctx, sample); err != nil {
		return err
	}
	o, err := s.newObserver(ctx, sample)
	if err != nil {
		return err
	}
	g, err := s.observe(ctx, o)
	if err != nil {
		return err
	}
	if err := s.saveVerdict(ctx, g); err != nil {
		return err
	}
	s.tell(o, g, false)
	switch g.Verdict {
	case VerdictPass:
		s.limiter.drain()
		return nil
	case VerdictFail:
		return g.stopped()
	default:
		return s.undecided(ctx, o)
	}
}

// recallGate takes up the verdict that an earlier start left.
func (s *session) recallGate(ctx context.Context) error {
	if s.plan.Thresholds == nil {
		return nil
	}
	g, err := s.Runs.Gate(ctx, s.run)
	if err != nil {
		return fmt.Errorf("gate of run %s: %w", s.run, err)
	}
	if g.Verdict != "" {
		s.gate = g
	}
	return nil
}

// sendCanary carries the sample, with what stands before it in its ordering
// groups, and closes what the queue does not yield. Then nothing of the queue is
// held while outcomes are waited for.
func (s *session) sendCanary(ctx context.Context, sample []int) error {
	set := s.withPredecessors(sample)
	if err := s.loop(ctx, set, s.mayGoOn); err != nil {
		return err
	}
	if err := s.gone(ctx, set, ItemEnd{endSkipped, s.missing(ctx)}); err != nil {
		return err
	}
	crash.At("gate.1.sent")
	s.forgetAside(context.WithoutCancel(ctx))
	return nil
}

// withPredecessors adds to a sample of an ordered queue the items that the queue
// yields before it: what is settled at the head of a group.
func (s *session) withPredecessors(sample []int) []int {
	if !s.ordered {
		return sample
	}
	last := map[int32]int{}
	for _, i := range sample {
		last[s.plan.Items.group(i)] = i
	}
	set := []int{}
	for i := range s.plan.Items.Len() {
		_, in := slices.BinarySearch(sample, i)
		if g := s.plan.Items.group(i); in || g != 0 && i < last[g] {
			set = append(set, i)
		}
	}
	return set
}

// observe looks again and again until the gate has a verdict. What ends or holds a
// run between two batches does so between two looks; the time of observation runs
// on while the run is paused.
func (s *session) observe(ctx context.Context, o *observer) (GateState, error) {
	throttled := 0
	for {
		over := !s.Now().Before(o.until)
		f, err := o.look(ctx, over)
		if err != nil {
			return GateState{}, err
		}
		if f.Throttled > throttled {
			throttled = f.Throttled
			s.pacer.throttled(slowedByProvider)
		}
		if v, why := judge(f, *s.plan.Thresholds, s.plan.Gate, over); v != "" {
			crash.At("gate.3.judged")
			g := s.gate
			g.Verdict, g.Why, g.Figures, g.At, g.Promoted = v, why, f, s.Now(), GatePromotion{}
			return g, nil
		}
		s.tell(o, GateState{Figures: f}, false)
		crash.At("gate.2.observing")
		if err := s.Sleep(ctx, min(o.every, max(o.until.Sub(s.Now()), time.Millisecond))); err != nil {
			return GateState{}, err
		}
		if err := s.between(ctx); err != nil {
			return GateState{}, err
		}
	}
}

// between is asked between two looks: a pause holds here.
func (s *session) between(ctx context.Context) error {
	var paused *pausedError
	if err := s.mayGoOn(ctx); !errors.As(err, &paused) {
		return err
	}
	return s.pause(ctx, paused.wish, s.mayGoOn)
}

func (s *session) tell(o *observer, g GateState, paused bool) {
	if s.Observing == nil {
		return
	}
	n := Observation{Run: s.run, Figures: g.Figures, Until: o.until, LookCosts: !s.caps.FreePeek, Paused: paused}
	if g.Verdict != "" {
		n.Gate = g
	}
	s.Observing(n)
}

// saveVerdict makes the verdict durable; from then on it stands for every later
// start of the run.
func (s *session) saveVerdict(ctx context.Context, g GateState) error {
	rec, err := s.verdictRecord(g)
	if err != nil {
		return err
	}
	if err := s.lease.check(ctx); err != nil {
		return err
	}
	if err := s.Runs.SaveVerdict(context.WithoutCancel(ctx), s.lease.current(), rec); err != nil {
		return fmt.Errorf("record the verdict of the gate of run %s: %w", s.run, err)
	}
	s.gate = g
	crash.At("gate.4.recorded")
	return nil
}

// undecided pauses the run for a person: it waits where it is to, and else ends as
// paused.
func (s *session) undecided(ctx context.Context, o *observer) error {
	if !s.WaitAtGate {
		return &UndecidedError{Run: s.run, Why: s.gate.Said()}
	}
	if err := s.setState(ctx, RunPaused, s.stepRecord(stepPaused, s.gate.Said())); err != nil {
		return err
	}
	s.tell(o, s.gate, true)
	crash.At("gate.5.paused")
	if err := s.untilPromoted(ctx); err != nil {
		return err
	}
	if err := s.setState(ctx, RunRunning, s.stepRecord(stepContinued, "")); err != nil {
		return err
	}
	s.tell(o, s.gate, false)
	crash.At("gate.6.promoted")
	s.limiter.drain()
	return nil
}

// untilPromoted waits for a person to let the run go on. A pause that is asked for
// meanwhile holds it afterwards; whatever ends a run ends it here too.
func (s *session) untilPromoted(ctx context.Context) error {
	for {
		if err := s.Sleep(ctx, wishEvery); err != nil {
			return err
		}
		if err := s.mayGoOn(ctx); err != nil && !isPaused(err) {
			return err
		}
		g, err := s.Runs.Gate(ctx, s.run)
		if err != nil {
			return fmt.Errorf("gate of run %s: %w", s.run, err)
		}
		if g.Open() {
			s.gate = g
			return nil
		}
	}
}

// handedOver are the sample's items whose publish is on record, as done or perhaps
// done, or of which no more than the intent is: a process that died may have
// published them, and their rows will tell. Where nothing but the dead-letter queue
// tells, the publish must have been done.
func (s *session) handedOver(ctx context.Context, sample []int) ([]*canaryJob, error) {
	ps, err := s.Runs.Publishes(ctx, s.run)
	if err != nil {
		return nil, fmt.Errorf("publishes of run %s: %w", s.run, err)
	}
	last := map[string]PublishedCopy{}
	for _, p := range ps {
		if p.Result == audit.ResultRefused {
			delete(last, p.Copy)
		} else if p.Result == audit.ResultDone || s.plan.Gate == GateLedger && last[p.Copy].Result != audit.ResultDone {
			last[p.Copy] = p
		}
	}
	var cs []*canaryJob
	for _, i := range sample {
		it, err := s.plan.Items.At(i)
		if err != nil {
			return nil, err
		}
		if p, ok := last[it.Copy.String()]; ok {
			cs = append(cs, s.newCanaryJob(it, p))
		}
	}
	return cs, nil
}

// returnsWithin is how long a destination of the sample tries before it
// dead-letters a copy by itself, or why nobody can say.
func (s *session) returnsWithin(ctx context.Context, sample []int) (time.Duration, string) {
	b, ok := s.Runner.Broker.(broker.Retrier) // the session hears its calls, and forwards no others
	if !ok {
		return 0, "the broker cannot say how long a destination tries a copy"
	}
	var longest time.Duration
	asked := map[string]bool{}
	for _, i := range sample {
		it, err := s.plan.Items.At(i)
		if err != nil {
			return 0, err.Error()
		}
		to := it.Destination
		if asked[to] {
			continue
		}
		asked[to] = true
		d, err := b.RetriesFor(ctx, to)
		if err != nil {
			return 0, fmt.Sprintf("how long %s tries a copy: %v", to, err)
		}
		longest = max(longest, d)
	}
	return longest, ""
}
