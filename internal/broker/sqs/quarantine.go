package sqs

import (
	"context"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var errNoDeadLetter = errors.New("queue has no dead-letter queue")

// Quarantine implements broker.Broker. SQS moves nothing on request, so the copy
// is sent to the dead-letter queue of the redrive policy, with its reason where
// the message has room for one more attribute, and then deleted here. One whose
// delete fails may be in both queues: Unknown.
func (q *Queue) Quarantine(ctx context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	if q.facts.deadLetter == "" {
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("%s: %w", q.facts.name, errNoDeadLetter)})
	}
	to, err := q.account.find(ctx, q.facts.deadLetter)
	if err != nil {
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("find %s: %w", q.facts.deadLetter, err)})
	}
	rs := make([]broker.Result, len(ds))
	var out []broker.Outgoing
	var at []int
	for i, d := range ds {
		m, err := q.dead(d, r, to.maxBytes)
		if err != nil {
			rs[i] = broker.Result{Outcome: broker.Refused, Err: err}
			continue
		}
		out, at = append(out, m), append(at, i)
	}
	var sent []broker.Delivery
	var from []int
	for k, p := range q.Publish(ctx, q.facts.deadLetter, out) {
		rs[at[k]] = p
		if p.Outcome == broker.Done {
			sent, from = append(sent, ds[at[k]]), append(from, at[k])
		}
	}
	for k, acked := range q.Ack(context.WithoutCancel(ctx), sent) {
		if acked.Outcome != broker.Done {
			rs[from[k]] = broker.Result{Err: fmt.Errorf("copied to the dead-letter queue and not deleted: %w", acked.Err)}
		}
	}
	return rs
}

// dead is a delivery as it goes to the dead-letter queue. Its deduplication ID
// is its message ID, as it is when SQS moves it.
func (q *Queue) dead(d broker.Delivery, r broker.Reason, maxBytes int) (broker.Outgoing, error) {
	if err := q.holds(d); err != nil {
		return broker.Outgoing{}, err
	}
	m, err := marked(d.Message, mark{Origin: q.facts.arn, Type: r.Type, Code: r.Code, Message: r.Message, At: q.now()}, maxBytes)
	return broker.Outgoing{Message: m, DedupID: d.MessageID}, err
}
