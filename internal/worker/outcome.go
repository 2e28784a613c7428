package worker

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// sent records the acceptance, and only then acknowledges. A claim that was
// taken away meanwhile cannot be completed; the acceptance is recorded all the
// same, because it happened.
func (w *Worker) sent(ctx context.Context, d broker.Delivery, r ledger.Row, id string) error {
	done := ledger.Change{
		Key: r.Key, From: ledger.Sending, FromAttempt: r.Attempt, To: ledger.Sent,
		Actor: w.Actor, RequestID: id, Resolve: ledger.ByWorker,
	}
	_, won, err := w.record(ctx, done)
	if err != nil {
		return fmt.Errorf("record the send: %w", err)
	}
	if won {
		return w.ack(ctx, d)
	}
	late := ledger.Change{
		Key: r.Key, From: ledger.Sending, FromAttempt: r.Attempt, LateAccept: true,
		Actor: w.Actor, RequestID: id, Resolve: ledger.ByWorker, Reason: "sent after the claim was taken away",
	}
	row, _, err := w.record(ctx, late)
	if err != nil {
		return fmt.Errorf("record the late send: %w", err)
	}
	return w.dispose(ctx, d, row)
}

// failed records a proven failure. An unknown outcome stays sending: to write
// anything else would be to guess. Its copy goes to the dead-letter queue, since
// no worker can claim the row before it was reconciled.
func (w *Worker) failed(ctx context.Context, d broker.Delivery, r ledger.Row, f *Failure) error {
	reason := broker.Reason{Type: string(f.Class), Code: f.Code, Message: fmt.Sprint(f.Err)}
	if f.Effect != ledger.EffectNone {
		return w.deadLetter(ctx, d, reason)
	}
	wait := w.delay(r.Attempt, f.RetryAfter)
	again := f.Retryable && r.Attempt < w.Retry.Budget && !w.pastDeadline(r, wait)
	c := ledger.Change{
		Key: r.Key, From: ledger.Sending, FromAttempt: r.Attempt, To: ledger.Failed, Retryable: again,
		Actor: w.Actor, RequestID: f.RequestID, Reason: reason.Message,
		ErrorClass: string(f.Class), Effect: ledger.EffectNone, Resolve: ledger.ByWorker,
	}
	_, won, err := w.record(ctx, c)
	switch {
	case err != nil:
		return fmt.Errorf("record the failure: %w", err)
	case won && again:
		return w.later(ctx, d, wait)
	case won:
		return w.deadLetter(ctx, d, reason)
	}
	c.To, c.Attempt = "", r.Attempt
	row, _, err := w.record(ctx, c)
	if err != nil {
		return fmt.Errorf("record the late failure: %w", err)
	}
	return w.dispose(ctx, d, row)
}

// record makes a change and reads it back when the answer is lost. The change is
// tried once more then: its comparison makes a second one harmless.
func (w *Worker) record(ctx context.Context, c ledger.Change) (row ledger.Row, won bool, err error) {
	for range 2 {
		res := w.Ledger.Apply(ctx, []ledger.Change{c})[0]
		switch res.Outcome {
		case ledger.Won:
			return res.Row, true, nil
		case ledger.Lost:
			return res.Row, false, res.Err
		}
		err = res.Err
		lk := w.Ledger.Get(ctx, []ledger.Key{c.Key})[0]
		if lk.Found == ledger.Present && recorded(lk.Row, c) {
			return lk.Row, true, nil
		}
	}
	return ledger.Row{}, false, err
}

// recorded reports that the row shows c. Only this worker holds the claim, so
// nobody else can have made the same change.
func recorded(r ledger.Row, c ledger.Change) bool {
	if c.Late() {
		return c.LateAccept && r.LateAccept
	}
	return r.State == c.To && r.Attempt == c.FromAttempt
}
