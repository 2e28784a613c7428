package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// handle does what one copy asks for. It works on the row's current attempt,
// whatever the copy says, so two copies of a job make one send.
func (w *Worker) handle(ctx context.Context, d broker.Delivery) error {
	work, err := w.Decode(d.Message)
	if err != nil {
		return w.deadLetter(ctx, d, broker.Reason{Type: string(classify.Malformed), Message: err.Error()})
	}
	lk, err := w.find(ctx, work)
	if err != nil {
		return err
	}
	switch lk.Found {
	case ledger.Missing:
		return w.deadLetter(ctx, d, broker.Reason{Type: "ledger", Code: "no_row", Message: "the ledger has no row for this job"})
	case ledger.Unreadable:
		return errors.Join(fmt.Errorf("ledger row: %w", lk.Err), w.later(ctx, d, w.delay(1, 0)))
	}
	if !w.claimable(lk.Row) || lk.Row.NewerSent {
		return w.dispose(ctx, d, lk.Row)
	}
	content, err := w.rendering(ctx, d, lk.Row)
	if err != nil {
		return errors.Join(err, w.later(ctx, d, w.delay(1, 0)))
	}
	return w.attempt(ctx, d, lk.Row, content)
}

// find reads the row, and writes it first where rows begin with the claim.
func (w *Worker) find(ctx context.Context, work Work) (ledger.Lookup, error) {
	lk := w.Ledger.Get(ctx, []ledger.Key{work.Key})[0]
	if lk.Found != ledger.Missing || w.Insert == nil || w.Ledger.Capabilities().RowWritten != ledger.AtClaim {
		return lk, nil
	}
	insert := w.Insert(ctx, work.New)
	lk = w.Ledger.Get(ctx, []ledger.Key{work.Key})[0]
	if lk.Found == ledger.Missing {
		return lk, fmt.Errorf("write ledger row: %w", insert)
	}
	return lk, nil // another worker may have written it first
}

// claimable reports that a claim may win. The ledger decides; this only saves
// a rendering and an attempt.
func (w *Worker) claimable(r ledger.Row) bool {
	switch {
	case r.LateAccept:
		return false
	case r.State == ledger.Queued:
		return true
	default:
		return r.State == ledger.Failed && r.Retryable && r.Effect == ledger.EffectNone && r.Attempt < w.Retry.Budget
	}
}

func (w *Worker) rendering(ctx context.Context, d broker.Delivery, r ledger.Row) ([]byte, error) {
	stored, err := w.Renderings.Rendering(ctx, r.Key)
	if err != nil || stored != nil {
		return stored, err
	}
	content, err := w.Render(d.Message, r)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return w.Renderings.SaveRendering(ctx, r.Key, content)
}

// attempt claims, sends and records. Local time is taken before the claim, so
// the deadline on our clock is never later than on the ledger's.
func (w *Worker) attempt(ctx context.Context, d broker.Delivery, r ledger.Row, content []byte) error {
	before := w.Now().Round(0) // wall clock: a suspended machine counts
	claim := ledger.Change{
		Key: r.Key, From: r.State, FromAttempt: r.Attempt, FromRun: r.Run,
		To: ledger.Sending, ClaimLife: w.ClaimLife, Actor: w.Actor,
	}
	res := w.Ledger.Apply(ctx, []ledger.Change{claim})[0]
	switch res.Outcome {
	case ledger.Lost:
		return w.notClaimed(ctx, d, r, res)
	case ledger.Unknown:
		// It may be claimed in our name; nobody sends, and reconciliation finds
		// that nothing was sent.
		return fmt.Errorf("claim: %w", res.Err)
	}
	deadline := before.Add(res.Row.SendDeadline.Sub(res.Row.ClaimedAt))
	crash.At("worker.before_send")
	id, err := w.send(ctx, deadline, Request{
		Key: r.Key, Attempt: res.Row.Attempt, Account: r.Account, Region: r.Region, Content: content,
	})
	crash.At("worker.after_send")
	if err != nil {
		return w.failed(ctx, d, res.Row, failure(err))
	}
	return w.sent(ctx, d, res.Row, id)
}

// send starts only before the deadline and is cancelled at it.
func (w *Worker) send(ctx context.Context, deadline time.Time, r Request) (string, error) {
	left := deadline.Sub(w.Now().Round(0))
	if left <= 0 {
		return "", &Failure{
			Class: classify.Unavailable, Effect: classify.EffectNone, Code: "claim_expired", Retryable: true,
			Err: errors.New("the claim ended before the send began"),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return w.Sender.Send(ctx, r)
}

// notClaimed looks at the row that refused the claim.
func (w *Worker) notClaimed(ctx context.Context, d broker.Delivery, asked ledger.Row, res ledger.Result) error {
	if res.Err != nil {
		return errors.Join(fmt.Errorf("claim: %w", res.Err), w.later(ctx, d, w.delay(1, 0)))
	}
	now := res.Row
	if now.State == asked.State && now.Attempt == asked.Attempt && now.Run == asked.Run && !now.LateAccept {
		return w.deadLetter(ctx, d, broker.Reason{
			Type: "send_before", Code: "passed", Message: "the time before which this job may be sent again has passed",
		})
	}
	return w.dispose(ctx, d, now)
}
