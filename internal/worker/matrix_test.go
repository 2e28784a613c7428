package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

func throttled(context.Context, Request) error {
	return &Failure{Class: classify.Throttled, Effect: classify.EffectNone, Code: "429", Retryable: true, Err: errors.New("slow down")}
}

func refusal(context.Context, Request) error {
	return &Failure{Class: classify.RejectedPayload, Effect: classify.EffectNone, Code: "400", Err: errors.New("no such template")}
}

func serverError(context.Context, Request) error {
	return &Failure{Class: classify.ServerError, Effect: classify.EffectUnknown, Code: "500", Err: errors.New("oops")}
}

// end is everything that can be seen after a story.
type end struct {
	State      ledger.State
	Attempt    int
	Class      string
	Effect     string
	Retryable  bool
	Unresolved int
	LateAccept bool
	RequestID  string
	Accepted   []string
	Waiting    int64
	Dead       []string // type and code
}

func (w *world) end(job string) end {
	w.t.Helper()
	r := w.row(job)
	e := end{
		State: r.State, Attempt: r.Attempt, Class: r.ErrorClass, Effect: r.Effect, Retryable: r.Retryable,
		LateAccept: r.LateAccept, RequestID: r.RequestID, Accepted: w.provider.accepted,
	}
	for _, a := range r.Attempts {
		if a.Resolution == ledger.Unresolved {
			e.Unresolved++
		}
	}
	waiting, dead := w.copies()
	e.Waiting = waiting
	for _, d := range dead {
		e.Dead = append(e.Dead, d.Type+" "+d.Code)
	}
	return e
}

type script = []func(context.Context, Request) error

// TestFailureMatrix is the worker's contract, story by story: what the ledger,
// the provider and the queue hold right after, and once everything has settled.
func TestFailureMatrix(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]queues{"local": localQueues, "sqs": sqsQueues(""), "sqs fifo": sqsQueues(".fifo")} {
		t.Run(name, func(t *testing.T) { t.Parallel(); failureMatrix(t, on) })
	}
}

func failureMatrix(t *testing.T, on queues) {
	one := []string{"j/1 made at 1"}
	for _, c := range []struct {
		name    string
		story   func(*world)
		after   end
		settled end
	}{
		{
			name:    "success",
			story:   func(w *world) { w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
			settled: end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
		},
		{
			name:    "throttled once",
			story:   func(w *world) { w.provider.script = script{throttled}; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Failed, Attempt: 1, Class: "throttled", Effect: "none", Retryable: true, Waiting: 1},
			settled: end{State: ledger.Sent, Attempt: 2, Class: "throttled", Effect: "none", Retryable: true, RequestID: "req-1", Accepted: []string{"j/2 made at 1"}},
		},
		{
			name:    "terminal refusal spends no retry",
			story:   func(w *world) { w.provider.script = script{refusal}; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Failed, Attempt: 1, Class: "rejected_payload", Effect: "none", Dead: []string{"rejected_payload 400"}},
			settled: end{State: ledger.Failed, Attempt: 1, Class: "rejected_payload", Effect: "none", Dead: []string{"rejected_payload 400"}},
		},
		{
			name: "last permitted attempt",
			story: func(w *world) {
				w.provider.script = script{throttled, throttled, throttled}
				w.enqueue("j", 1)
				w.step()
				w.advance(lease)
				w.step()
			},
			after:   end{State: ledger.Failed, Attempt: 2, Class: "throttled", Effect: "none", Retryable: true, Waiting: 1},
			settled: end{State: ledger.Failed, Attempt: 3, Class: "throttled", Effect: "none", Dead: []string{"throttled 429"}},
		},
		{
			name: "older version",
			story: func(w *world) {
				must(w.t, w.ledger.Insert(w.t.Context(), ledger.NewRow{Key: ledger.Key{JobKey: "newer"}, Subject: "s", Version: "2"}))
				w.apply(ledger.Change{Key: ledger.Key{JobKey: "newer"}, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Second})
				w.apply(ledger.Change{Key: ledger.Key{JobKey: "newer"}, From: ledger.Sending, FromAttempt: 1, To: ledger.Sent})
				w.enqueue("j", 1)
				w.step()
			},
			after:   end{State: ledger.Failed, Attempt: 1, Class: "stale", Effect: "none", Dead: []string{"stale newer_sent"}},
			settled: end{State: ledger.Failed, Attempt: 1, Class: "stale", Effect: "none", Dead: []string{"stale newer_sent"}},
		},
		{
			name:    "unknown outcome",
			story:   func(w *world) { w.provider.script = script{serverError}; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Dead: []string{"server_error 500"}},
			settled: end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Dead: []string{"server_error 500"}},
		},
		{
			name:    "stopped before the send",
			story:   func(w *world) { w.provider.stopAt = "before_send"; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Waiting: 1},
			settled: end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Dead: []string{"timeout killed"}},
		},
		{
			name:    "stopped after the send",
			story:   func(w *world) { w.provider.stopAt = "after_send"; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Accepted: one, Waiting: 1},
			settled: end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Accepted: one, Dead: []string{"timeout killed"}},
		},
		{
			name:    "stopped before the acknowledgement",
			story:   func(w *world) { w.source.stopAt = "before_ack"; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one, Waiting: 1},
			settled: end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
		},
		{
			name:    "stopped after the acknowledgement",
			story:   func(w *world) { w.source.stopAt = "after_ack"; w.enqueue("j", 1); w.step() },
			after:   end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
			settled: end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
		},
		{
			name:    "fenced while paused, then accepted",
			story:   func(w *world) { w.enqueue("j", 1); w.pauseInSend(nil); w.step() },
			after:   end{State: ledger.Fenced, Attempt: 1, LateAccept: true, RequestID: "req-1", Accepted: one, Dead: []string{"late_accept req-1"}},
			settled: end{State: ledger.Fenced, Attempt: 1, LateAccept: true, RequestID: "req-1", Accepted: one, Dead: []string{"late_accept req-1"}},
		},
		{
			name:    "fenced while paused, then refused",
			story:   func(w *world) { w.enqueue("j", 1); w.pauseInSend(throttled); w.step() },
			after:   end{State: ledger.Fenced, Attempt: 1, Dead: []string{"fenced "}},
			settled: end{State: ledger.Fenced, Attempt: 1, Dead: []string{"fenced "}},
		},
		{
			name:    "two copies of one attempt",
			story:   func(w *world) { w.enqueue("j", 2); w.step() },
			after:   end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one, Waiting: 1},
			settled: end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: one},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, on)
			must(t, w.worker.Validate())
			c.story(w)
			if d := cmp.Diff(c.after, w.end("j")); d != "" {
				t.Errorf("right after:\n%s", d)
			}
			w.settle()
			if d := cmp.Diff(c.settled, w.end("j")); d != "" {
				t.Errorf("settled:\n%s", d)
			}
		})
	}
}

// pauseInSend makes the provider's next answer come after the row was fenced;
// the lease is kept as a heartbeat would keep it.
func (w *world) pauseInSend(answer func(context.Context, Request) error) {
	w.provider.script = script{func(ctx context.Context, r Request) error {
		w.advance(w.worker.ClaimLife)
		w.apply(ledger.Change{Key: r.Key, From: ledger.Sending, FromAttempt: r.Attempt, To: ledger.Fenced, Actor: "reconcile"})
		if answer == nil {
			return nil
		}
		return answer(ctx, r)
	}}
}

// TestRequeueAtTheSameAttempt: a run that died left a copy and a queued row; a
// second run publishes again. Two copies, two runs, one send.
func TestRequeueAtTheSameAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.script = script{refusal}
	w.enqueue("j", 1)
	w.step()
	k := ledger.Key{JobKey: "j"}
	w.apply(ledger.Change{Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Queued, Run: "run-1"})
	w.publish("j", 1)
	w.apply(ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 2, FromRun: "run-1", To: ledger.Queued, Run: "run-2"})
	w.publish("j", 1)
	w.worker.Batch = 2
	w.settle()
	if d := cmp.Diff([]string{"j/2 made at 1"}, w.provider.accepted); d != "" {
		t.Error(d)
	}
	if waiting, dead := w.copies(); waiting != 0 || len(dead) != 1 {
		t.Errorf("%d copies wait, %d are dead", waiting, len(dead))
	}
}

// TestNeverAcknowledged: no state but a committed or replaced one lets a copy go.
func TestNeverAcknowledged(t *testing.T) {
	t.Parallel()
	k := ledger.Key{JobKey: "j"}
	claim := ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute}
	fail := ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 1, To: ledger.Failed, ErrorClass: "auth", Effect: "none"}
	for name, c := range map[string]struct {
		moves []ledger.Change
		acked bool
		dead  string
	}{
		"sending, not past its deadline": {moves: []ledger.Change{claim}, dead: ""},
		"failed, not retryable":          {moves: []ledger.Change{claim, fail}, dead: "auth "},
		"fenced":                         {moves: []ledger.Change{{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Fenced}}, dead: "fenced "},
		"rolled back": {moves: []ledger.Change{{
			Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Failed, ErrorClass: "rolled_back", Effect: "none",
		}}, dead: "rolled_back "},
		"late accept": {moves: []ledger.Change{{Key: k, LateAccept: true, RequestID: "r"}}, dead: "late_accept r"},
		"reconciled":  {moves: []ledger.Change{{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Reconciled}}, acked: true},
		"replaced": {moves: []ledger.Change{claim, fail, {
			Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Replaced, Replace: &ledger.NewRow{Key: ledger.Key{JobKey: "k"}},
		}}, acked: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.enqueue("j", 1)
			for _, m := range c.moves {
				w.apply(m)
			}
			w.step()
			waiting, dead := w.copies()
			if got := waiting == 0 && len(dead) == 0; got != c.acked {
				t.Errorf("acknowledged %t, want %t", got, c.acked)
			}
			if c.dead != "" && (len(dead) != 1 || dead[0].Type+" "+dead[0].Code != c.dead) {
				t.Errorf("dead copies %v, want %q", dead, c.dead)
			}
			if len(w.provider.accepted) != 0 {
				t.Errorf("sent %v", w.provider.accepted)
			}
		})
	}
}

func TestSendBeforePassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue("j", 1)
	w.apply(ledger.Change{Key: ledger.Key{JobKey: "j"}, From: ledger.Queued, FromAttempt: 1, To: ledger.Queued, Run: "r", SendBefore: w.now.Add(time.Second)})
	w.advance(time.Second)
	w.settle()
	want := end{State: ledger.Queued, Attempt: 1, Dead: []string{"send_before passed"}}
	if d := cmp.Diff(want, w.end("j")); d != "" {
		t.Error(d)
	}
}

// TestClaimExpired: a worker that wakes past its deadline does not begin to send.
func TestClaimExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue("j", 1)
	w.worker.Ledger = slowClaim{w.ledger, w}
	w.step()
	want := end{State: ledger.Failed, Attempt: 1, Class: "unavailable", Effect: "none", Retryable: true, Waiting: 1}
	if d := cmp.Diff(want, w.end("j")); d != "" {
		t.Error(d)
	}
}

// slowClaim answers a claim only when its life is over.
type slowClaim struct {
	ledger.Ledger
	w *world
}

func (s slowClaim) Apply(ctx context.Context, cs []ledger.Change) []ledger.Result {
	rs := s.Ledger.Apply(ctx, cs)
	if cs[0].To == ledger.Sending {
		s.w.advance(s.w.worker.ClaimLife)
	}
	return rs
}

// TestLostReply: the ledger's answer to → sent is lost; the row is read back.
func TestLostReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue("j", 1)
	w.worker.Ledger = lostReply{w.ledger}
	w.step()
	want := end{State: ledger.Sent, Attempt: 1, RequestID: "req-1", Accepted: []string{"j/1 made at 1"}}
	if d := cmp.Diff(want, w.end("j")); d != "" {
		t.Error(d)
	}
}

type lostReply struct{ ledger.Ledger }

func (l lostReply) Apply(ctx context.Context, cs []ledger.Change) []ledger.Result {
	rs := l.Ledger.Apply(ctx, cs)
	if cs[0].To == ledger.Sent {
		return []ledger.Result{{Err: errors.New("connection lost")}}
	}
	return rs
}

func TestUndecodableAndUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("broken", 1)
	w.publish("nobody", 1)
	w.settle()
	_, dead := w.copies()
	if len(dead) != 2 || dead[0].Type != "malformed" || dead[1].Code != "no_row" {
		t.Errorf("dead copies %v", dead)
	}
}
