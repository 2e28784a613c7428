package sqs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// attemptLife is how long the answer to a FIFO receive can be asked for again.
const attemptLife = 5 * time.Minute

var everything = []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll}

// Receive implements broker.Broker. It waits as long as the account's options
// say for a first message. A request that failed may have leased what nobody
// knows of, until its lease ends; on a FIFO queue the next receive gets it.
func (q *Queue) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Max <= 0 {
		return nil, nil
	}
	asked := q.now()
	in := &sqs.ReceiveMessageInput{
		QueueUrl: aws.String(q.facts.url), MaxNumberOfMessages: int32(min(r.Max, maxEntries)),
		VisibilityTimeout: int32(max(1, wholeSeconds(min(r.Lease, maxLease)))), WaitTimeSeconds: int32(max(0, min(20, wholeSeconds(q.account.o.Wait)))),
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: everything,
		// Some servers know only the older name of the same list.
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}, //nolint:staticcheck // See above.
	}
	if r.Lease <= 0 {
		in.VisibilityTimeout = int32(wholeSeconds(q.facts.visibility))
	}
	if q.facts.fifo {
		in.ReceiveRequestAttemptId = aws.String(q.attempt(asked))
	}
	out, err := q.client().ReceiveMessage(ctx, in)
	if err != nil {
		q.attemptLost(in.ReceiveRequestAttemptId, asked)
		return nil, fmt.Errorf("receive from %s: %w", q.facts.name, told(err))
	}
	until := asked.Add(time.Duration(in.VisibilityTimeout) * time.Second)
	ds, err := q.deliveries(out.Messages, until)
	if err != nil { // nobody gets them, so nobody would give them back
		q.Release(context.WithoutCancel(ctx), receipts(out.Messages, until))
	}
	return ds, err
}

// receipts are deliveries of which nothing but the lease is known.
func receipts(ms []types.Message, until time.Time) []broker.Delivery {
	ds := make([]broker.Delivery, len(ms))
	for i, m := range ms {
		ds[i] = broker.Delivery{Receipt: own(m.ReceiptHandle), LeaseUntil: until}
	}
	return ds
}

func (q *Queue) deliveries(ms []types.Message, until time.Time) ([]broker.Delivery, error) {
	ds := make([]broker.Delivery, len(ms))
	for i, m := range ms {
		got, err := q.message(m)
		if err != nil {
			return nil, err
		}
		if text(m.MD5OfBody) != sum(got.Body) {
			return nil, fmt.Errorf("receive from %s: message %s did not arrive as it was sent", q.facts.name, text(m.MessageId))
		}
		ds[i] = broker.Delivery{Message: got, Receipt: own(m.ReceiptHandle), LeaseUntil: until}
	}
	return ds, nil
}

// attempt names a FIFO receive: as one whose answer was lost, if there is one,
// since the groups of its messages are blocked while their lease lasts.
func (q *Queue) attempt(now time.Time) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, at := range q.lost {
		delete(q.lost, id)
		if now.Sub(at) < attemptLife {
			return id
		}
	}
	return rand.Text()
}

func (q *Queue) attemptLost(id *string, asked time.Time) {
	if id == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost[*id] = asked
}

// Ack implements broker.Broker. A delete whose lease is over is not tried, since
// it would succeed without deleting.
func (q *Queue) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return q.onReceipts(ctx, ds, q.holds, func(ctx context.Context, ds []broker.Delivery) batchAnswer {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: aws.String(q.facts.url)}
		for i, d := range ds {
			in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(d.Receipt)})
		}
		out, err := q.client().DeleteMessageBatch(ctx, in)
		if err != nil {
			return batchAnswer{err: err}
		}
		a := batchAnswer{failed: out.Failed}
		for _, s := range out.Successful {
			a.done = append(a.done, text(s.Id))
		}
		return a
	})
}

// Extend implements broker.Broker.
func (q *Queue) Extend(ctx context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	lease = max(time.Second, min(lease, maxLease))
	until := q.now().Add(lease)
	rs := q.onReceipts(ctx, ds, q.holds, q.visibility(lease))
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, r := range rs {
		if r.Outcome == broker.Done {
			q.changed[ds[i].Receipt] = change{until: until}
		}
	}
	return rs
}

// Release implements broker.Broker. One whose outcome is unknown can be released
// again, and nothing else.
func (q *Queue) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	rs := q.onReceipts(ctx, ds, q.mayHold, q.visibility(0))
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, r := range rs {
		if r.Outcome != broker.Refused {
			q.changed[ds[i].Receipt] = change{until: ds[i].LeaseUntil, given: true, doubt: r.Outcome == broker.Unknown}
		}
	}
	return rs
}

func (q *Queue) visibility(lease time.Duration) func(context.Context, []broker.Delivery) batchAnswer {
	return func(ctx context.Context, ds []broker.Delivery) batchAnswer {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: aws.String(q.facts.url)}
		for i, d := range ds {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(d.Receipt), VisibilityTimeout: int32(wholeSeconds(lease)),
			})
		}
		out, err := q.client().ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return batchAnswer{err: err}
		}
		a := batchAnswer{failed: out.Failed}
		for _, s := range out.Successful {
			a.done = append(a.done, text(s.Id))
		}
		return a
	}
}

// batchAnswer is how the service answered a batch, by entry ID.
type batchAnswer struct {
	done   []string
	failed []types.BatchResultErrorEntry
	err    error // of the request as a whole
}

// onReceipts calls do with the deliveries that may says nothing against, ten at a
// time, and answers for all. An entry that the answer does not name is Unknown.
func (q *Queue) onReceipts(ctx context.Context, ds []broker.Delivery, may func(broker.Delivery) error, do func(context.Context, []broker.Delivery) batchAnswer) []broker.Result {
	q.forget()
	rs := make([]broker.Result, len(ds))
	var live []int
	for i, d := range ds {
		if err := may(d); err != nil {
			rs[i] = broker.Result{Outcome: broker.Refused, Err: err}
			continue
		}
		live = append(live, i)
	}
	for ; len(live) > 0; live = live[min(len(live), maxEntries):] {
		part := live[:min(len(live), maxEntries)]
		some := make([]broker.Delivery, len(part))
		for k, i := range part {
			some[k] = ds[i]
		}
		for k, r := range answered(ctx, some, do) {
			rs[part[k]] = r
		}
	}
	return rs
}

func answered(ctx context.Context, ds []broker.Delivery, do func(context.Context, []broker.Delivery) batchAnswer) []broker.Result {
	if err := ctx.Err(); err != nil {
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: err})
	}
	ctx, sent := noting(ctx)
	a := do(ctx, ds)
	if a.err != nil {
		return broker.All(len(ds), failed(a.err, *sent))
	}
	rs := broker.All(len(ds), broker.Result{Err: errNotNamed})
	for _, id := range a.done {
		set(rs, id, broker.Result{Outcome: broker.Done})
	}
	for _, e := range a.failed {
		set(rs, text(e.Id), receiptFailed(e))
	}
	return rs
}

var errNotNamed = errors.New("the answer does not name this entry")

func set(rs []broker.Result, id string, r broker.Result) {
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < len(rs) {
		rs[i] = r
	}
}

// change is what this process knows of a receipt beyond its delivery.
type change struct {
	until time.Time // when it may be forgotten
	given bool      // back
	doubt bool      // whether it was given back is not known
}

// holds says why a delivery's receipt no longer counts, as far as this process
// knows.
func (q *Queue) holds(d broker.Delivery) error {
	if q.change(d).given {
		return fmt.Errorf("%w: it was given back", broker.ErrLeaseLost)
	}
	return q.mayHold(d)
}

// mayHold is holds for a receipt of which it does not matter whether it was given
// back without an answer.
func (q *Queue) mayHold(d broker.Delivery) error {
	c := q.change(d)
	if c.given && !c.doubt {
		return fmt.Errorf("%w: it was given back", broker.ErrLeaseLost)
	}
	if !c.until.IsZero() && !q.now().Before(c.until) {
		return fmt.Errorf("%w: its time is over", broker.ErrLeaseLost)
	}
	return nil
}

func (q *Queue) change(d broker.Delivery) change {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.changed[d.Receipt]; ok {
		return c
	}
	return change{until: d.LeaseUntil}
}

// forget drops what is known of receipts whose leases are over.
func (q *Queue) forget() {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.forgot) < time.Minute {
		return
	}
	q.forgot = now
	maps.DeleteFunc(q.changed, func(_ string, c change) bool { return !now.Before(c.until) })
}
