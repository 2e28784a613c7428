package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// dispose deals with a copy that this worker does not send. It is acknowledged
// only when the job is committed or replaced; else it waits for whoever holds
// the row, or goes to the dead-letter queue.
func (w *Worker) dispose(ctx context.Context, d broker.Delivery, r ledger.Row) error {
	switch {
	case r.State.Committed() || r.State == ledger.Replaced:
		return w.ack(ctx, d)
	case r.LateAccept:
		return w.deadLetter(ctx, d, broker.Reason{Type: "late_accept", Code: r.RequestID, Message: "sent after the claim was taken away"})
	case r.State == ledger.Sending:
		return w.inFlight(ctx, d, r)
	case r.State == ledger.Fenced:
		return w.deadLetter(ctx, d, broker.Reason{Type: "fenced", Message: "the outcome of the last attempt is being looked up"})
	case r.NewerSent:
		return w.stale(ctx, d, r)
	case r.State == ledger.Failed:
		return w.deadLetter(ctx, d, broker.Reason{Type: r.ErrorClass, Message: r.Reason})
	default: // queued: it changed while this worker looked
		return w.later(ctx, d, w.delay(1, 0))
	}
}

// inFlight waits while another worker may be sending. After its deadline that
// worker is lost, and what it did is for reconciliation to find out.
func (w *Worker) inFlight(ctx context.Context, d broker.Delivery, r ledger.Row) error {
	now, err := w.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if left := r.SendDeadline.Sub(now); left > 0 {
		return w.later(ctx, d, left)
	}
	return w.deadLetter(ctx, d, broker.Reason{
		Type: string(classify.Timeout), Code: "killed", Message: "the worker that claimed this job never recorded an outcome",
	})
}

// stale takes a job off the road whose newer version was sent: nothing was sent
// for this one, and nothing will be.
func (w *Worker) stale(ctx context.Context, d broker.Delivery, r ledger.Row) error {
	reason := broker.Reason{Type: string(classify.Stale), Code: "newer_sent", Message: "a newer version of the same subject was sent"}
	if r.State != ledger.Queued {
		return w.deadLetter(ctx, d, reason)
	}
	row, won, err := w.record(ctx, ledger.Change{
		Key: r.Key, From: r.State, FromAttempt: r.Attempt, FromRun: r.Run, To: ledger.Failed, Actor: w.Actor,
		ErrorClass: reason.Type, Effect: ledger.EffectNone, Reason: reason.Message,
	})
	switch {
	case err != nil:
		return fmt.Errorf("record a stale job: %w", err)
	case won || row.State == ledger.Failed:
		return w.deadLetter(ctx, d, reason)
	}
	return w.later(ctx, d, w.delay(1, 0))
}

// pastDeadline reports that a retry after wait would come too late.
func (w *Worker) pastDeadline(r ledger.Row, wait time.Duration) bool {
	if w.Retry.Deadline <= 0 {
		return false
	}
	first := r.ClaimedAt
	if len(r.Attempts) > 0 {
		first = r.Attempts[0].ClaimedAt
	}
	return r.ClaimedAt.Add(wait).Sub(first) > w.Retry.Deadline
}

func (w *Worker) ack(ctx context.Context, d broker.Delivery) error {
	crash.At("worker.before_ack")
	err := settled("acknowledge", w.Queue.Ack(ctx, []broker.Delivery{d}))
	crash.At("worker.after_ack")
	return err
}

// later keeps the copy hidden for so long: the queue's own visibility is the
// delay, so there is nothing to publish and nothing to lose.
func (w *Worker) later(ctx context.Context, d broker.Delivery, wait time.Duration) error {
	if wait < time.Millisecond { // the least that a broker can hide a copy for
		return settled("release", w.Queue.Release(ctx, []broker.Delivery{d}))
	}
	if most := w.Queue.Capabilities().MaxLease; most > 0 {
		wait = min(wait, most)
	}
	return settled("delay", w.Queue.Extend(ctx, []broker.Delivery{d}, wait))
}

func (w *Worker) deadLetter(ctx context.Context, d broker.Delivery, r broker.Reason) error {
	return settled("dead-letter", w.Queue.Quarantine(ctx, []broker.Delivery{d}, r))
}

// settled is the error of one entry. The copy then stays with the broker, whose
// lease brings it back.
func settled(what string, rs []broker.Result) error {
	if rs[0].Outcome == broker.Done {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", what, rs[0].Outcome, rs[0].Err)
}
