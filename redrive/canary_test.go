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
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// canary asks for a first sample of n under the default thresholds.
func canary(n int) redrive.GateRequest {
	t := redrive.Thresholds{ObserveSeconds: 60, MinSuccess: 0.95, MaxReturned: 0.05, MaxThrottled: 0.1}
	return redrive.GateRequest{Canary: n, Thresholds: &t, Policy: t}
}

// A plan without thresholds has the bytes that it had before there were any.
func TestPlanWithoutGateKeepsItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	d, err := w.planner().Draft(w.ctx, w.request())
	w.must(err)
	if text := string(d.Bytes); strings.Contains(text, "thresholds") || !strings.Contains(text, `"canary":0`) || !strings.Contains(text, `"gate":"none"`) {
		t.Error(text)
	}
}

// What a plan asks for less than its policy needs another person.
func TestWeakerGateNeedsAnother(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*redrive.GateRequest)
		weaker bool
	}{
		"as the policy":         {func(*redrive.GateRequest) {}, false},
		"stricter":              {func(g *redrive.GateRequest) { g.Thresholds.MinSuccess, g.Thresholds.MaxP95Seconds, g.Canary = 1, 5, 2 }, false},
		"no canary, none asked": {func(g *redrive.GateRequest) { g.Canary, g.PolicyCanary = 0, 0 }, false},
		"no canary":             {func(g *redrive.GateRequest) { g.Canary = 0 }, true},
		"smaller canary":        {func(g *redrive.GateRequest) { g.PolicyCanary = 2 }, true},
		"success":               {func(g *redrive.GateRequest) { g.Thresholds.MinSuccess = 0.9 }, true},
		"returned":              {func(g *redrive.GateRequest) { g.Thresholds.MaxReturned = 0.06 }, true},
		"throttled":             {func(g *redrive.GateRequest) { g.Thresholds.MaxThrottled = 0.2 }, true},
		"observation":           {func(g *redrive.GateRequest) { g.Thresholds.ObserveSeconds = 59 }, true},
		"no latency asked":      {func(g *redrive.GateRequest) { g.Policy.MaxP95Seconds = 5 }, true},
		"longer latency":        {func(g *redrive.GateRequest) { g.Policy.MaxP95Seconds, g.Thresholds.MaxP95Seconds = 5, 6 }, true},
		"no look at the ledger": {func(g *redrive.GateRequest) { g.Kind = redrive.GateDLQOnly }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3")
			req := w.request()
			req.Gate = canary(1)
			req.Gate.PolicyCanary = 1
			tt.change(&req.Gate)
			d, err := w.planner().Draft(w.ctx, req)
			w.must(err)
			if got := strings.Contains(strings.Join(d.Plan.TierWhy, " "), "weaker_gate"); got != tt.weaker {
				t.Errorf("tier %s %v, weaker %t", d.Plan.Tier, d.Plan.TierWhy, tt.weaker)
			}
		})
	}
}

// gated are a world of n jobs and a plan of them with a canary.
func gated(t *testing.T, n, size int, change ...func(*redrive.Request)) (*world, redrive.PlanID) {
	t.Helper()
	w := newWorld(t)
	for i := range n {
		w.dead(fmt.Sprint("k", i))
	}
	return w, w.plan(append([]func(*redrive.Request){func(r *redrive.Request) { r.Gate = canary(size) }}, change...)...)
}

// canaryRunner is a runner whose worker works, or does something else, whenever the
// run waits.
func (w *world) canaryRunner(id string, meanwhile func()) *redrive.Runner {
	r := w.runner(id)
	r.LeaseTTL = 48 * time.Hour // nobody renews it, and these tests wait for long
	r.Sleep = func(ctx context.Context, d time.Duration) error {
		err := w.sleep(ctx, d)
		if err == nil && meanwhile != nil {
			meanwhile()
		}
		return err
	}
	return r
}

// TestCanaryPass: the sample goes first, alone; once it is sent the rest follows.
func TestCanaryPass(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	first := 0
	ended, err := w.canaryRunner("run1", func() {
		if first == 0 {
			first = w.depth("src")
		}
		w.work()
	}).Run(w.ctx, string(id))
	w.must(err)
	f := ended.Gate.Figures
	if first != 5 || ended.State != redrive.RunFinished || ended.Report.Redriven != 30 {
		t.Errorf("%d first, %+v", first, ended)
	}
	if ended.Gate.Verdict != redrive.VerdictPass || f.Canary != 5 || f.Redrives != 5 || f.Sent != 5 || f.P50Seconds == nil || *f.P95Seconds < *f.P50Seconds {
		t.Errorf("%+v", ended.Gate)
	}
	g, err := w.store.Gate(w.ctx, "run1")
	w.must(err)
	g.At, ended.Gate.At = time.Time{}, time.Time{}
	if d := cmp.Diff(ended.Gate, g); d != "" {
		t.Error(d)
	}
}

// TestCanaryFails: what the worker refuses for good ends the run, with nothing of
// the bulk sent, and no start of it sends more.
func TestCanaryFails(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	ended, err := w.canaryRunner("run1", w.refuse).Run(w.ctx, string(id))
	if !errors.Is(err, redrive.ErrGate) || ended.State != redrive.RunAborted || ended.Gate.Verdict != redrive.VerdictFail {
		t.Fatalf("%v, %+v", err, ended)
	}
	if r := ended.Report; r.Redriven != 5 || r.Remaining != 25 || !r.Adds() || w.depth("dlq") != 30 {
		t.Errorf("%+v, %d dead", r, w.depth("dlq"))
	}
	if f := ended.Gate.Figures; f.Failed != 5 || f.Returned != 5 || f.Sent != 0 {
		t.Errorf("%+v", f)
	}
	if _, err := w.runner("").Resume(w.ctx, "run1"); !errors.Is(err, redrive.ErrRefused) || w.depth("src") != 0 {
		t.Error(err, w.depth("src"))
	}
	if _, err := w.store.Promote(w.ctx, "run1", audit.Record{}); !errors.Is(err, redrive.ErrRefused) {
		t.Error(err)
	}
}

// refuse lets the worker refuse for good everything that waits, and quarantine it.
func (w *world) refuse() {
	w.t.Helper()
	src := w.queues.Queue("src")
	ds, err := src.Receive(w.ctx, broker.Request{Max: 10, Lease: time.Minute})
	w.must(err)
	for _, d := range ds {
		key := ledger.Key{JobKey: decode(d.Message).JobKey, Consumer: "mailer"}
		if !w.noLedger {
			row := w.ledger.Get(w.ctx, []ledger.Key{key})[0].Row
			w.move(ledger.Change{Key: key, From: row.State, FromAttempt: row.Attempt, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
			w.move(ledger.Change{Key: key, From: ledger.Sending, FromAttempt: row.Attempt, To: ledger.Failed, ErrorClass: "throttled", Effect: ledger.EffectNone, Resolve: ledger.ByWorker, Actor: "worker"})
		}
	}
	// As a worker that copies dead letters does it: by a message of its own.
	for _, d := range ds {
		w.must(src.Publish(w.ctx, "dlq", []broker.Outgoing{{Message: d.Message}})[0].Err)
		w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
	}
}

// TestCanaryInconclusive: nobody works, so nothing is known. The run ends as paused
// and goes on only when a person has promoted it, and the person is on record.
func TestCanaryInconclusive(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	ended, err := w.canaryRunner("run1", nil).Run(w.ctx, string(id))
	var undecided *redrive.UndecidedError
	if !errors.As(err, &undecided) || !errors.Is(err, redrive.ErrGate) || ended.State != redrive.RunPaused || w.depth("src") != 5 {
		t.Fatalf("%v, %+v, %d sent", err, ended, w.depth("src"))
	}
	if f := ended.Gate.Figures; f.Pending != 5 || f.ObservedSeconds < 60 {
		t.Errorf("%+v", f)
	}
	// A resume looks once more, and does not go on by itself.
	ended, err = w.canaryRunner("", nil).Resume(w.ctx, "run1")
	if !errors.As(err, &undecided) || ended.State != redrive.RunPaused || w.depth("src") != 5 {
		t.Fatalf("%v, %+v", err, ended)
	}
	by := redrive.Controller{Runs: w.store, Who: who("second"), Now: w.clock}
	if _, err := by.Promote(w.ctx, "run1", "the provider's own console says that all is well"); err != nil {
		t.Fatal(err)
	}
	if _, err := by.Promote(w.ctx, "run1", "again"); !errors.Is(err, redrive.ErrRefused) {
		t.Error(err)
	}
	ended, err = w.canaryRunner("", w.work).Resume(w.ctx, "run1")
	w.must(err)
	if ended.State != redrive.RunFinished || ended.Report.Redriven != 30 || ended.Gate.Promoted.By != "second" {
		t.Errorf("%+v", ended)
	}
}

// TestCanaryLooksAgain: outcomes that came after the time was over let a resume pass.
func TestCanaryLooksAgain(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	if _, err := w.canaryRunner("run1", nil).Run(w.ctx, string(id)); !errors.Is(err, redrive.ErrGate) {
		t.Fatal(err)
	}
	w.work()
	ended, err := w.canaryRunner("", nil).Resume(w.ctx, "run1")
	w.must(err)
	if ended.Gate.Verdict != redrive.VerdictPass || ended.Report.Redriven != 30 {
		t.Errorf("%+v", ended)
	}
}

// TestCanaryWaits: a run that waits at its gate holds its lease, and goes on when
// somebody else promotes it.
func TestCanaryWaits(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 12, 2)
	r := w.canaryRunner("run1", func() {
		rr, err := w.store.LoadRun(w.ctx, "run1")
		w.must(err)
		if rr.State != redrive.RunPaused || rr.Gate.Verdict != redrive.VerdictInconclusive || rr.Gate.Open() {
			return
		}
		if !rr.Lives || w.depth("src") != 2 {
			t.Errorf("%+v, %d sent", rr, w.depth("src"))
		}
		by := redrive.Controller{Runs: w.store, Who: who("second"), Now: w.clock}
		_, err = by.Promote(w.ctx, "run1", "seen by hand")
		w.must(err)
	})
	r.WaitAtGate = true
	ended, err := r.Run(w.ctx, string(id))
	w.must(err)
	if ended.State != redrive.RunFinished || ended.Report.Redriven != 12 || ended.Gate.Promoted.Reason != "seen by hand" {
		t.Errorf("%+v", ended)
	}
}

// TestCanaryStops: what ends a run between two batches ends it while it observes,
// and while it waits for a person.
func TestCanaryStops(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stop func(w *world, id redrive.PlanID)
		why  string
	}{
		"revoked": {func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver0").Revoke(w.ctx, string(id), "no")
			w.must(err)
		}, "revoked"},
		"plan expired":     {func(w *world, _ redrive.PlanID) { w.pass(2 * time.Hour) }, "expired"},
		"policy changed":   {func(w *world, _ redrive.PlanID) { w.policy = "p2" }, "policy changed"},
		"aborted":          {func(w *world, _ redrive.PlanID) { w.asks(redrive.WishAbort) }, "aborted"},
		"approval expired": {func(w *world, _ redrive.PlanID) { w.pass(9 * time.Hour) }, "approval_expired"},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " waits ", waits), func(t *testing.T) {
				t.Parallel()
				w, id := gated(t, 30, 5, func(r *redrive.Request) {
					if name == "approval expired" {
						r.Expires = 24 * time.Hour
					}
				})
				var r *redrive.Runner
				done := false
				r = w.canaryRunner("run1", func() {
					rr, err := w.store.LoadRun(w.ctx, "run1")
					w.must(err)
					if at := w.depth("src") == 5 && (!waits || rr.State == redrive.RunPaused); at && !done {
						done = true
						tt.stop(w, id)
						r.Current.Policy = w.policy
					}
				})
				r.WaitAtGate = true
				ended, err := r.Run(w.ctx, string(id))
				var stopped *redrive.StoppedError
				if !errors.As(err, &stopped) || stopped.Why != tt.why || ended.State != redrive.RunAborted {
					t.Fatalf("%v, %+v", err, ended)
				}
				if w.depth("src") != 5 || !ended.Report.Adds() || ended.Report.Redriven != 5 {
					t.Errorf("%d sent, %+v", w.depth("src"), ended.Report)
				}
			})
		}
	}
}

// TestCanaryPaused: the time of observation runs on while a person pauses the run.
func TestCanaryPaused(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	began := w.clock()
	asked, lifted := false, false
	ended, err := w.canaryRunner("run1", func() {
		rr, err := w.store.LoadRun(w.ctx, "run1")
		w.must(err)
		switch {
		case !asked && w.depth("src") == 5:
			asked = true
			w.asks(redrive.WishPause)
		case asked && !lifted && rr.State == redrive.RunPaused:
			w.work()
			if w.clock().Sub(began) > 40*time.Second {
				lifted = true
				_, err := w.controller().Lift(w.ctx, "run1", "")
				w.must(err)
			}
		}
	}).Run(w.ctx, string(id))
	w.must(err)
	if !lifted || ended.Gate.Verdict != redrive.VerdictPass || ended.Report.Redriven != 30 {
		t.Errorf("lifted %t, %+v", lifted, ended)
	}
}

// TestCanaryInterrupted: Ctrl-C while outcomes are waited for; a resume goes on with
// the same sample and the time that is left.
func TestCanaryInterrupted(t *testing.T) {
	t.Parallel()
	w, id := gated(t, 30, 5)
	ctx, cancel := context.WithCancel(w.ctx)
	ended, err := w.canaryRunner("run1", func() {
		if w.depth("src") == 5 {
			cancel()
		}
	}).Run(ctx, string(id))
	if !errors.Is(err, context.Canceled) || ended.State != redrive.RunInterrupted || w.depth("src") != 5 {
		t.Fatalf("%v, %+v", err, ended)
	}
	w.pass(30 * time.Second)
	looks := 0
	ended, err = w.canaryRunner("", func() { looks++ }).Resume(w.ctx, "run1")
	if !errors.Is(err, redrive.ErrGate) || w.depth("src") != 5 || looks > 40 || ended.Gate.Verdict != redrive.VerdictInconclusive {
		t.Errorf("%v after %d looks, %d sent, %+v", err, looks, w.depth("src"), ended)
	}
}

// TestCanaryWithoutLedger: nothing but what comes back is known, and it is waited
// for as long as a copy can be tried.
func TestCanaryWithoutLedger(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		to       string // slow: tries a copy for four minutes
		meet     func(w *world)
		broker   func(w *world) broker.Broker
		verdict  redrive.Verdict
		observed time.Duration
	}{
		"none came back":     {to: "src", meet: (*world).work, verdict: redrive.VerdictPass, observed: time.Minute},
		"tried for long":     {to: "slow", verdict: redrive.VerdictPass, observed: 4 * time.Minute},
		"all came back":      {to: "src", meet: (*world).refuse, verdict: redrive.VerdictFail},
		"nobody took them":   {to: "src", verdict: redrive.VerdictPass, observed: time.Minute},
		"it does not answer": {to: "src", broker: func(w *world) broker.Broker { return deaf{w.queues.Queue("dlq")} }, verdict: redrive.VerdictInconclusive, observed: time.Minute},
		"it cannot tell":     {to: "src", broker: func(w *world) broker.Broker { return &faultyBroker{w.broker, w} }, verdict: redrive.VerdictInconclusive, observed: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noLedger = true
			w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "slow", DeadLetter: "dlq", MaxReceives: 8}))
			for i := range 12 {
				w.copy(fmt.Sprint("k", i), "")
			}
			id := w.plan(func(r *redrive.Request) { r.Gate, r.Queue.Destination = canary(3), tt.to })
			r := w.canaryRunner("run1", func() {
				if tt.meet != nil {
					tt.meet(w)
				}
			})
			r.Broker = w.broker
			if tt.broker != nil {
				r.Broker = tt.broker(w)
			}
			ended, err := r.Run(w.ctx, string(id))
			if ended.Gate.Verdict != tt.verdict || (err == nil) != (tt.verdict == redrive.VerdictPass) {
				t.Fatalf("%v, %+v", err, ended.Gate)
			}
			got := time.Duration(ended.Gate.Figures.ObservedSeconds * float64(time.Second))
			if got < tt.observed || got > tt.observed+10*time.Second {
				t.Errorf("observed for %s, want %s", got, tt.observed)
			}
		})
	}
}

// deaf is a queue that cannot be looked at.
type deaf struct{ *local.Queue }

func (deaf) Browse(context.Context, int, func(broker.Message) error) (broker.Completeness, error) {
	return broker.Completeness{}, errFault
}

// TestCanaryLookThatCosts: where a look counts as a receive there is one, at the end,
// and none where the ledger tells all.
func TestCanaryLookThatCosts(t *testing.T) {
	t.Parallel()
	for _, works := range []bool{true, false} {
		t.Run(fmt.Sprint("worker works ", works), func(t *testing.T) {
			t.Parallel()
			w, id := gated(t, 12, 3)
			b := &costly{Queue: w.queues.Queue("dlq")}
			r := w.canaryRunner("run1", func() {
				if works {
					w.work()
				}
			})
			r.Broker = b
			ended, err := r.Run(w.ctx, string(id))
			if (err == nil) != works || b.looks != map[bool]int{true: 0, false: 1}[works] {
				t.Errorf("%v after %d looks, %+v", err, b.looks, ended.Gate)
			}
		})
	}
}

// costly is a queue at which no look is free.
type costly struct {
	*local.Queue
	looks int
}

func (c *costly) Capabilities() broker.Capabilities {
	caps := c.Queue.Capabilities()
	caps.FreePeek = false
	return caps
}

func (c *costly) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	c.looks++
	return c.Queue.Browse(ctx, limit, each)
}

// TestCanaryOnOrderedQueue: the heads of groups go first, and no group is overtaken.
func TestCanaryOnOrderedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "fifo-dlq", Ordered: true}))
	w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "fifo", Ordered: true}))
	w.broker = w.queues.Queue("fifo-dlq")
	for i := range 12 {
		k := fmt.Sprint("k", i)
		w.must(w.queues.Queue("fifo").Publish(w.ctx, "fifo-dlq", []broker.Outgoing{{Message: broker.Message{
			Body: []byte(k), OrderKey: fmt.Sprint("g", i%3), Attributes: []broker.Attribute{{Name: "job_key", Type: "String", Value: []byte(k)}},
		}}})[0].Err)
		w.row(k, ledger.Failed)
	}
	id := w.plan(func(r *redrive.Request) {
		r.Gate, r.Queue.Entity, r.Queue.Destination = canary(5), "fifo-dlq", "fifo"
	})
	var first []string
	ended, err := w.canaryRunner("run1", func() {
		if len(first) == 0 {
			first = w.keysIn("fifo")
		}
		w.workOn("fifo")
	}).Run(w.ctx, string(id))
	w.must(err)
	groups := map[byte][]string{}
	for _, k := range first {
		var n int
		_, err := fmt.Sscanf(k, "k%d", &n)
		w.must(err)
		groups[byte(n%3)] = append(groups[byte(n%3)], k)
	}
	for g, ks := range groups {
		if want := []string{fmt.Sprint("k", g), fmt.Sprint("k", g+3)}[:len(ks)]; !slices.Equal(ks, want) {
			t.Errorf("group %d: %v, want %v", g, ks, want)
		}
	}
	if len(first) != 5 || len(groups) != 3 || ended.Report.Redriven != 12 {
		t.Errorf("%v first, %+v", first, ended)
	}
}

func (w *world) keysIn(queue string) []string {
	w.t.Helper()
	var keys []string
	_, err := w.queues.Queue(queue).Browse(w.ctx, 0, func(m broker.Message) error {
		keys = append(keys, decode(m).JobKey)
		return nil
	})
	w.must(err)
	return keys
}
