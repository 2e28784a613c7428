package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

// ends is what takes the permission of a run away while it is under way.
var ends = []struct {
	name    string
	happens func(*world, redrive.PlanID)
	why     string
}{
	{"revoked", func(w *world, id redrive.PlanID) {
		_, err := w.approver("approver").Revoke(w.ctx, string(id), "stop")
		w.must(err)
	}, "revoked"},
	{"expired", func(w *world, _ redrive.PlanID) { w.pass(2 * time.Minute) }, "expired"},
	{"policy changed", func(w *world, _ redrive.PlanID) { w.disk = redrive.Digests{Policy: "p2", Settings: "s1"} }, "policy changed"},
	{"settings changed", func(w *world, _ redrive.PlanID) { w.disk = redrive.Digests{Policy: "p1", Settings: "s2"} }, "settings changed"},
}

// endable is a plan that ends in one of these ways, and its run.
func (w *world) endable() (redrive.PlanID, *redrive.Runner) {
	w.t.Helper()
	w.dead("k1", "k2", "k3", "k4", "k5")
	id := w.plan(func(r *redrive.Request) { r.Rate, r.Expires = 2, time.Minute })
	r := w.waiting(func(redrive.RunRecord) {})
	r.LeaseTTL = time.Hour // what is tried is not the lease
	w.disk = r.Current
	r.InForce = func(context.Context) (redrive.Digests, error) { return w.disk, w.call("in force") }
	return id, r
}

// TestNoticedInBulk: whatever takes the permission away while a batch is under way,
// that batch is finished, as far as what was sent is acknowledged, and no other is
// begun.
func TestNoticedInBulk(t *testing.T) {
	t.Parallel()
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, r := w.endable()
			w.onCall("ack", 1, func() { tt.happens(w, id) })
			e, err := r.Run(w.ctx, string(id))
			w.ended(e, err, tt.why, 2)
		})
	}
}

// ended holds a run that was stopped after n of its five items.
func (w *world) ended(e redrive.Ended, err error, why string, n int) {
	w.t.Helper()
	var stopped *redrive.StoppedError
	if !errors.As(err, &stopped) || stopped.Why != why || e.State != redrive.RunAborted {
		w.t.Errorf("%s, %v", e.State, err)
	}
	if d := cmp.Diff(report(5, func(r *redrive.Report) { r.Redriven, r.Remaining = n, 5-n }), e.Report); d != "" {
		w.t.Error(d)
	}
	if w.depth("src") != n || w.depth("dlq") != 5-n {
		w.t.Errorf("%d sent, %d left", w.depth("src"), w.depth("dlq"))
	}
}

// TestNoticedWhilePaused: so does a run that waits for its pause to be lifted, and
// it sends nothing more.
func TestNoticedWhilePaused(t *testing.T) {
	t.Parallel()
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, r := w.endable()
			w.onCall("publish", 1, func() { w.asks(redrive.WishPause) })
			r.Notice = func(wish redrive.Wish) {
				if wish.Kind == redrive.WishPause {
					tt.happens(w, id)
				}
			}
			e, err := r.Run(w.ctx, string(id))
			w.ended(e, err, tt.why, 2)
		})
	}
}

// TestNoticedByResume: a run that crashed with an intent open acknowledges what was
// sent before its permission was taken away, and does nothing new.
func TestNoticedByResume(t *testing.T) {
	t.Parallel()
	for _, tt := range ends {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, r := w.endable()
			w.fault = failAt("log:ack", 1)
			if _, err := r.Run(w.ctx, string(id)); err == nil {
				t.Fatal("no fault")
			}
			w.reset()
			tt.happens(w, id)
			e, err := r.Resume(w.ctx, "run1")
			var stopped *redrive.StoppedError
			if !errors.As(err, &stopped) || stopped.Why != tt.why || !e.Report.Adds() || e.Report.Redriven > 2 || w.depth("src") != 2 {
				t.Errorf("%+v, %d sent, %v", e.Report, w.depth("src"), err)
			}
			if strings.Contains(w.trace(), "publish ") {
				t.Error(w.trace())
			}
		})
	}
}

// TestInForceUnreadable: where nobody can say what is in force nothing more is
// begun, and the run can be resumed once somebody can.
func TestInForceUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, r := w.endable()
	w.onCall("publish", 1, func() { w.fault = failAt("in force", 1) })
	e, err := r.Run(w.ctx, string(id))
	if !errors.Is(err, errFault) || e.State != redrive.RunFailed || e.Report.Redriven != 2 {
		t.Errorf("%s, %+v, %v", e.State, e.Report, err)
	}
	w.reset()
	e, err = r.Resume(w.ctx, "run1")
	w.must(err)
	if e.Report.Redriven != 5 {
		t.Errorf("%+v", e.Report)
	}
}

// crowd counts the batches of several workers: those begun, and those under way.
type crowd struct {
	broker.Broker
	w     *world
	asked bool // a person's wish is in the store
	since int  // batches begun since then
	sends int  // publishes since then
}

func (b *crowd) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	b.w.mu.Lock()
	if b.asked {
		b.since++
	}
	b.w.mu.Unlock()
	return b.Broker.Receive(ctx, r)
}

func (b *crowd) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	b.w.mu.Lock()
	if b.asked {
		b.sends++
	}
	b.w.mu.Unlock()
	return b.Broker.Publish(ctx, to, ms)
}

// TestWishesAmongBatches is promise 7 with several batches under way, asked at any
// call of any of them: no worker begins more than the batch that it was permitted
// before, and what was done, not done and unknown adds up to the plan.
func TestWishesAmongBatches(t *testing.T) {
	t.Parallel()
	for _, kind := range []redrive.WishKind{redrive.WishPause, redrive.WishAbort} {
		for _, n := range []int{2, 9, 17, 26} {
			t.Run(fmt.Sprint(kind, n), func(t *testing.T) {
				t.Parallel()
				const jobs, workers = 36, 4
				w := newWorld(t)
				for i := range jobs {
					w.dead(fmt.Sprintf("k%02d", i))
				}
				id := w.plan()
				b := &crowd{w: w}
				r := w.runner("run1")
				b.Broker = &smallBatches{r.Broker}
				r.Broker, r.Workers = b, workers
				w.nthCall(n, func() {
					w.asks(kind)
					w.mu.Lock()
					defer w.mu.Unlock()
					b.asked = true
				})
				held := 0
				r.Notice = func(wish redrive.Wish) {
					if wish.Kind == redrive.WishPause {
						held++
						w.withinBatches(b, workers)
						w.lifts()
						w.mu.Lock()
						b.asked = false
						w.mu.Unlock()
					}
				}
				e, err := r.Run(w.ctx, string(id))
				w.work()
				sent := len(w.sends)
				switch {
				case !e.Report.Adds() || sent+w.depth("dlq") != jobs || sent != e.Report.Redriven:
					t.Errorf("%d effects, %d dead, %+v", sent, w.depth("dlq"), e.Report)
				case kind == redrive.WishPause && (err != nil || held != 1 || sent != jobs):
					t.Errorf("%d sent, held %d times, %v", sent, held, err)
				case kind == redrive.WishAbort && (e.State != redrive.RunAborted || e.Report.Unknown > 0):
					t.Errorf("%s, %+v, %v", e.State, e.Report, err)
				}
				w.withinBatches(b, workers)
			})
		}
	}
}

// withinBatches holds that nothing was begun since the wish but one batch a worker,
// which had its permission by then.
func (w *world) withinBatches(b *crowd, workers int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.since > workers || b.sends > workers {
		w.t.Errorf("%d batches and %d publishes were begun since", b.since, b.sends)
	}
}

// nthCall acts once, at the n-th call whichever it is.
func (w *world) nthCall(n int, act func()) {
	passed := 0
	w.fault = func(string) error {
		w.mu.Lock()
		passed++
		now := passed == n
		w.mu.Unlock()
		if now {
			act()
		}
		return nil
	}
}
