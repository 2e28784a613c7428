package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

// slowed are the records that the run lowered its rate, as "from whom: to what".
func (w *world) slowed() []string {
	w.t.Helper()
	var all []string
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run1", OldestFirst: true}, func(e audit.Entry) error {
		if r := e.Record; r.Step == "slowed" {
			all = append(all, r.Reason+": "+r.Details["effective_per_second"]+" of "+r.Details["asked_per_second"])
		}
		return nil
	}))
	return all
}

// throttling is a broker that asks to slow down at the first calls of each kind
// that it names.
type throttling struct {
	broker.Broker
	left map[string]int
}

func (b *throttling) now(call string) bool {
	b.left[call]--
	return b.left[call] >= 0
}

func refusedAll(n int) []broker.Result {
	return broker.All(n, broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("call: %w", broker.ErrThrottled)})
}

func (b *throttling) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	if b.now("receive") {
		return nil, fmt.Errorf("call: %w", broker.ErrThrottled)
	}
	return b.Broker.Receive(ctx, r)
}

func (b *throttling) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	if b.now("publish") {
		return refusedAll(len(ms))
	}
	return b.Broker.Publish(ctx, to, ms)
}

func (b *throttling) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	if b.now("ack") {
		return refusedAll(len(ds))
	}
	return b.Broker.Ack(ctx, ds)
}

// TestThrottled: whatever call the broker throttles, the rate is lowered and told,
// and the item goes out later under the same intent.
func TestThrottled(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"receive", "publish", "ack"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			r := w.runner("run1")
			r.Broker = &throttling{r.Broker, map[string]int{call: 2}}
			var told []redrive.Pace
			r.Slowed = func(p redrive.Pace) { told = append(told, p) }
			e, err := r.Run(w.ctx, string(id))
			w.must(err)
			if e.Report.Redriven != 1 || e.Pace.Slowed == 0 || e.Pace.Asked != 50 || e.Pace.Lowest >= 50 || e.RatePerSecond != e.Pace.Effective {
				t.Errorf("%+v, %+v", e.Report, e.Pace)
			}
			records := w.slowed()
			if len(records) != e.Pace.Slowed || len(told) != e.Pace.Slowed || records[0] != "the broker asks to slow down: 25 of 50" {
				t.Errorf("%q, told %+v", records, told)
			}
			if d := cmp.Diff(e.Pace, w.loaded().Pace); d != "" {
				t.Error(d)
			}
			w.work()
			if w.sends["k1"] != 1 {
				t.Errorf("%d effects", w.sends["k1"])
			}
		})
	}
}

// TestThrottledForever: a broker that never stops asking ends the run after a
// bounded time, with nothing sent.
func TestThrottledForever(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	r := w.runner("run1")
	r.Broker = &throttling{r.Broker, map[string]int{"receive": 1 << 30}}
	began := w.clock()
	e, err := r.Run(w.ctx, string(id))
	if took := w.clock().Sub(began); !errors.Is(err, broker.ErrThrottled) || e.State != redrive.RunFailed || took > 5*time.Minute || took < time.Minute {
		t.Errorf("%s after %s: %v", e.State, took, err)
	}
	if e.Report.Remaining != 1 {
		t.Errorf("%+v", e.Report)
	}
}

// TestPaceAfterResume: a run that had come down to a rate goes on at it, and not
// at the plan's, which was too fast.
func TestPaceAfterResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	r := w.runner("run1")
	r.Broker = &throttling{r.Broker, map[string]int{"publish": 2}}
	r.Slowed = func(redrive.Pace) { stop() }
	if _, err := r.Run(ctx, string(id)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	e, err := w.resume()
	w.must(err)
	if e.Pace.Lowest != 25 || e.Pace.Effective >= 50 || e.Pace.Slowed != 1 || e.Report.Redriven != 1 || len(w.slowed()) != 1 {
		t.Errorf("%+v, %+v, %q", e.Pace, e.Report, w.slowed())
	}
}

// TestRateOfRuns is promise 6 over whole runs: pauses, lost stores, interrupts and
// throttling in any order, each resumed at once, and in no second more than the
// plan's rate.
func TestRateOfRuns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &mishaps{world: newWorld(t), rand: rand.New(rand.NewPCG(seed, 7))}
			for i := range 16 {
				m.dead(fmt.Sprintf("k%02d", i))
			}
			rate := 1 + m.rand.IntN(9)
			id := m.plan(func(r *redrive.Request) { r.Rate = redrive.Rate(rate) })
			e, err := m.start(func(ctx context.Context, r *redrive.Runner) (redrive.Ended, error) { return r.Run(ctx, string(id)) })
			for n := 0; err != nil && n < 200; n++ {
				e, err = m.start(func(ctx context.Context, r *redrive.Runner) (redrive.Ended, error) { return r.Resume(ctx, "run1") })
			}
			if err != nil || !e.Report.Adds() || len(m.sent) < 8 {
				t.Fatalf("%+v, %d sent, %v", e.Report, len(m.sent), err)
			}
			slices.SortFunc(m.sent, time.Time.Compare)
			for i := rate; i < len(m.sent); i++ {
				if d := m.sent[i].Sub(m.sent[i-rate]); d <= time.Second {
					t.Fatalf("%d within %s at %d/s", rate+1, d, rate)
				}
			}
		})
	}
}

// mishaps is a world in which anything may befall a run at any call.
type mishaps struct {
	*world
	rand      *rand.Rand
	interrupt func()
	sent      []time.Time
}

func (m *mishaps) start(run func(context.Context, *redrive.Runner) (redrive.Ended, error)) (redrive.Ended, error) {
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	m.interrupt = stop
	m.fault = m.befalls
	r := m.runner("run1")
	r.Broker = &witness{r.Broker, m}
	r.Notice = func(wish redrive.Wish) {
		if wish.Kind == redrive.WishPause {
			m.takes(3 * time.Second)
			m.lifts()
		}
	}
	return run(ctx, r)
}

// takes passes any time up to d.
func (m *mishaps) takes(d time.Duration) { m.pass(time.Duration(m.rand.Int64N(int64(d)))) }

func (m *mishaps) befalls(call string) error {
	switch n := m.rand.IntN(24); {
	case n == 0:
		m.asks(redrive.WishPause)
	case n == 1:
		m.interrupt()
	case n == 2 && strings.HasPrefix(call, "log:"):
		return errFault
	case n == 3 && call == "publish":
		return errLost
	case n < 9 && call == "publish":
		return broker.ErrThrottled
	}
	return nil
}

// witness notes when copies were published, or may have been.
type witness struct {
	broker.Broker
	m *mishaps
}

func (b *witness) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	b.m.takes(1500 * time.Millisecond)
	at := b.m.clock()
	rs := b.Broker.Publish(ctx, to, ms)
	for _, r := range rs {
		if r.Outcome != broker.Refused {
			b.m.sent = append(b.m.sent, at)
		}
	}
	b.m.takes(1500 * time.Millisecond)
	return rs
}

// meeting is a broker of two workers. The first has its publish, its release and its
// acknowledgement throttled, a window apart, while the second receives, and then the
// run is stopped.
type meeting struct {
	throttling
	w        *world
	receives atomic.Int32
	both     chan struct{} // the second receives
	slow     chan struct{} // the rate is down
	stop     context.CancelFunc
}

func (b *meeting) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.MaxBatch = 5
	return c
}

func (b *meeting) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	if b.receives.Add(1) == 2 {
		close(b.both)
		<-b.slow
	}
	return b.Broker.Receive(ctx, r)
}

func (b *meeting) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	<-b.both
	if b.now("publish") {
		return append(refusedAll(1), b.Broker.Publish(ctx, to, ms[1:])...)
	}
	return b.Broker.Publish(ctx, to, ms)
}

func (b *meeting) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	if b.now("release") {
		b.w.pass(1100 * time.Millisecond)
		b.Broker.Release(ctx, ds)
		return refusedAll(len(ds))
	}
	return b.Broker.Release(ctx, ds)
}

func (b *meeting) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	if b.now("ack") {
		b.w.pass(1100 * time.Millisecond)
		defer close(b.slow)
		defer b.stop()
		return refusedAll(len(ds))
	}
	return b.Broker.Ack(ctx, ds)
}

// TestThrottledStops: a batch that was received before the rate went down begins no
// more than has a place at once, so that a stop need not wait for the rest of it.
func TestThrottledStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9")
	id := w.plan(func(r *redrive.Request) { r.Rate = 10 })
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	var stopped time.Time
	r := w.runner("run1")
	r.Broker = &meeting{
		throttling: throttling{r.Broker, map[string]int{"publish": 1, "release": 1, "ack": 1}}, w: w,
		both: make(chan struct{}), slow: make(chan struct{}), stop: func() { stopped = w.clock(); stop() },
	}
	r.Workers = 2
	e, err := r.Run(ctx, string(id))
	if !errors.Is(err, context.Canceled) || e.State != redrive.RunInterrupted || e.Pace.Slowed != 3 {
		t.Fatalf("%s, slowed %d times: %v", e.State, e.Pace.Slowed, err)
	}
	intents := 0
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run1", Phase: audit.Intent}, func(audit.Entry) error { intents++; return nil }))
	if took := w.clock().Sub(stopped); intents > 6 || took > time.Second {
		t.Errorf("%d jobs begun, and it took %s to stop", intents, took)
	}
	w.pass(time.Hour)
	e, err = w.runner("run1").Resume(w.ctx, "run1")
	w.must(err)
	if w.work(); e.Report.Redriven != 10 || len(w.sends) != 10 {
		t.Errorf("%+v, %d sent", e.Report, len(w.sends))
	}
}
