package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

func (w *world) controller() *redrive.Controller {
	return &redrive.Controller{Runs: w.store, Who: who("colleague"), Now: w.clock}
}

func (w *world) asks(kind redrive.WishKind) {
	w.t.Helper()
	_, err := w.controller().Ask(w.ctx, "run1", kind, "look first")
	w.must(err)
}

func (w *world) lifts() {
	w.t.Helper()
	_, err := w.controller().Lift(w.ctx, "run1", "")
	w.must(err)
}

func (w *world) loaded() redrive.RunRecord {
	w.t.Helper()
	r, err := w.store.LoadRun(w.ctx, "run1")
	w.must(err)
	return r
}

// onCall acts once, at the n-th passing of a call.
func (w *world) onCall(name string, n int, act func()) {
	w.fault = func(call string) error {
		if call == name {
			if n--; n == 0 {
				act()
			}
		}
		return nil
	}
}

// waiting is a runner that tells when it has waited, with the time before.
func (w *world) waiting(waited func(r redrive.RunRecord)) *redrive.Runner {
	r := w.runner("run1")
	r.LeaseTTL = 15 * time.Second
	r.Sleep = func(ctx context.Context, d time.Duration) error {
		if err := w.sleep(ctx, d); err != nil {
			return err
		}
		waited(w.loaded())
		return ctx.Err()
	}
	return r
}

// steps are the records about the run as a whole, in their order.
func (w *world) steps() string {
	w.t.Helper()
	var steps []string
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run1"}, func(e audit.Entry) error {
		r := e.Record
		if r.CopyID == "" && r.Action == "run" {
			steps = append(steps, r.Step+"/"+r.Actor.Name)
		}
		return nil
	}))
	slices.Reverse(steps) // they come newest first
	return strings.Join(steps, " ")
}

// TestPause is promise 7 for a pause: no batch after the one in flight, nothing
// hidden while it lasts, the lease kept; and promise 6 across it: when the pause
// is lifted, no window holds more than the rate.
func TestPause(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"log:intent", "ledger", "publish", "log:publish", "ack", "log:ack"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.copy("other1", "")
			w.copy("other2", "")
			w.dead("k1", "k2", "k3", "k4", "k5")
			id := w.plan(func(r *redrive.Request) { r.Rate = 2 })
			var sent []time.Time
			var lifted time.Time
			w.onCall(at, 1, func() { w.asks(redrive.WishPause) })
			ask := w.fault
			w.fault = func(call string) error {
				if call == "publish" {
					sent = append(sent, w.clock(), w.clock()) // a batch is two at most
					if d := w.clock().Sub(lifted); d <= time.Second {
						t.Errorf("sent %s after the pause, as if the second before were known", d)
					}
				}
				return ask(call)
			}
			w.broker = brokertest.Rough(w.broker, brokertest.RoughOptions{NoSelection: true})
			paused := 0
			r := w.waiting(func(rec redrive.RunRecord) {
				if rec.State != redrive.RunPaused {
					return
				}
				d, err := w.queues.Queue("dlq").Describe(w.ctx)
				w.must(err)
				if !rec.Lives || d.Depth.InFlight != 0 || w.depth("src") != 2 || rec.Wish.Reason != "look first" {
					t.Errorf("paused: %+v, %+v, %d sent", rec, d.Depth, w.depth("src"))
				}
				if paused++; paused == 300 {
					lifted = w.clock()
					w.lifts()
				}
			})
			e, err := r.Run(w.ctx, string(id))
			w.must(err)
			if d := cmp.Diff(report(5, func(r *redrive.Report) { r.Redriven = 5 }), e.Report); d != "" || e.State != redrive.RunFinished {
				t.Error(e.State, d)
			}
			if paused != 300 || w.loaded().Wish != (redrive.Wish{}) {
				t.Errorf("%d waits, then %+v", paused, w.loaded().Wish)
			}
			for i := 2; i < len(sent); i++ {
				if d := sent[i].Sub(sent[i-2]); d <= time.Second {
					t.Errorf("three within %s", d)
				}
			}
			want := "start/operator ask_pause/colleague paused/operator lift_pause/colleague continued/operator end/operator"
			if d := cmp.Diff(want, w.steps()); d != "" {
				t.Error(d)
			}
			d, err := w.queues.Queue("dlq").Describe(w.ctx)
			w.must(err)
			if d.Depth.Visible != 2 || d.Depth.InFlight != 0 {
				t.Errorf("left: %+v", d.Depth)
			}
		})
	}
}

// TestPauseEnds: how a paused run ends otherwise than by being lifted.
func TestPauseEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		happens func(*world, redrive.PlanID)
		state   redrive.RunState
		err     error
		why     string
	}{
		{"expired", func(w *world, _ redrive.PlanID) { w.pass(7 * time.Second) }, redrive.RunAborted, redrive.ErrRefused, "expired"},
		{"revoked", func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver").Revoke(w.ctx, string(id), "stop")
			w.must(err)
		}, redrive.RunAborted, redrive.ErrRefused, "revoked"},
		{"aborted", func(w *world, _ redrive.PlanID) { w.asks(redrive.WishAbort) }, redrive.RunAborted, redrive.ErrRefused, "aborted by colleague"},
		{"interrupted", func(*world, redrive.PlanID) {}, redrive.RunInterrupted, context.Canceled, ""},
		{"suspended past its lease", func(w *world, _ redrive.PlanID) { w.pass(16 * time.Second) }, redrive.RunInterrupted, audit.ErrFenced, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newWorld(t)
			w.dead("k1", "k2", "k3")
			id := w.plan(func(r *redrive.Request) {
				r.Rate = 1
				if tt.name == "expired" {
					r.Expires = 10 * time.Second
				}
			})
			w.onCall("publish", 1, func() { w.asks(redrive.WishPause) })
			paused := 0
			r := w.waiting(func(rec redrive.RunRecord) {
				if rec.State == redrive.RunPaused {
					if paused++; paused == 3 {
						tt.happens(w, id)
						if errors.Is(tt.err, context.Canceled) {
							stop()
						}
					}
				}
			})
			e, err := r.Run(ctx, string(id))
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.why) || e.State != tt.state {
				t.Errorf("%s, %v", e.State, err)
			}
			if d := cmp.Diff(report(3, func(r *redrive.Report) { r.Redriven, r.Remaining = 1, 2 }), e.Report); d != "" {
				t.Error(d)
			}
			if paused < 3 || w.depth("src") != 1 || w.depth("dlq") != 2 {
				t.Errorf("%d waits, %d sent, %d left", paused, w.depth("src"), w.depth("dlq"))
			}
		})
	}
}

// TestPausedRunDies: its lease ends, nobody may pause it any more, and resume
// takes it over, with no pause left.
func TestPausedRunDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3")
	id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
	w.onCall("publish", 1, func() { w.asks(redrive.WishPause) })
	died := errors.New("died")
	r := w.waiting(func(rec redrive.RunRecord) {
		if rec.State == redrive.RunPaused {
			panic(died)
		}
	})
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, died) {
				t.Error("it did not die")
			}
		}()
		_, _ = r.Run(w.ctx, string(id))
	}()
	if rec := w.loaded(); rec.State != redrive.RunPaused || !rec.Lives {
		t.Errorf("%+v", rec)
	}
	w.pass(15 * time.Second)
	if rec := w.loaded(); rec.State != redrive.RunPaused || rec.Lives {
		t.Errorf("%+v", rec)
	}
	if _, err := w.controller().Ask(w.ctx, "run1", redrive.WishPause, "x"); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("a dead run was paused: %v", err)
	}
	if _, err := w.controller().Lift(w.ctx, "run1", ""); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("a dead run's pause was lifted: %v", err)
	}
	e, err := w.resume()
	w.must(err)
	if e.Report.Redriven != 3 || e.State != redrive.RunFinished {
		t.Errorf("%+v", e)
	}
}

// TestAbort is promise 7 for an abort, asked at each call of the first batch:
// the batch in flight is finished, nothing else is begun, the counts add up, the
// plan frees its jobs, and the run can be neither resumed nor aborted again.
func TestAbort(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"log:intent", "ledger", "publish", "log:publish", "ack", "log:ack"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3", "k4", "k5")
			id := w.plan(func(r *redrive.Request) { r.Rate = 2 })
			w.onCall(at, 1, func() { w.asks(redrive.WishAbort) })
			e, err := w.run(id)
			var stopped *redrive.StoppedError
			if !errors.As(err, &stopped) || stopped.By != "colleague" || stopped.Reason != "look first" || e.State != redrive.RunAborted {
				t.Errorf("%s, %v", e.State, err)
			}
			if d := cmp.Diff(report(5, func(r *redrive.Report) { r.Redriven, r.Remaining = 2, 3 }), e.Report); d != "" {
				t.Error(d)
			}
			w.fault = nil
			if _, err := w.resume(); !errors.Is(err, redrive.ErrRefused) {
				t.Errorf("resumed: %v", err)
			}
			for _, kind := range []redrive.WishKind{redrive.WishAbort, redrive.WishPause} {
				if _, err := w.controller().Ask(w.ctx, "run1", kind, "x"); !errors.Is(err, redrive.ErrRefused) {
					t.Errorf("%s again: %v", kind, err)
				}
			}
			d, err := w.queues.Queue("dlq").Describe(w.ctx)
			w.must(err)
			if d.Depth.Visible != 3 || w.depth("src") != 2 {
				t.Errorf("%+v, %d sent", d.Depth, w.depth("src"))
			}
			e, err = w.runner("run2").Run(w.ctx, string(w.plan())) // of the same jobs
			w.must(err)
			w.work()
			if e.Report.Redriven != 3 || len(w.sends) != 5 {
				t.Errorf("%+v, %v", e.Report, w.sends)
			}
		})
	}
}

// TestAbortOpen: a fault in the first batch leaves an intent open, then the run
// is aborted. What is proven is settled, what may have been sent is unknown, and
// nothing is sent any more.
func TestAbortOpen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, failAt string
		err          error
		report       func(*redrive.Report)
		sent         int
	}{
		{"publish's reply lost", "publish", errLost, func(r *redrive.Report) { r.Unknown, r.Remaining = 1, 2 }, 1},
		{"ack's reply lost", "ack", errLost, func(r *redrive.Report) { r.Unknown, r.Remaining = 1, 2 }, 1},
		{"ledger does not answer", "ledger", errFault, func(r *redrive.Report) {
			r.Skipped["aborted"], r.Remaining = 1, 2
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3")
			id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
			w.fault = func(call string) error {
				if call == tt.failAt {
					w.fault = nil
					w.asks(redrive.WishAbort)
					return tt.err
				}
				return nil
			}
			e, err := w.run(id)
			if !errors.Is(err, redrive.ErrRefused) || e.State != redrive.RunAborted {
				t.Errorf("%s, %v", e.State, err)
			}
			if d := cmp.Diff(report(3, tt.report), e.Report); d != "" {
				t.Error(d)
			}
			open, err := w.store.OpenIntents(w.ctx, "run1")
			w.must(err)
			if len(open) != 0 || w.depth("src") != tt.sent {
				t.Errorf("%d open, %d sent", len(open), w.depth("src"))
			}
			w.work()
			for k, n := range w.sends {
				if n > 1 {
					t.Errorf("%s has %d effects", k, n)
				}
			}
		})
	}
}

type blindLedger struct {
	ledger.Ledger
	blind bool
}

func (l *blindLedger) Get(ctx context.Context, keys []ledger.Key) []ledger.Lookup {
	if !l.blind {
		return l.Ledger.Get(ctx, keys)
	}
	return make([]ledger.Lookup, len(keys))
}

// TestAbortUnreadable: an aborted run that cannot find out how its open intents
// ended is not closed, and holds its jobs; its resume settles them, sends nothing
// and closes it.
func TestAbortUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
	r := w.runner("run1")
	l := &blindLedger{Ledger: r.Ledger}
	r.Ledger = l
	w.onCall("log:publish", 1, func() { w.asks(redrive.WishAbort) })
	ask := w.fault
	w.fault = func(call string) error {
		if call == "publish" {
			l.blind = true
			return errLost
		}
		return ask(call)
	}
	e, err := r.Run(w.ctx, string(id))
	if !errors.Is(err, redrive.ErrRefused) || e.State != redrive.RunInterrupted {
		t.Errorf("%s, %v", e.State, err)
	}
	unknown := func(r *redrive.Report) { r.Unknown, r.Remaining = 1, 1 }
	if d := cmp.Diff(report(2, unknown), e.Report); d != "" {
		t.Error(d)
	}
	if p, err := w.store.LoadPlan(w.ctx, string(id)); err != nil || p.State != redrive.PlanRunning {
		t.Errorf("plan is %s, %v", p.State, err)
	}
	w.reset()
	e, err = w.resume()
	if !errors.Is(err, redrive.ErrRefused) || e.State != redrive.RunAborted || strings.Contains(w.trace(), "publish ") {
		t.Errorf("%s, %v, %s", e.State, err, w.trace())
	}
	if d := cmp.Diff(report(2, unknown), e.Report); d != "" {
		t.Error(d)
	}
	if p, err := w.store.LoadPlan(w.ctx, string(id)); err != nil || p.State != redrive.PlanFinished {
		t.Errorf("plan is %s, %v", p.State, err)
	}
}

// TestAbortDead: whoever asks aborts a run that no longer lives: it settles what
// is open and redrives nothing.
func TestAbortDead(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"log:publish", "log:ack"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3")
			id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
			w.fault = failAt(at, 1)
			if _, err := w.run(id); !errors.Is(err, audit.ErrNotWritable) {
				t.Fatal(err)
			}
			w.reset()
			w.asks(redrive.WishAbort)
			e, err := w.resume()
			if !errors.Is(err, redrive.ErrRefused) || e.State != redrive.RunAborted {
				t.Errorf("%s, %v", e.State, err)
			}
			if d := cmp.Diff(report(3, func(r *redrive.Report) { r.Unknown, r.Remaining = 1, 2 }), e.Report); d != "" {
				t.Error(d)
			}
			if strings.Contains(w.trace(), "publish") && at != "log:publish" || w.depth("src") != 1 {
				t.Errorf("%s, %d sent", w.trace(), w.depth("src"))
			}
		})
	}
}

// TestSlowRateHeeds: a run that waits for its share of a slow rate finds out
// within a second what is asked of it.
func TestSlowRateHeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan(func(r *redrive.Request) { r.Rate = 0.01 })
	began := w.clock()
	r := w.waiting(func(rec redrive.RunRecord) {
		if rec.Wish.Kind == "" && w.clock().Sub(began) > 10*time.Second {
			w.asks(redrive.WishAbort)
		}
	})
	e, err := r.Run(w.ctx, string(id))
	if took := w.clock().Sub(began); took > 13*time.Second || e.State != redrive.RunAborted || e.Report.Remaining != 2 {
		t.Errorf("%+v after %s: %v", e, took, err)
	}
}

// TestPauseBatchesInFlight: of several batches under way none goes on, and all
// go on together.
func TestPauseBatchesInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		w.dead(fmt.Sprintf("k%02d", i))
	}
	id := w.plan(func(r *redrive.Request) { r.Rate = 12 })
	var paused int
	r := w.waiting(func(rec redrive.RunRecord) {})
	r.Workers = 4
	r.Broker = &smallBatches{r.Broker}
	r.Progress = func(p redrive.Report) {
		if p.Redriven > 8 && paused == 0 && w.loaded().Wish.Kind == "" {
			w.asks(redrive.WishPause)
		}
	}
	sleep := r.Sleep
	r.Notice = func(wish redrive.Wish) {
		if wish.Kind != redrive.WishPause {
			return
		}
		before := w.depth("src")
		for range 100 { // what else is under way would go on meanwhile
			w.must(sleep(w.ctx, time.Millisecond))
		}
		if paused++; w.depth("src") != before {
			t.Errorf("%d were sent in the pause", w.depth("src")-before)
		}
		w.lifts()
	}
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	w.work()
	if paused != 1 || e.Report.Redriven != 40 || len(w.sends) != 40 {
		t.Errorf("%d pauses, %+v, %d sent", paused, e.Report, len(w.sends))
	}
}

// inTheWay delivers some copies before any other, and cannot be asked for one.
type inTheWay struct {
	broker.Broker
	first []broker.CopyID
}

func (b *inTheWay) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.SelectiveReceive, c.MaxBatch = false, 3
	return c
}

func (b *inTheWay) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	r.Only = b.first
	ds, err := b.Broker.Receive(ctx, r)
	if r.Only = nil; len(ds) == 0 && err == nil {
		return b.Broker.Receive(ctx, r)
	}
	return ds, err
}

// TestPauseMeetsAgain: what was held aside before a pause stands in the way again
// after it, and nothing behind it counts as gone for that.
func TestPauseMeetsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		w.copy(fmt.Sprintf("other%02d", i), "")
	}
	b := &inTheWay{}
	for _, j := range w.jobs() {
		b.first = append(b.first, j.Message.Copy)
	}
	w.dead("k1")
	id := w.plan(func(r *redrive.Request) { r.Select = redrive.Selection{Jobs: []string{"k1"}} })
	batches, paused := 0, 0
	r := w.waiting(func(rec redrive.RunRecord) {
		if rec.State == redrive.RunPaused {
			if paused++; paused == 2 {
				w.lifts()
			}
		}
	})
	b.Broker, r.Broker = r.Broker, b
	r.Progress = func(redrive.Report) {
		if batches++; batches == 6 {
			w.asks(redrive.WishPause)
		}
	}
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	if paused != 2 || e.Report.Redriven != 1 {
		t.Errorf("%d waits, %+v", paused, e.Report)
	}
}
