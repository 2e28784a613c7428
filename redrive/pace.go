package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
)

// stepSlowed is the step of the record that a run lowered its rate.
const stepSlowed = "slowed"

// detailEffective is the detail of that record which has the rate it came to.
const detailEffective = "effective_per_second"

// Who asks a run to slow down, as records name him.
const (
	slowedByBroker   = "broker"
	slowedByProvider = "provider" // as the ledger tells of it
)

// Pace is how fast a run may go, in jobs per second.
type Pace struct {
	Asked     float64 // the plan's rate, as a window of it is kept
	Effective float64 // what throttling leaves of it now
	Lowest    float64 // the least that it left
	Slowed    int     // how often it was lowered
	By        string  // who asked for that last: "broker" or "provider"
}

// pacer knows a run's pace, and what of it the store was told.
type pacer struct {
	limiter *limiter
	now     func() time.Time

	mu     sync.Mutex
	lowest float64
	slowed int
	by     string
	told   Pace
	at     time.Time
}

// newPacer begins as the store has the run's pace; the zero Pace: nothing.
func newPacer(l *limiter, now func() time.Time, last Pace) *pacer {
	p := &pacer{limiter: l, now: now, lowest: last.Lowest, slowed: last.Slowed, by: last.By, told: Pace{Slowed: last.Slowed}}
	if p.lowest == 0 {
		p.lowest = l.rate()
	}
	return p
}

// throttled lowers the rate because the broker or the provider asked for it.
func (p *pacer) throttled(by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.limiter.slow() {
		return
	}
	p.slowed++
	p.by, p.lowest = by, min(p.lowest, p.limiter.rate())
}

func (p *pacer) pace() Pace {
	return Pace{Asked: p.limiter.asked, Effective: p.limiter.rate(), Lowest: p.lowest, Slowed: p.slowed, By: p.by}
}

// tell hands over a pace that changed: at once where it was lowered, else no more
// than once a second, unless it is the last word. What could not be told is told
// the next time.
func (p *pacer) tell(last bool, to func(now, before Pace) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.pace()
	switch {
	case now == p.told:
		return nil
	case now.Slowed == p.told.Slowed && !last && p.now().Sub(p.at) < wishEvery:
		return nil
	}
	if err := to(now, p.told); err != nil {
		return err
	}
	p.told, p.at = now, p.now()
	return nil
}

// tellPace keeps the run's pace in the store, for whoever watches it from another
// terminal, with a record when it was lowered.
func (s *session) tellPace(ctx context.Context, last bool) error {
	return s.pacer.tell(last, func(now, before Pace) error {
		var rs []audit.Record
		if now.Slowed > before.Slowed {
			rs = append(rs, s.slowedRecord(now))
		}
		if err := s.Runs.SetPace(context.WithoutCancel(ctx), s.lease.current(), now, rs...); err != nil {
			return fmt.Errorf("keep the pace of run %s: %w", s.run, err)
		}
		if len(rs) > 0 && s.Slowed != nil {
			s.Slowed(now)
		}
		return nil
	})
}

func (s *session) slowedRecord(p Pace) audit.Record {
	rec := s.stepRecord(stepSlowed, "the "+p.By+" asks to slow down")
	rec.Details["asked_per_second"], rec.Details[detailEffective] = perSecond(p.Asked), perSecond(p.Effective)
	return rec
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'g', 6, 64) }

// heeding is a broker that is listened to: whichever call it throttles, throttled
// is told once.
type heeding struct {
	broker.Broker
	throttled func()
}

func (b *heeding) heed(rs []broker.Result) []broker.Result {
	if slices.ContainsFunc(rs, func(r broker.Result) bool { return errors.Is(r.Err, broker.ErrThrottled) }) {
		b.throttled()
	}
	return rs
}

func (b *heeding) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	ds, err := b.Broker.Receive(ctx, r)
	if errors.Is(err, broker.ErrThrottled) {
		b.throttled()
	}
	return ds, err
}

func (b *heeding) Publish(ctx context.Context, destination string, ms []broker.Outgoing) []broker.Result {
	return b.heed(b.Broker.Publish(ctx, destination, ms))
}

func (b *heeding) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return b.heed(b.Broker.Ack(ctx, ds))
}

func (b *heeding) Extend(ctx context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	return b.heed(b.Broker.Extend(ctx, ds, lease))
}

func (b *heeding) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return b.heed(b.Broker.Release(ctx, ds))
}
