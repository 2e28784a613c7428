package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

func (w *world) run(id redrive.PlanID) (redrive.Ended, error) {
	w.t.Helper()
	r := w.runner("run1")
	return w.told(r, func() (redrive.Ended, error) { return r.Run(w.ctx, string(id)) })
}

// told checks what every run tells of itself.
func (w *world) told(r *redrive.Runner, carry func() (redrive.Ended, error)) (redrive.Ended, error) {
	w.t.Helper()
	begun := 0
	r.Begun = func(planned int) { begun += planned }
	e, err := carry()
	if !e.Report.Adds() {
		w.t.Errorf("report does not add up: %+v", e.Report)
	}
	if begun != e.Report.Planned {
		w.t.Errorf("told of %d jobs at the beginning, planned %d", begun, e.Report.Planned)
	}
	return e, err
}

func (w *world) resume() (redrive.Ended, error) {
	w.t.Helper()
	w.pass(2 * time.Second)
	r := w.runner("unused")
	return w.told(r, func() (redrive.Ended, error) { return r.Resume(w.ctx, "run1") })
}

func report(planned int, change func(*redrive.Report)) redrive.Report {
	r := redrive.Report{Planned: planned, Skipped: map[string]int{}}
	change(&r)
	return r
}

// TestOrder holds the order of steps, and for a fault at each call what was
// still done, what the report says, where the row is, and that resume ends
// with exactly one effect and nothing lost.
func TestOrder(t *testing.T) {
	t.Parallel()
	const all = "log:intent ledger publish log:publish ack log:ack"
	tests := []struct {
		name, failAt string
		err          error // errFault by default
		calls        string
		wantErr      error
		state        redrive.RunState
		row          string
		report       func(*redrive.Report)
		resumed      func(*redrive.Report) // nil: nothing to resume
		sends        int
		dlq          int // copies left in the end
	}{
		{
			"no fault", "", nil, all, nil, redrive.RunFinished, "queued 2",
			func(r *redrive.Report) { r.Redriven = 1 }, nil, 1, 0,
		},
		{
			"intent not durable", "log:intent", nil, "log:intent release", audit.ErrNotWritable, redrive.RunFailed, "failed 1",
			func(r *redrive.Report) { r.Remaining = 1 }, func(r *redrive.Report) { r.Redriven = 1 }, 1, 0,
		},
		{
			"ledger does not answer", "ledger", nil, "log:intent ledger release", nil, redrive.RunInterrupted, "failed 1",
			func(r *redrive.Report) { r.Unknown = 1 }, func(r *redrive.Report) { r.Redriven = 1 }, 1, 0,
		},
		{
			"ledger's reply lost", "ledger", errLost, all, nil, redrive.RunFinished, "queued 2",
			func(r *redrive.Report) { r.Redriven = 1 }, nil, 1, 0,
		},
		{
			"publish refused", "publish", nil, "log:intent ledger publish log:publish log:close:failed:publish_refused release", nil, redrive.RunFinished, "queued 2",
			func(r *redrive.Report) { r.Failed = 1 }, nil, 0, 1,
		},
		{
			"publish's reply lost", "publish", errLost, "log:intent ledger publish log:publish release", nil, redrive.RunInterrupted, "queued 2",
			func(r *redrive.Report) { r.Unknown = 1 }, func(r *redrive.Report) { r.Redriven = 1 }, 1, 0,
		},
		{
			"publish not recorded", "log:publish", nil, "log:intent ledger publish log:publish release", audit.ErrNotWritable, redrive.RunFailed, "queued 2",
			func(r *redrive.Report) { r.Unknown = 1 }, func(r *redrive.Report) { r.Redriven = 1 }, 1, 0,
		},
		{
			"ack refused", "ack", nil, all + " release ack log:ack", nil, redrive.RunFinished, "queued 2",
			func(r *redrive.Report) { r.Redriven = 1 }, nil, 1, 0,
		},
		{
			"ack's reply lost", "ack", errLost, "log:intent ledger publish log:publish ack ack log:ack release", nil, redrive.RunInterrupted, "queued 2",
			func(r *redrive.Report) { r.Unknown = 1 }, func(r *redrive.Report) { r.Unknown = 1 }, 1, 0,
		},
		{
			"ack not recorded", "log:ack", nil, all + " release", audit.ErrNotWritable, redrive.RunFailed, "queued 2",
			func(r *redrive.Report) { r.Unknown = 1 }, func(r *redrive.Report) { r.Unknown = 1 }, 1, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			w.reset()
			if tt.failAt != "" {
				w.fault = failAt(tt.failAt, 1)
				if tt.err != nil {
					w.fault = func(name string) error {
						if name == tt.failAt {
							return tt.err
						}
						return nil
					}
				}
			}
			e, err := w.run(id)
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			if got := w.trace(); got != tt.calls {
				t.Errorf("calls\n got %s\nwant %s", got, tt.calls)
			}
			if e.State != tt.state || w.state("k1") != tt.row {
				t.Errorf("run %s, row %s; want %s, %s", e.State, w.state("k1"), tt.state, tt.row)
			}
			if d := cmp.Diff(report(1, tt.report), e.Report); d != "" {
				t.Error(d)
			}
			w.reset()
			if tt.resumed != nil {
				e, err := w.resume()
				w.must(err)
				if d := cmp.Diff(report(1, tt.resumed), e.Report); d != "" || e.State != redrive.RunFinished {
					t.Error("resumed", e.State, d)
				}
			}
			w.work()
			if w.sends["k1"] != tt.sends || w.depth("dlq") != tt.dlq {
				t.Errorf("%d effects, %d dead; want %d, %d", w.sends["k1"], w.depth("dlq"), tt.sends, tt.dlq)
			}
		})
	}
}

// TestSettleOrder: archive, intent, ledger, acknowledge; nothing is published.
func TestSettleOrder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, failAt, calls string
		wantErr             error
		left                int
		resume              bool
	}{
		{"no fault", "", "archive log:intent ack log:ack", nil, 0, false},
		{"archive", "archive", "archive release", audit.ErrNotWritable, 1, true},
		{"intent", "log:intent", "archive log:intent release", audit.ErrNotWritable, 1, true},
		{"ack", "ack", "archive log:intent ack log:ack release archive ack log:ack", nil, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.copy("k1", "")
			w.row("k1", ledger.Sent)
			id := w.plan()
			w.reset()
			if tt.failAt != "" {
				w.fault = failAt(tt.failAt, 1)
			}
			_, err := w.run(id)
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			if got := w.trace(); got != tt.calls {
				t.Errorf("calls\n got %s\nwant %s", got, tt.calls)
			}
			if got := w.depth("dlq"); got != tt.left {
				t.Errorf("%d copies left, want %d", got, tt.left)
			}
			w.reset()
			if tt.resume {
				w.pass(time.Hour)
				e, err := w.resume()
				w.must(err)
				if e.Report.Settled != 1 || w.depth("dlq") != 0 {
					t.Errorf("resumed: %+v", e.Report)
				}
			}
			if w.depth("src") != 0 {
				t.Error("a settled job was published")
			}
		})
	}
}

// TestFaithful is promise 8: the copy in the source is the dead one, byte for
// byte, and only the trace header travels of what the broker keeps beside it.
func TestFaithful(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "app", DeadLetter: "dlq", MaxReceives: 9}))
	w.copyTo("app", "k1", "group")
	w.row("k1", ledger.Failed)
	app := w.queues.Queue("app")
	taken, err := app.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
	w.must(err)
	w.must(app.Quarantine(w.ctx, taken, broker.Reason{Type: "transient", Code: "503"})[0].Err)
	before := w.jobs()[0].Message
	if len(before.System) < 2 {
		t.Fatalf("the dead copy has only %v beside it", before.System)
	}
	_, err = w.run(w.plan())
	w.must(err)
	ds, err := app.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
	w.must(err)
	type sent struct {
		Body               []byte
		Attributes, System []broker.Attribute
		OrderKey           string
	}
	want := sent{before.Body, before.Attributes, []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1")}}, before.OrderKey}
	got := sent{ds[0].Body, ds[0].Attributes, ds[0].System, ds[0].OrderKey}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestApprovedMeansExactlyThis is promise 5: what changed between approval and
// run is skipped and named.
func TestApprovedMeansExactlyThis(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world)
		skip   string
	}{
		{"row claimed and failed again", func(w *world) {
			k := ledger.Key{JobKey: "k1", Consumer: "mailer"}
			w.move(ledger.Change{Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Sending, Attempt: 2, ClaimLife: time.Minute, Actor: "worker"})
		}, "changed_ledger"},
		{"row claimed and sent", func(w *world) {
			k := ledger.Key{JobKey: "k1", Consumer: "mailer"}
			w.move(ledger.Change{Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Sending, Attempt: 2, ClaimLife: time.Minute, Actor: "worker"})
			w.move(ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 2, To: ledger.Sent, Actor: "worker", Resolve: ledger.ByWorker})
		}, "already_sent"},
		{"class", func(w *world) { w.class.Class = classify.Unavailable }, "changed_class"},
		{"rule", func(w *world) { w.class.Rule = "another" }, "changed_class"},
		{"copy gone", func(w *world) {
			q := w.queues.Queue("dlq")
			ds, err := q.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
			w.must(err)
			w.must(q.Ack(w.ctx, ds)[0].Err)
		}, "gone"},
		{"message", func(w *world) { w.broker = &otherBody{w.broker} }, "changed_message"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			tt.change(w)
			e, err := w.run(id)
			w.must(err)
			want := report(1, func(r *redrive.Report) { r.Skipped[tt.skip] = 1 })
			if d := cmp.Diff(want, e.Report); d != "" || w.depth("src") != 0 {
				t.Error(d, w.depth("src"))
			}
		})
	}
}

type otherBody struct{ broker.Broker }

func (b *otherBody) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	ds, err := b.Broker.Receive(ctx, r)
	for i := range ds {
		ds[i].Body = []byte("other")
	}
	return ds, err
}

// TestLedgerDecides: a row that moves after the re-check loses the
// compare-and-set, and nothing is published.
func TestLedgerDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	w.reset()
	w.fault = func(call string) error {
		if call == "ledger" {
			w.move(ledger.Change{Key: ledger.Key{JobKey: "k1", Consumer: "mailer"}, From: ledger.Failed, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff(report(1, func(r *redrive.Report) { r.Skipped["ledger_lost"] = 1 }), e.Report); d != "" || w.depth("src") != 0 {
		t.Error(d)
	}
	if got, want := w.trace(), "log:intent ledger log:close:skipped:ledger_lost release"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

// TestBeginRefuses is the other half of promise 5: a changed plan, policy or
// approval never begins.
func TestBeginRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world, redrive.PlanID)
	}{
		{"policy changed", func(w *world, _ redrive.PlanID) { w.policy = "p3" }},
		{"plan expired", func(w *world, _ redrive.PlanID) { w.pass(3 * time.Hour) }},
		{"rejected", func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver").Reject(w.ctx, string(id), "no")
			w.must(err)
		}},
		{"revoked", func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver").Revoke(w.ctx, string(id), "no")
			w.must(err)
		}},
		{"ran already", func(w *world, id redrive.PlanID) {
			_, err := w.runner("run0").Run(w.ctx, string(id))
			w.must(err)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			tt.change(w, id)
			before := w.depth("src")
			w.reset()
			if _, err := w.run(id); !errors.Is(err, redrive.ErrRefused) {
				t.Errorf("error %v, want a refusal", err)
			}
			if w.trace() != "" || w.depth("src") != before {
				t.Errorf("it acted: %s", w.trace())
			}
		})
	}
}

// TestTwoRuns: two operators, one winner; the loser is told who and when.
func TestTwoRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan()
	var loser error
	w.fault = func(call string) error {
		if call == "publish" {
			_, loser = w.runner("run2").Run(w.ctx, string(id))
		}
		return nil
	}
	_, err := w.run(id)
	w.must(err)
	var taken *redrive.TakenError
	if !errors.As(loser, &taken) || taken.Run != "run1" || taken.Holder != "operator@host" || taken.Since.IsZero() {
		t.Errorf("loser got %v", loser)
	}
}

// TestNothingNewAfter is promise 6 and 7: after expiry or revocation nothing is
// published, and the rest of the plan remains.
func TestNothingNewAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, at string
		happens  func(*world, redrive.PlanID)
		report   func(*redrive.Report)
		row      string
	}{
		{"revoked while running", "ack", func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver").Revoke(w.ctx, string(id), "stop")
			w.must(err)
		}, func(r *redrive.Report) { r.Redriven, r.Remaining = 2, 3 }, "failed 1"},
		{
			"expired between batches", "ack", func(w *world, _ redrive.PlanID) { w.pass(2 * time.Hour) },
			func(r *redrive.Report) { r.Unknown, r.Remaining = 2, 3 }, "failed 1",
		},
		{
			"expired before the publish", "ledger", func(w *world, _ redrive.PlanID) { w.pass(9 * time.Minute) },
			func(r *redrive.Report) { r.Skipped["expired"], r.Remaining = 2, 3 }, "failed 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3", "k4", "k5")
			id := w.plan(func(r *redrive.Request) {
				r.Rate = 2
				if tt.at == "ledger" {
					r.Expires = 8 * time.Minute
				}
			})
			w.fault = func(call string) error {
				if call == tt.at {
					w.fault = nil
					tt.happens(w, id)
				}
				return nil
			}
			e, err := w.run(id)
			if err == nil {
				t.Error("no error")
			}
			if tt.at == "ack" && tt.name != "revoked while running" {
				return // the lease ran out as well; TestLeaseLost has it
			}
			if d := cmp.Diff(report(5, tt.report), e.Report); d != "" {
				t.Error(d)
			}
			if w.state("k5") != tt.row || e.State != redrive.RunAborted || !errors.Is(err, redrive.ErrRefused) {
				t.Error(w.state("k5"), e.State, err)
			}
		})
	}
}

// TestLeaseLost: a runner that was suspended past its lease starts no step
// after another took the queue.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"log:intent": "log:intent", "ledger": "log:intent ledger release",
		"publish": "log:intent ledger publish log:publish", "log:publish": "log:intent ledger publish log:publish",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan()
			w.reset()
			w.fault = func(call string) error {
				if call == at {
					w.fault = nil
					w.pass(90 * time.Minute) // the lease is an hour
				}
				return nil
			}
			e, err := w.run(id)
			if !errors.Is(err, audit.ErrFenced) || e.State == redrive.RunFinished {
				t.Errorf("%s %v", e.State, err)
			}
			if got := w.trace(); got != want {
				t.Errorf("calls %s, want %s", got, want)
			}
			w.reset()
			if _, err = w.resume(); err != nil {
				t.Log(err) // the plan may have expired; the count is what matters
			}
			w.work()
			if w.sends["k1"] > 1 || w.sends["k1"]+w.depth("dlq") < 1 {
				t.Errorf("%d effects, %d dead", w.sends["k1"], w.depth("dlq"))
			}
		})
	}
}

// TestInterrupt is promise 7: Ctrl-C finishes the batch in flight, releases
// what is held and leaves the rest to resume.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3")
	id := w.plan(func(r *redrive.Request) { r.Rate = 1 })
	ctx, stop := context.WithCancel(w.ctx)
	w.fault = func(call string) error {
		if call == "ledger" {
			stop()
		}
		return nil
	}
	e, err := w.runner("run1").Run(ctx, string(id))
	if !errors.Is(err, context.Canceled) || e.State != redrive.RunInterrupted {
		t.Error(e.State, err)
	}
	if d := cmp.Diff(report(3, func(r *redrive.Report) { r.Redriven, r.Remaining = 1, 2 }), e.Report); d != "" {
		t.Error(d)
	}
	w.fault = nil
	e, err = w.resume()
	w.must(err)
	if d := cmp.Diff(report(3, func(r *redrive.Report) { r.Redriven = 3 }), e.Report); d != "" || e.State != redrive.RunFinished {
		t.Error(e.State, d)
	}
}

// TestStoreLost: what is in flight when the store fails is handed to Orphans,
// and the copy stays.
func TestStoreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	id := w.plan()
	w.fault = failAt("log:publish", 1)
	_, err := w.run(id)
	if !errors.Is(err, audit.ErrNotWritable) || len(w.orphans) != 2 || w.orphans[0].Step != audit.StepPublish || w.orphans[0].Result != audit.ResultDone {
		t.Errorf("%v, orphans %+v", err, w.orphans)
	}
	if w.depth("dlq") != 2 {
		t.Error("a copy left the queue without a record")
	}
}
