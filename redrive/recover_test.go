package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// stop makes every call from the n-th on fail, as for a process that died
// there, except that what was begun at the broker or the ledger took place.
func stopAt(n int) func(string) error {
	return func(call string) error {
		n--
		switch {
		case n > 0:
			return nil
		case call == "publish" || call == "ack" || call == "ledger":
			return errLost
		default:
			return errFault
		}
	}
}

// TestNoSecondEffect is promise 1 and 2: wherever the process stops, whether
// the worker is fast or slow, after resume no job had two effects and none is
// lost.
func TestNoSecondEffect(t *testing.T) {
	t.Parallel()
	for _, worker := range []bool{true, false} {
		for n := 1; n <= 12; n++ {
			t.Run(fmt.Sprintf("worker %v call %d", worker, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.dead("k1", "k2", "k3")
				w.copy("k4", "")
				w.row("k4", ledger.Sent)
				id := w.plan(func(r *redrive.Request) { r.Rate = 2 })
				w.fault = stopAt(n)
				_, err := w.run(id)
				w.fault = nil
				if worker {
					w.work()
				}
				w.pass(65 * time.Minute)
				if err != nil {
					_, err = w.resume()
					w.must(err)
				}
				w.work()
				for _, k := range []string{"k1", "k2", "k3"} {
					if w.sends[k] > 1 {
						t.Errorf("%s had %d effects", k, w.sends[k])
					}
				}
				if sent, left := len(w.sends), w.depth("dlq"); sent+left < 3 || w.depth("src") != 0 {
					t.Errorf("%d sent, %d dead, %d in the source", sent, left, w.depth("src"))
				}
				if w.sends["k4"] != 0 {
					t.Error("a committed job was sent")
				}
			})
		}
	}
}

// TestRough runs against a broker that hands out anything in any order, hides
// what there is and loses replies.
func TestRough(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var keys []string
			for i := range 30 {
				keys = append(keys, fmt.Sprintf("k%02d", i))
			}
			w.dead(keys...)
			w.copy("other", "") // no row: held, and never touched
			o := brokertest.Roughest(seed)
			o.Fault = func(op brokertest.Op, i int) brokertest.Fault {
				if op == brokertest.OpPublish && i%7 == int(seed)%7 {
					return brokertest.ReplyLost
				}
				if op == brokertest.OpPublish && i%11 == 3 {
					return brokertest.RequestLost
				}
				if op == brokertest.OpAck && i%9 == 4 {
					return brokertest.ReplyLost
				}
				return brokertest.NoFault
			}
			id := w.plan(func(r *redrive.Request) { r.Expires = 24 * time.Hour })
			w.broker = brokertest.Rough(w.broker, o)
			e, err := w.run(id)
			w.must(err)
			for tries := 0; e.State == redrive.RunInterrupted && tries < 20; tries++ {
				w.work()
				w.pass(11 * time.Minute)
				e, err = w.resume()
				w.must(err)
			}
			w.work()
			if e.State != redrive.RunFinished {
				t.Errorf("%s: %+v", e.State, e.Report)
			}
			for _, k := range keys {
				if w.sends[k] > 1 {
					t.Errorf("%s had %d effects", k, w.sends[k])
				}
			}
			w.pass(11 * time.Minute)
			if got := len(w.sends) + w.depth("dlq") - 1; got < 30 {
				t.Errorf("%d jobs accounted for", got)
			}
			if w.sends["other"] != 0 {
				t.Error("a job outside the plan was sent")
			}
		})
	}
}

// TestWithoutLedger: step 4 falls away; a lost publish reply is held, or, where
// effects are declared idempotent, published again and named.
func TestWithoutLedger(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{false, true} {
		t.Run(fmt.Sprint(idempotent), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noLedger = true
			if idempotent {
				w.class.Effect = "unknown"
			}
			w.dead("k1")
			id := w.plan(func(r *redrive.Request) { r.Lifts.EffectsByFlag = idempotent })
			w.fault = func(call string) error {
				if call == "log:publish" {
					return errFault
				}
				return nil
			}
			_, err := w.run(id)
			if !errors.Is(err, audit.ErrNotWritable) {
				t.Fatal(err)
			}
			w.reset()
			e, err := w.resume()
			w.must(err)
			want := report(1, func(r *redrive.Report) { r.Skipped["publish_unknown"] = 1 })
			if idempotent {
				want = report(1, func(r *redrive.Report) { r.Redriven = 1 })
			}
			if d := cmp.Diff(want, e.Report); d != "" || e.State != redrive.RunFinished {
				t.Error(e.State, d)
			}
			// What may have been published needs its own tier the next time.
			w.pass(11 * time.Minute)
			_, err = w.planner().Draft(w.ctx, w.request())
			var empty *redrive.EmptyError
			if !errors.As(err, &empty) {
				t.Fatalf("%v", err)
			}
			if !idempotent && (len(empty.Held) != 1 || empty.Held[0].Why != "published_before") {
				t.Errorf("held %+v", empty.Held)
			}
		})
	}
}

// TestReadOnlyLedger: a claimable row is redriven without a change, a committed
// one settles.
func TestReadOnlyLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	w.copy("k2", "")
	w.row("k2", ledger.Sent)
	w.readOnly = true
	id := w.plan()
	w.reset()
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff(report(2, func(r *redrive.Report) { r.Redriven, r.Settled = 1, 1 }), e.Report); d != "" {
		t.Error(d)
	}
	if got, want := w.trace(), "archive log:intent publish log:publish ack log:ack"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	if w.state("k1") != "failed 1" {
		t.Error(w.state("k1"))
	}
}

// TestOrderOfGroups: of one group a later job never goes before an earlier one,
// also when the earlier one fails, throttles or changed.
func TestOrderOfGroups(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault func(w *world) func(string) error
		want  []string // published, per group in order
		skip  map[string]int
	}{
		{"all well", func(*world) func(string) error { return nil }, []string{"a1", "a2", "a3"}, map[string]int{}},
		{"first refused", func(*world) func(string) error { return failAt("publish", 1) }, nil, map[string]int{"order_blocked": 2}},
		{"first throttled", func(*world) func(string) error {
			n := 0
			return func(call string) error {
				if n++; call == "publish" && n < 5 {
					return broker.ErrThrottled
				}
				return nil
			}
		}, []string{"a1", "a2", "a3"}, map[string]int{}},
		{"second's reply lost", func(*world) func(string) error {
			n := 0
			return func(call string) error {
				if call == "publish" {
					if n++; n == 2 {
						return errLost
					}
				}
				return nil
			}
		}, []string{"a1", "a2"}, map[string]int{"order_blocked": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(w.queues.CreateQueue(w.ctx, orderedQueue("dlq.fifo")))
			w.must(w.queues.CreateQueue(w.ctx, orderedQueue("src.fifo")))
			for _, k := range []string{"a1", "a2", "a3"} {
				w.copyTo("dlq.fifo", k, "a")
				w.row(k, ledger.Failed)
			}
			w.broker = w.queues.Queue("dlq.fifo")
			id := w.plan(func(r *redrive.Request) { r.Queue.Destination = "src.fifo" })
			w.fault = tt.fault(w)
			e, err := w.run(id)
			w.must(err)
			var got []string
			_, err = w.queues.Queue("src.fifo").Browse(w.ctx, 0, func(m broker.Message) error {
				got = append(got, decode(m).JobKey)
				return nil
			})
			w.must(err)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if e.State == redrive.RunInterrupted {
				w.fault = nil
				if e, err = w.resume(); err != nil || e.Report.Unknown != 0 || e.Report.Redriven != len(tt.want) {
					t.Errorf("resumed: %+v, %v", e.Report, err)
				}
			}
			if d := cmp.Diff(tt.skip, e.Report.Skipped); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestBatchesInFlight: several batches at once lose and repeat nothing.
func TestBatchesInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		w.dead(fmt.Sprintf("k%02d", i))
	}
	id := w.plan(func(r *redrive.Request) { r.Rate = 1000 })
	r := w.runner("run1")
	r.Workers = 4
	r.Broker = &smallBatches{r.Broker}
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	w.work()
	if e.Report.Redriven != 40 || len(w.sends) != 40 {
		t.Errorf("%+v, %d sent", e.Report, len(w.sends))
	}
}

type smallBatches struct{ broker.Broker }

func (b *smallBatches) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.MaxBatch = 3
	return c
}

// TestCopyComesBack: what returns to the queue during a run is not taken again.
func TestCopyComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
	w.fault = func(call string) error {
		if call == "log:ack" {
			w.copy("k1", "")
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	if e.Report.Redriven != 2 || w.depth("src") != 2 {
		t.Errorf("%+v, %d in the source", e.Report, w.depth("src"))
	}
}

// TestSettleByVerdict: an accepted verdict moves the row with the run's ID.
func TestSettleByVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.copy("k1", "")
	w.row("k1", ledger.Fenced)
	w.must(w.store.SaveVerdicts(w.ctx, reconcile.Found{
		Queue: "dlq", JobKey: "k1", Attempt: 1, Verdict: reconcile.Accepted, At: w.clock(), EvidenceSHA256: "e",
		Evidence: reconcile.Evidence{RequestID: "req", Why: "found"},
	}))
	id := w.plan()
	w.reset()
	e, err := w.run(id)
	w.must(err)
	if e.Report.Settled != 1 || w.state("k1") != "reconciled 1" || w.trace() != "archive log:intent ledger ack log:ack" {
		t.Errorf("%+v %s %s", e.Report, w.state("k1"), w.trace())
	}
}

func (w *world) copyTo(queue, key, group string) {
	w.t.Helper()
	rs := w.queues.Queue(queue).Publish(w.ctx, queue, []broker.Outgoing{{Message: broker.Message{
		Body: []byte(key), OrderKey: group, Attributes: []broker.Attribute{{Name: "job_key", Type: "String", Value: []byte(key)}},
		System: []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1")}},
	}, DedupID: key}})
	w.must(rs[0].Err)
}

func orderedQueue(name string) local.QueueConfig { return local.QueueConfig{Name: name, Ordered: true} }

// TestReceiveFails: a receive that fails is tried again a few times, and then
// ends the run, which can be resumed.
func TestReceiveFails(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]redrive.RunState{2: redrive.RunFinished, 9: redrive.RunFailed} {
		w := newWorld(t)
		w.dead("k1")
		id := w.plan()
		r := w.runner("run1")
		r.Broker = &deafBroker{r.Broker, failures}
		e, err := r.Run(w.ctx, string(id))
		if e.State != want || (err == nil) != (want == redrive.RunFinished) {
			t.Errorf("%d failures: %s %v", failures, e.State, err)
		}
	}
}

type deafBroker struct {
	broker.Broker
	failures int
}

func (b *deafBroker) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	if b.failures > 0 {
		b.failures--
		return nil, errFault
	}
	return b.Broker.Receive(ctx, r)
}

// TestLeaseLostBeforeAck: a process that is suspended after the publish was
// recorded acknowledges nothing under a lease that has ended.
func TestLeaseLostBeforeAck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	w.reset()
	w.after = func(kinds string) {
		if kinds == "publish" {
			w.pass(90 * time.Minute)
		}
	}
	if _, err := w.run(id); !errors.Is(err, audit.ErrFenced) {
		t.Error(err)
	}
	if got, want := w.trace(), "log:intent ledger publish log:publish"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	w.after = nil
	e, err := w.resume()
	w.must(err)
	w.work()
	if e.Report.Redriven != 1 || w.sends["k1"] != 1 || w.depth("dlq") != 0 {
		t.Errorf("%+v, %d effects", e.Report, w.sends["k1"])
	}
}

// TestOtherReadersLease: a copy under the lease of a reader that is gone comes
// when that ends, and is not called gone before.
func TestOtherReadersLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	_, err := w.queues.Queue("dlq").Receive(w.ctx, broker.Request{Max: 1, Lease: 5 * time.Minute})
	w.must(err)
	e, err := w.run(id)
	w.must(err)
	if e.Report.Redriven != 1 {
		t.Errorf("%+v", e.Report)
	}
}

// inexact counts as SQS does.
type inexact struct{ broker.Broker }

func (b inexact) Describe(ctx context.Context) (broker.Description, error) {
	d, err := b.Broker.Describe(ctx)
	d.Depth.Exact = false
	return d, err
}

// TestGoneIsWaitedForOnce: the batches of a run wait together for a copy that does
// not come, and not one after the other.
func TestGoneIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan()
	ds, err := w.queues.Queue("dlq").Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
	w.must(err)
	w.must(w.queues.Queue("dlq").Ack(w.ctx, ds)[0].Err)
	r := w.runner("run1")
	r.Broker, r.Workers, r.LeaseTTL = inexact{r.Broker}, 8, 24*time.Hour
	var mu sync.Mutex
	var came time.Time // when the other copy was done
	r.Progress = func(p redrive.Report) {
		mu.Lock()
		defer mu.Unlock()
		if p.Redriven == 1 && came.IsZero() {
			came = w.clock()
		}
	}
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	waited := w.clock().Sub(came)
	// The other batches sleep on until they are told that something came.
	if waited < r.DeliveryLease || waited > 4*r.DeliveryLease {
		t.Errorf("waited %s, where a lease takes %s", waited, r.DeliveryLease)
	}
	if e.Report.Redriven != 1 || e.Report.Skipped["not_received"] != 1 {
		t.Errorf("%+v", e.Report)
	}
}

// dying is a dead-letter queue that another copy enters during each receive.
type dying struct {
	broker.Broker
	during func()
}

func (b dying) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	b.during()
	return b.Broker.Receive(ctx, r)
}

// TestGoneAmongArrivals: copies that keep coming and are not of the plan do not
// keep a run waiting for one that is gone.
func TestGoneAmongArrivals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan()
	ds, err := w.queues.Queue("dlq").Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
	w.must(err)
	w.must(w.queues.Queue("dlq").Ack(w.ctx, ds)[0].Err)
	r := w.runner("run1")
	r.LeaseTTL = 24 * time.Hour
	arrivals := 0
	r.Broker = dying{inexact{brokertest.Rough(r.Broker, brokertest.RoughOptions{NoSelection: true})}, func() {
		if arrivals++; arrivals > 10_000 {
			t.Fatal("the run waits on and on")
		}
		w.copy(fmt.Sprint("other", arrivals), "")
		w.pass(time.Second)
	}}
	began := w.clock()
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	if took := w.clock().Sub(began); took < r.DeliveryLease || took > 2*r.DeliveryLease {
		t.Errorf("took %s, where a lease takes %s", took, r.DeliveryLease)
	}
	if e.Report.Redriven != 1 || e.Report.Skipped["not_received"] != 1 {
		t.Errorf("%+v", e.Report)
	}
}

// dribbling is a broker of which a receive brings one copy, and takes its time.
type dribbling struct {
	broker.Broker
	during func()
}

func (b dribbling) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	b.during()
	r.Max = 1
	return b.Broker.Receive(ctx, r)
}

// TestBehindOthers: a copy that stands behind others is not called gone before they
// have come, however long that takes.
func TestBehindOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 8 {
		w.copy(fmt.Sprint("other", n), "")
	}
	w.dead("k1", "k2", "k3")
	id := w.plan()
	r := w.runner("run1")
	r.LeaseTTL, r.DeliveryLease = 24*time.Hour, time.Minute
	r.Broker = dribbling{inexact{brokertest.Rough(r.Broker, brokertest.RoughOptions{NoSelection: true})}, func() { w.pass(2 * time.Minute) }}
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	if e.Report.Redriven != 3 {
		t.Errorf("%+v", e.Report)
	}
}

// grudging refuses the first publish and the first release.
type grudging struct {
	broker.Broker
	published, released bool
}

var throttled = broker.Result{Outcome: broker.Refused, Err: broker.ErrThrottled}

func (g *grudging) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	if !g.published {
		g.published = true
		return broker.All(len(ms), throttled)
	}
	return g.Broker.Publish(ctx, to, ms)
}

func (g *grudging) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	if !g.released {
		g.released = true
		return broker.All(len(ds), throttled)
	}
	return g.Broker.Release(ctx, ds)
}

// TestReleasedAgain: a release that the broker refuses is tried again, or the run
// would wait until the copy's lease ends.
func TestReleasedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan()
	r := w.runner("run1")
	g := &grudging{Broker: r.Broker}
	r.Broker = g
	began := w.clock()
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	if took := w.clock().Sub(began); !g.released || took >= r.DeliveryLease {
		t.Errorf("took %s, where a lease takes %s; released: %v", took, r.DeliveryLease, g.released)
	}
	if e.Report.Redriven != 2 {
		t.Errorf("%+v", e.Report)
	}
}

// TestOwnReceives: that the run itself receives the copy is no attempt at the
// effect.
func TestOwnReceives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.dead("k1")
	q := w.queues.Queue("dlq")
	ds, err := q.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
	w.must(err)
	w.must(q.Release(w.ctx, ds)[0].Err)
	e, err := w.run(w.plan())
	w.must(err)
	if e.Report.Redriven != 1 {
		t.Errorf("%+v", e.Report)
	}
}

// TestHeldAside: what is not of the plan is released when the run ends, and not
// before, or it would only come again.
func TestHeldAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.copy("other1", "")
	w.copy("other2", "")
	w.dead("k1")
	id := w.plan()
	w.reset()
	w.broker = brokertest.Rough(w.broker, brokertest.RoughOptions{NoSelection: true})
	e, err := w.run(id)
	w.must(err)
	if got, want := w.trace(), "log:intent ledger publish log:publish ack log:ack release"; got != want || e.Report.Redriven != 1 {
		t.Errorf("calls %s, want %s", got, want)
	}
	d, err := w.queues.Queue("dlq").Describe(w.ctx)
	w.must(err)
	if d.Depth.Visible != 2 {
		t.Errorf("%+v", d.Depth)
	}
}

// TestGroupInOneBatch: a broker that delivers several copies of a group at once
// gets them one after the other, and none overtakes one that has to wait.
func TestGroupInOneBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, k := range []string{"a1", "a2", "a3"} {
		w.copy(k, "a")
		w.row(k, ledger.Failed)
	}
	w.broker = &orderedBroker{w.broker}
	id := w.plan()
	n := 0
	w.fault = func(call string) error {
		if call == "publish" {
			if n++; n == 1 || n == 3 {
				return broker.ErrThrottled
			}
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	var got []string
	_, err = w.queues.Queue("src").Browse(w.ctx, 0, func(m broker.Message) error {
		got = append(got, decode(m).JobKey)
		return nil
	})
	w.must(err)
	if d := cmp.Diff([]string{"a1", "a2", "a3"}, got); d != "" || e.Report.Redriven != 3 {
		t.Error(d, e.Report)
	}
}

// orderedBroker says that it keeps order over a queue that delivers the copies
// of a group together.
type orderedBroker struct{ broker.Broker }

func (b *orderedBroker) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.Ordered = true
	return c
}

// TestLeaseLostBeforePublish: the same, between ledger and publish, while the
// broker's own lease on the copy still holds.
func TestLeaseLostBeforePublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	w.reset()
	w.fault = func(call string) error {
		if call == "ledger" {
			w.fault = nil
			w.pass(4*time.Minute + time.Second)
		}
		return nil
	}
	r := w.runner("run1")
	r.LeaseTTL = 4 * time.Minute
	if _, err := r.Run(w.ctx, string(id)); !errors.Is(err, audit.ErrFenced) {
		t.Error(err)
	}
	if w.depth("src") != 0 {
		t.Error("it published")
	}
}
