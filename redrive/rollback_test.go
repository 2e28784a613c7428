package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/worker"
	"github.com/redrivectl/redrivectl/redrive"
)

// mailer is the reference worker on the source queue; its sends are the world's.
func (w *world) mailer() *worker.Worker {
	return &worker.Worker{
		Queue: w.queues.Queue("src"), Ledger: w.ledger, Renderings: w.ledger, Sender: mailed{w},
		Decode: func(m broker.Message) (worker.Work, error) {
			return worker.Work{Key: ledger.Key{JobKey: decode(m).JobKey, Consumer: "mailer"}}, nil
		},
		Render: func(m broker.Message, _ ledger.Row) ([]byte, error) { return m.Body, nil },
		Retry:  classify.RetryPolicy{Base: time.Second, Budget: 5}, ClaimLife: time.Minute, Lease: 5 * time.Minute,
		Batch: 1, Actor: "worker", Now: w.clock, Rand: rand.New(rand.NewPCG(1, 2)), Report: func(err error) { w.t.Error(err) },
	}
}

type mailed struct{ w *world }

func (m mailed) Send(_ context.Context, r worker.Request) (string, error) {
	m.w.sends[r.Key.JobKey]++
	return "req-" + r.Key.JobKey, nil
}

// mail lets the worker handle so many copies.
func (w *world) mail(n int) {
	w.t.Helper()
	m := w.mailer()
	for range n {
		_, err := m.Step(w.ctx)
		w.must(err)
	}
}

func (w *world) rollback() (redrive.RollbackReport, error) {
	w.t.Helper()
	r, err := w.runner("unused").Rollback(w.ctx, "run1", "wrong selection")
	n := 0
	for _, k := range r.Counts {
		n += k
	}
	if err == nil && n != r.Planned {
		w.t.Errorf("the counts do not add up: %+v", r)
	}
	return r, err
}

// rolledBack demands that it succeeds with these counts.
func (w *world) rolledBack(want map[redrive.Back]int) redrive.RollbackReport {
	w.t.Helper()
	r, err := w.rollback()
	w.must(err)
	if d := cmp.Diff(want, r.Counts); d != "" {
		w.t.Errorf("rollback (want, got): %s", d)
	}
	return r
}

// states are the rows of the keys, as "state attempt".
func (w *world) states(keys ...string) string {
	w.t.Helper()
	var ss []string
	for _, k := range keys {
		ss = append(ss, w.state(k))
	}
	return strings.Join(ss, ", ")
}

// deadKeys are the job keys of the copies in the dead-letter queue, sorted.
func (w *world) deadKeys() []string {
	w.t.Helper()
	keys := []string{}
	for _, j := range w.jobs() {
		keys = append(keys, j.JobKey)
	}
	slices.Sort(keys)
	return keys
}

// TestRollbackHalfClaimed: of a run whose jobs a worker has half claimed, exactly
// the others come back, through the worker's own dead-lettering; a new plan takes
// them up, and each has its effect once.
func TestRollbackHalfClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3", "k4")
	_, err := w.run(w.plan())
	w.must(err)
	w.mail(2)
	r := w.rolledBack(map[redrive.Back]int{redrive.BackTaken: 2, redrive.BackClaimed: 2})
	claimed := slices.Sorted(maps.Keys(w.sends))
	var named []string
	for _, i := range r.Items {
		if i.Back == redrive.BackClaimed {
			named = append(named, strings.TrimPrefix(i.LedgerRow, "app/mailer/")+" "+i.Why)
		}
	}
	if d := cmp.Diff([]string{claimed[0] + " row_sent", claimed[1] + " row_sent"}, named); d != "" || r.State != redrive.RunFinished || r.Whole() {
		t.Errorf("claimed: %s, %s", d, r.State)
	}
	w.mail(2)
	others := slices.DeleteFunc([]string{"k1", "k2", "k3", "k4"}, func(k string) bool { return slices.Contains(claimed, k) })
	if d := cmp.Diff(others, w.deadKeys()); d != "" || w.depth("src") != 0 || len(w.sends) != 2 {
		t.Errorf("dead: %s; %d in the source, sends %v", d, w.depth("src"), w.sends)
	}
	for _, j := range w.jobs() {
		if f := j.Failure; f.Type != "throttled" || f.Message != "rolled_back" {
			t.Errorf("%s came back with %+v", j.JobKey, f)
		}
	}
	w.rolledBack(map[redrive.Back]int{redrive.BackBefore: 2, redrive.BackClaimed: 2})
	_, err = w.runner("run2").Run(w.ctx, string(w.plan()))
	w.must(err)
	w.mail(2)
	if d := cmp.Diff(map[string]int{"k1": 1, "k2": 1, "k3": 1, "k4": 1}, w.sends); d != "" || w.depth("dlq")+w.depth("src") != 0 {
		t.Errorf("sends: %s", d)
	}
	w.verifiedLog()
}

// verifiedLog demands a sound log without an open intent.
func (w *world) verifiedLog() {
	w.t.Helper()
	v, err := w.store.VerifyAudit(w.ctx)
	w.must(err)
	if !v.OK || v.OpenIntents != 0 {
		w.t.Errorf("audit log: %+v", v)
	}
}

// TestRollbackCrash stops the process that rolls back at each of its calls, with a
// run that was left finished or with open intents; what was begun at the ledger
// took place. Typed again it finishes, and no worker can claim anything.
func TestRollbackCrash(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]int{"finished": 99, "before the ledger": 1, "before the publish": 3, "before the record": 4, "before the ack": 5} {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprintf("%s, call %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.dead("k1", "k2", "k3")
				w.fault = stopAt(call)
				if call == 1 {
					w.fault = stopAtLedger()
				}
				_, _ = w.run(w.plan())
				w.pass(65 * time.Minute)
				w.fault = stopAt(n)
				_, first := w.rollback()
				w.fault = nil
				w.pass(65 * time.Minute)
				r, err := w.rollback()
				w.must(err)
				if n := r.Counts[redrive.BackTaken] + r.Counts[redrive.BackBefore]; n != 3 || !r.Whole() || !r.State.Ended() {
					t.Errorf("%+v after %v", r, first)
				}
				if _, err := w.resume(); !errors.Is(err, redrive.ErrRefused) {
					t.Errorf("resumed: %v", err)
				}
				if got := w.states("k1", "k2", "k3"); got != "failed 2, failed 2, failed 2" {
					t.Errorf("rows: %s", got)
				}
				w.mail(6)
				if len(w.sends) != 0 || w.depth("src") != 0 {
					t.Errorf("sends %v, %d in the source", w.sends, w.depth("src"))
				}
				keys := w.deadKeys()
				if d := cmp.Diff([]string{"k1", "k2", "k3"}, slices.Compact(keys)); d != "" {
					t.Errorf("dead: %s", d)
				}
				w.verifiedLog()
				_, err = w.runner("run2").Run(w.ctx, string(w.plan()))
				w.must(err)
				w.mail(3)
				if d := cmp.Diff(map[string]int{"k1": 1, "k2": 1, "k3": 1}, w.sends); d != "" {
					t.Errorf("sends: %s", d)
				}
			})
		}
	}
}

// TestRollbackRaceWithClaim: a worker claims between the look at its row and the
// move. The move loses, and the job is named as claimed.
func TestRollbackRaceWithClaim(t *testing.T) {
	t.Parallel()
	for _, claims := range []int{1, 2} {
		w := newWorld(t)
		w.dead("k1", "k2")
		_, err := w.run(w.plan())
		w.must(err)
		w.onCall("ledger", 1, func() { w.mail(claims) })
		r := w.rolledBack(maps.Collect(counted(redrive.BackTaken, 2-claims, redrive.BackClaimed, claims)))
		w.mail(2)
		if len(w.sends) != claims || w.depth("dlq") != 2-claims || r.Whole() {
			t.Errorf("%d claims: sends %v, %d dead, %+v", claims, w.sends, w.depth("dlq"), r)
		}
		w.verifiedLog()
	}
}

// counted yields the counts that are not 0.
func counted(a redrive.Back, na int, b redrive.Back, nb int) func(func(redrive.Back, int) bool) {
	return func(yield func(redrive.Back, int) bool) {
		if na > 0 && !yield(a, na) {
			return
		}
		if nb > 0 {
			yield(b, nb)
		}
	}
}

// TestRollbackLateStep4: a run was suspended between its intent and its move of
// the row, and goes on when its lease is over: before the rollback's own move,
// which is tried again, or after it, and then it loses.
func TestRollbackLateStep4(t *testing.T) {
	t.Parallel()
	late := ledger.Change{
		Key: ledger.Key{JobKey: "k", Consumer: "mailer"}, From: ledger.Failed, FromAttempt: 1, To: ledger.Queued, Run: "run1", Actor: "operator",
	}
	for _, before := range []bool{true, false} {
		w := newWorld(t)
		w.dead("k")
		w.fault = stopAtLedger()
		e, _ := w.run(w.plan())
		if e.State.Ended() || w.state("k") != "failed 1" {
			t.Fatal(e.State, w.state("k"))
		}
		w.pass(65 * time.Minute)
		w.reset()
		if before {
			w.onCall("ledger", 1, func() { w.move(late) })
		}
		r := w.rolledBack(map[redrive.Back]int{redrive.BackTaken: 1})
		if o := w.ledger.Apply(w.ctx, []ledger.Change{late})[0].Outcome; o != ledger.Lost {
			t.Errorf("before %v: the late step 4 is %v", before, o)
		}
		if w.state("k") != "failed 2" || r.State != redrive.RunAborted {
			t.Errorf("before %v: %s, %s", before, w.state("k"), r.State)
		}
		w.publishLate("k")
		w.mail(1)
		if len(w.sends) != 0 || w.depth("src") != 0 || w.depth("dlq") != 2 {
			t.Errorf("before %v: sends %v, %d dead", before, w.sends, w.depth("dlq"))
		}
		w.verifiedLog()
	}
}

// stopAtLedger is a process that is suspended with its intent written and the row
// as planned, and never comes back.
func stopAtLedger() func(string) error {
	gone := false
	return func(call string) error {
		gone = gone || call == "ledger"
		if gone {
			return errFault
		}
		return nil
	}
}

// publishLate is the publish of a process that slept since it asked for its lease.
func (w *world) publishLate(key string) {
	w.t.Helper()
	for _, j := range w.jobs() {
		if j.JobKey == key {
			w.must(w.queues.Queue("src").Publish(w.ctx, "src", []broker.Outgoing{{Message: j.Outgoing()}})[0].Err)
			return
		}
	}
	w.t.Fatalf("no dead copy of %s", key)
}

// TestRollbackLiving: a run that lives is aborted first; what it has done until
// then is taken back.
func TestRollbackLiving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3", "k4", "k5")
	id := w.plan(func(r *redrive.Request) { r.Rate = 2 })
	done := make(chan error)
	asked := make(chan struct{})
	w.onCall("log:ack", 1, func() {
		go func() {
			r := w.runner("unused")
			r.Sleep = func(context.Context, time.Duration) error {
				select {
				case asked <- struct{}{}:
				default:
				}
				return nil
			}
			report, err := r.Rollback(w.ctx, "run1", "wrong selection")
			if report.Counts[redrive.BackTaken] != 2 || report.Counts[redrive.BackNotOut] != 3 || report.State != redrive.RunAborted {
				t.Errorf("%+v", report)
			}
			done <- err
		}()
		<-asked
	})
	e, err := w.runner("run1").Run(w.ctx, string(id))
	var stopped *redrive.StoppedError
	if !errors.As(err, &stopped) || !stopped.Aborted() || e.Report.Redriven != 2 {
		t.Errorf("%+v %v", e, err)
	}
	w.must(<-done)
	w.mail(2)
	if len(w.sends) != 0 || w.depth("dlq") != 5 {
		t.Errorf("sends %v, %d dead", w.sends, w.depth("dlq"))
	}
	w.verifiedLog()
}

// TestRollbackNeverResumed: wherever a rollback of an interrupted run was stopped,
// a resume publishes nothing.
func TestRollbackNeverResumed(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		w := newWorld(t)
		w.dead("k1", "k2", "k3")
		w.fault = stopAt(4)
		_, _ = w.run(w.plan(func(r *redrive.Request) { r.Rate = 2 }))
		w.pass(65 * time.Minute)
		sent := w.depth("src")
		w.fault = stopAt(n)
		_, _ = w.rollback()
		w.reset()
		w.pass(65 * time.Minute)
		_, err := w.resume()
		if !errors.Is(err, redrive.ErrRefused) || w.depth("src") != sent {
			t.Errorf("call %d: %v; %d sent, then %d", n, err, sent, w.depth("src"))
		}
	}
}

// TestRollbackRefused: without a ledger to write, and while another has the queue.
func TestRollbackRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k")
	_, err := w.run(w.plan())
	w.must(err)
	for name, c := range map[string]func(*redrive.Runner){
		"no ledger": func(r *redrive.Runner) { r.Ledger = nil },
		"read-only": func(*redrive.Runner) { w.readOnly = true },
	} {
		r := w.runner("unused")
		c(r)
		if _, err := r.Rollback(w.ctx, "run1", "x"); !errors.Is(err, redrive.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		w.readOnly = false
	}
	w.dead("other")
	_, _, err = w.store.Begin(w.ctx, redrive.Begin{Plan: w.plan(), Run: "run2", Holder: "colleague", TTL: time.Hour, Now: w.clock()},
		func(redrive.Frozen, []redrive.Approval) error { return nil }, audit.Record{Action: "run", Phase: audit.Outcome, Step: "start"})
	w.must(err)
	var taken *redrive.TakenError
	if _, err := w.rollback(); !errors.As(err, &taken) || taken.Run != "run2" || w.state("k") != "queued 2" {
		t.Errorf("%v, row %s", err, w.state("k"))
	}
	if s, err := w.runner("unused").SurveyRollback(w.ctx, "run1"); err != nil || s.Counts[redrive.BackTaken] != 1 || w.state("k") != "queued 2" {
		t.Errorf("survey: %+v %v", s, err)
	}
}

// TestRollbackTwoAtOnce: of two rollbacks that begin together one is refused, and
// so is a resume of the run meanwhile.
func TestRollbackTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	w.fault = stopAt(4)
	_, _ = w.run(w.plan())
	w.pass(65 * time.Minute)
	w.reset()
	w.onCall("ledger", 1, func() {
		var taken *redrive.TakenError
		if _, err := w.runner("unused").Rollback(w.ctx, "run1", "me too"); !errors.As(err, &taken) {
			t.Errorf("a second rollback: %v", err)
		}
		if _, err := w.runner("unused").Resume(w.ctx, "run1"); !errors.As(err, &taken) {
			t.Errorf("a resume: %v", err)
		}
	})
	w.rolledBack(map[redrive.Back]int{redrive.BackTaken: 2})
}

// TestRollbackDoesNotCount: redrives that were rolled back are not in the cap on
// redrives of one job.
func TestRollbackDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k")
	for n := range 4 {
		d, err := w.draft()
		w.must(err)
		if d.Plan.Tier != redrive.TierSelf {
			t.Fatalf("after %d rollbacks: tier %s %v", n, d.Plan.Tier, d.Plan.TierWhy)
		}
		run := fmt.Sprintf("run%d", n)
		_, err = w.runner(run).Run(w.ctx, string(w.plan()))
		w.must(err)
		_, err = w.runner("unused").Rollback(w.ctx, run, "not yet")
		w.must(err)
		w.mail(1)
	}
	ps, err := w.store.PublishedOf(w.ctx, []redrive.Identity{{JobKey: "k"}}, "")
	w.must(err)
	if ps[0].Count != 4 || ps[0].RolledBack != 4 {
		t.Errorf("%+v", ps[0])
	}
	if w.state("k") != "failed 5" || w.depth("dlq") != 1 || len(w.sends) != 0 {
		t.Errorf("%s, %d dead, sends %v", w.state("k"), w.depth("dlq"), w.sends)
	}
}

// TestRollbackOtherItems: what is settled or discarded is left alone and said.
func TestRollbackOtherItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	w.copy("k2", "")
	w.row("k2", ledger.Sent)
	_, err := w.run(w.plan())
	w.must(err)
	w.rolledBack(map[redrive.Back]int{redrive.BackTaken: 1, redrive.BackSettled: 1})
	if got := w.states("k1", "k2"); got != "failed 2, sent 1" {
		t.Error(got)
	}
}

// TestRollbackEdit: the edited copy's row is taken back wherever the run was
// stopped, and its original stays replaced; or the original's, which was not
// replaced yet. The same edit goes out again by another plan.
func TestRollbackEdit(t *testing.T) {
	t.Parallel()
	for n := 0; n <= 8; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.json("k", `{"a":1}`, ledger.Failed)
			if n > 0 {
				w.fault = stopAt(n)
			}
			_, _ = w.run(w.plan(w.editing(".a = 2", "r")))
			w.reset()
			w.pass(65 * time.Minute)
			r, err := w.rollback()
			w.must(err)
			if r.Counts[redrive.BackTaken]+r.Counts[redrive.BackNotOut] != 1 || !r.State.Ended() {
				t.Errorf("%+v", r)
			}
			w.mail(2)
			if len(w.sends) != 0 || w.depth("src") != 0 || w.depth("dlq") == 0 {
				t.Errorf("sends %v, %d in the source, %d dead", w.sends, w.depth("src"), w.depth("dlq"))
			}
			w.verifiedLog()
			change := []func(*redrive.Request){w.editing(".a = 2", "r")}
			if slices.Contains(w.deadKeys(), "k~r") {
				change = nil // it came back as a job of its own
			}
			_, err = w.runner("run2").Run(w.ctx, string(w.plan(change...)))
			w.must(err)
			w.mail(2)
			if w.sends["k"] != 0 || w.sends["k~r"] != 1 {
				t.Errorf("sends %v", w.sends)
			}
		})
	}
}
