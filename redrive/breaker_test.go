package redrive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// bulky are a world of n jobs and a plan of them with thresholds and no canary, at 10
// a second.
func bulky(t *testing.T, n int, change ...func(*redrive.Request)) (*world, redrive.PlanID) {
	t.Helper()
	w := newWorld(t)
	for i := range n {
		w.dead(fmt.Sprintf("k%03d", i))
	}
	slow := func(r *redrive.Request) {
		r.Rate, r.Max, r.Gate = 10, n, canary(0)
	}
	return w, w.plan(append([]func(*redrive.Request){slow}, change...)...)
}

// outcome has the worker end a job otherwise than as sent: "bad" fails for good and
// is dead again, "throttled" fails and is tried again by nobody, "slow" is sent after
// six seconds, "lost" stays where it is.
func (w *world) outcome(d broker.Delivery, how string) {
	w.t.Helper()
	src := w.queues.Queue("src")
	key := ledger.Key{JobKey: decode(d.Message).JobKey, Consumer: "mailer"}
	row := w.ledger.Get(w.ctx, []ledger.Key{key})[0].Row
	w.move(ledger.Change{Key: key, From: row.State, FromAttempt: row.Attempt, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
	c := ledger.Change{Key: key, From: ledger.Sending, FromAttempt: row.Attempt, To: ledger.Failed, Actor: "worker", Resolve: ledger.ByWorker, Effect: ledger.EffectNone}
	switch how {
	case "bad":
		c.ErrorClass = "rejected_payload"
	case "throttled":
		c.ErrorClass, c.Retryable = "throttled", true
	case "slow":
		w.pass(6 * time.Second)
		c.To, c.Effect = ledger.Sent, ""
	}
	w.move(c)
	if how != "bad" {
		w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
		return
	}
	w.must(src.Publish(w.ctx, "dlq", []broker.Outgoing{{Message: broker.Message{Body: d.Body, Attributes: d.Attributes}}})[0].Err)
	w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
}

// working has the worker work on what is in the source now; how says how the n-th of
// all ends, empty: sent.
func (w *world) working(how func(n int) string) func() {
	n := 0
	src := w.queues.Queue("src")
	return func() {
		for {
			ds, err := src.Receive(w.ctx, broker.Request{Max: 10, Lease: time.Hour})
			w.must(err)
			if len(ds) == 0 {
				return
			}
			for _, d := range ds {
				switch end := how(n); end {
				case "":
					w.handle(src, d)
				case "lost":
				default:
					w.outcome(d, end)
				}
				n++
			}
		}
	}
}

func allOf(how string) func(int) string { return func(int) string { return how } }

// TestBreakerTrips: whichever threshold the redrives break, the run stops before its
// next batch, paused, on record with its figures; a resume finds it stopped, and a
// person lets it go on.
func TestBreakerTrips(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		how    func(int) string
		change func(*redrive.GateRequest)
		why    string
		most   int // redrives by then
	}{
		{"refused for good", allOf("bad"), nil, "did not reach sent, and at most 5% of 60 may", 20},
		{"one of ten", func(n int) string { return map[bool]string{true: "bad"}[n%10 == 9] }, nil, "4 of the last ", 50},
		{"came back", allOf("bad"), func(g *redrive.GateRequest) { g.Thresholds.MinSuccess = 0 }, "came back, and at most 5% of 60 may", 20},
		{"slow", allOf("slow"), func(g *redrive.GateRequest) { g.Thresholds.MaxP95Seconds = 5 }, "took longer than 5s, and at most 5% of 60 may", 20},
		{"nobody works", allOf("lost"), func(g *redrive.GateRequest) { g.Thresholds.ObserveSeconds = 2 }, "did not reach sent, and at most 5% of 60 may", 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, id := bulky(t, 60, func(r *redrive.Request) {
				if tt.change != nil {
					tt.change(&r.Gate)
					r.Gate.Policy = *r.Gate.Thresholds
				}
			})
			r := w.canaryRunner("run1", w.working(tt.how))
			e, err := r.Run(w.ctx, string(id))
			var undecided *redrive.UndecidedError
			if !errors.As(err, &undecided) || !errors.Is(err, redrive.ErrGate) || !strings.Contains(err.Error(), "its circuit breaker tripped: ") || !strings.Contains(err.Error(), tt.why) {
				t.Fatalf("%v, %+v", err, e)
			}
			f := e.Gate.Figures
			if e.State != redrive.RunPaused || e.Gate.Verdict != redrive.VerdictTripped || f.Window != 60 || f.Redrives == 0 || !e.Report.Adds() || e.Report.Redriven > tt.most || e.Report.Redriven == 0 {
				t.Errorf("%s, %+v, %+v", e.State, e.Gate, e.Report)
			}
			w.trippedOnRecord(e)
			before := e.Report.Redriven
			e, err = w.canaryRunner("x", nil).Resume(w.ctx, "run1")
			if !errors.As(err, &undecided) || e.State != redrive.RunPaused || e.Report.Redriven != before {
				t.Errorf("resumed: %v, %+v", err, e)
			}
			if _, err := w.controller().Promote(w.ctx, "run1", "the receiver is well again"); err != nil {
				t.Fatal(err)
			}
			e, err = w.canaryRunner("x", w.working(allOf(""))).Resume(w.ctx, "run1")
			w.must(err)
			if e.State != redrive.RunFinished || e.Report.Redriven != 60 || e.Gate.Promoted.By != "colleague" {
				t.Errorf("promoted: %+v", e)
			}
		})
	}
}

// trippedOnRecord holds that the log and the store say what the run does.
func (w *world) trippedOnRecord(e redrive.Ended) {
	w.t.Helper()
	g, err := w.store.Gate(w.ctx, "run1")
	w.must(err)
	if g.Verdict != redrive.VerdictTripped || g.Why != e.Gate.Why || g.Figures.Redrives != e.Gate.Figures.Redrives || *g.Thresholds != *e.Gate.Thresholds {
		w.t.Errorf("%+v, the run says %+v", g, e.Gate)
	}
	found := 0
	w.must(w.store.FindAudit(w.ctx, audit.Query{Run: "run1"}, func(x audit.Entry) error {
		if r := x.Record; r.Step == redrive.StepVerdict && r.Details["verdict"] == "tripped" && strings.Contains(r.Details["figures"], `"window":60`) {
			found++
		}
		return nil
	}))
	if found != 1 {
		w.t.Errorf("%d records that it tripped", found)
	}
}

// TestBreakerHolds: a share of bad ends that the thresholds permit trips nothing.
func TestBreakerHolds(t *testing.T) {
	t.Parallel()
	w, id := bulky(t, 60)
	e, err := w.canaryRunner("run1", w.working(func(n int) string { return map[bool]string{true: "bad"}[n%20 == 3] })).Run(w.ctx, string(id))
	w.must(err)
	if e.State != redrive.RunFinished || e.Report.Redriven != 60 || e.Gate.Verdict != "" {
		t.Errorf("%+v", e)
	}
}

// TestBreakerSlides: what is long past is forgotten: 12 bad ones among 300 trip
// nothing where they are far apart.
func TestBreakerSlides(t *testing.T) {
	t.Parallel()
	w, id := bulky(t, 220, func(r *redrive.Request) { r.Rate = 50 })
	e, err := w.canaryRunner("run1", w.working(func(n int) string { return map[bool]string{true: "bad"}[n%25 == 0] })).Run(w.ctx, string(id))
	w.must(err)
	if e.Report.Redriven != 220 {
		t.Errorf("%+v", e)
	}
}

// TestBreakerSlowsFirst: what the provider throttles lowers the rate, and trips
// nothing before the rate is at its lowest.
func TestBreakerSlowsFirst(t *testing.T) {
	t.Parallel()
	w, id := bulky(t, 60, func(r *redrive.Request) {
		r.Gate.Thresholds.MinSuccess, r.Expires = 0, 48*time.Hour
		r.Gate.Policy = *r.Gate.Thresholds
	})
	e, err := w.canaryRunner("run1", w.working(allOf("throttled"))).Run(w.ctx, string(id))
	var undecided *redrive.UndecidedError
	if !errors.As(err, &undecided) || !strings.Contains(err.Error(), "were throttled at the lowest rate, and at most 10% of 60 may") {
		t.Fatalf("%v, %+v", err, e)
	}
	if e.Pace.By != "provider" || e.Pace.Slowed < 6 || e.Pace.Lowest > 10.0/64+0.01 || e.Report.Redriven == 60 {
		t.Errorf("%+v, %+v", e.Pace, e.Report)
	}
	if s := w.slowed(); len(s) != e.Pace.Slowed || s[0] != "the provider asks to slow down: 5 of 10" {
		t.Errorf("%q", s)
	}
}

// TestBreakerWaits: where somebody sits at the run it waits, paused, keeps its lease,
// holds nothing of the queue, and goes on once it is promoted from elsewhere.
func TestBreakerWaits(t *testing.T) {
	t.Parallel()
	w, id := bulky(t, 60)
	bad, waits := true, 0
	work := w.working(func(int) string { return map[bool]string{true: "bad"}[bad] })
	r := w.canaryRunner("run1", func() {
		work()
		rec := w.loaded()
		if rec.State != redrive.RunPaused {
			return
		}
		bad = false
		if waits++; waits == 5 {
			if d, err := w.queues.Queue("dlq").Describe(w.ctx); err != nil || d.Depth.InFlight != 0 || !rec.Lives {
				t.Errorf("%+v, %v, %+v", d.Depth, err, rec)
			}
			_, err := w.controller().Promote(w.ctx, "run1", "well again")
			w.must(err)
		}
	})
	r.WaitAtGate = true
	e, err := r.Run(w.ctx, string(id))
	w.must(err)
	if waits != 5 || e.State != redrive.RunFinished || e.Report.Redriven != 60 || e.Gate.Promoted.Reason != "well again" {
		t.Errorf("%d waits, %+v", waits, e)
	}
	want := "start/operator gate/operator paused/operator promote/colleague continued/operator end/operator"
	if got := w.steps(); got != want {
		t.Errorf("%s", got)
	}
}

// TestBreakerWithoutLedger: only what comes back can trip it.
func TestBreakerWithoutLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	for i := range 60 {
		w.dead(fmt.Sprintf("k%03d", i))
	}
	id := w.plan(func(r *redrive.Request) { r.Rate, r.Gate = 10, canary(0) })
	src := w.queues.Queue("src")
	e, err := w.canaryRunner("run1", func() {
		ds, err := src.Receive(w.ctx, broker.Request{Max: 10, Lease: time.Minute})
		w.must(err)
		for _, d := range ds {
			w.must(src.Publish(w.ctx, "dlq", []broker.Outgoing{{Message: broker.Message{Body: d.Body, Attributes: d.Attributes}}})[0].Err)
			w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
		}
	}).Run(w.ctx, string(id))
	if !errors.Is(err, redrive.ErrGate) || !strings.Contains(err.Error(), "came back, and at most 5% of 60 may") || e.Report.Redriven > 30 {
		t.Errorf("%v, %+v", err, e)
	}
}

// TestBreakerAfterCanary: a canary that passed, and then a bulk that does not.
func TestBreakerAfterCanary(t *testing.T) {
	t.Parallel()
	w, id := bulky(t, 60, func(r *redrive.Request) { r.Gate = canary(5) })
	e, err := w.canaryRunner("run1", w.working(func(n int) string { return map[bool]string{true: "bad"}[n >= 5] })).Run(w.ctx, string(id))
	if !errors.Is(err, redrive.ErrGate) || e.Gate.Verdict != redrive.VerdictTripped || e.Gate.Figures.Window != 55 || e.Report.Redriven <= 5 {
		t.Fatalf("%v, %+v", err, e)
	}
	e, err = w.canaryRunner("x", nil).Resume(w.ctx, "run1")
	if !errors.Is(err, redrive.ErrGate) || e.Gate.Verdict != redrive.VerdictTripped || e.State != redrive.RunPaused {
		t.Errorf("%v, %+v", err, e)
	}
}
