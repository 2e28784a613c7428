package sqs

import (
	"context"
	"crypto/md5" //nolint:gosec // The service's own checksum.
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Publish implements broker.Broker: in as few requests as the destination's own
// maximum allows. Done means that the service has the message and that its
// checksums of body and attributes are those of what was sent.
func (q *Queue) Publish(ctx context.Context, destination string, ms []broker.Outgoing) []broker.Result {
	if err := ctx.Err(); err != nil {
		return broker.All(len(ms), broker.Result{Outcome: broker.Refused, Err: err})
	}
	to, err := q.account.find(ctx, destination)
	if err != nil {
		return broker.All(len(ms), broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("find %s: %w", destination, err)})
	}
	rs := make([]broker.Result, len(ms))
	var fit []int
	for i, m := range ms {
		if err := to.takes(m); err != nil {
			rs[i] = broker.Result{Outcome: broker.Refused, Err: err}
			continue
		}
		fit = append(fit, i)
	}
	for _, part := range packed(ms, fit, to.batchBytes()) {
		out := make([]broker.Outgoing, len(part))
		for k, i := range part {
			out[k] = ms[i]
		}
		for k, r := range q.account.send(ctx, to, out) {
			rs[part[k]] = r
		}
	}
	return rs
}

// takes says why a queue cannot take a message, without asking it.
func (f *facts) takes(m broker.Outgoing) error {
	switch {
	case sizeOf(m.Message) > f.maxBytes:
		return fmt.Errorf("%d bytes of at most %d: %w", sizeOf(m.Message), f.maxBytes, broker.ErrTooLarge)
	case len(m.Attributes) > maxAttributes:
		return fmt.Errorf("%d attributes of at most %d", len(m.Attributes), maxAttributes)
	case len(m.Raw) > 0:
		return fmt.Errorf("a message in the format %s has no form here", m.RawFormat)
	case !utf8.Valid(m.Body):
		return errors.New("the body is not text")
	case f.fifo && m.OrderKey == "":
		return errors.New("a FIFO queue needs a group")
	case f.fifo && m.DedupID == "":
		return errors.New("a FIFO queue needs a deduplication ID")
	case f.fifo && m.Delay > 0:
		return errors.New("a FIFO queue delays no single message")
	case m.Delay > maxDelay:
		return fmt.Errorf("a delay of %s is longer than %s", m.Delay, maxDelay)
	default:
		return nil
	}
}

// batchBytes bounds a whole request. Where a queue's messages may be no larger
// than they could be when the limit was 256 KiB, its requests may not either.
func (f *facts) batchBytes() int { return min(maxBatchBytes, max(f.maxBytes, oldBatchBytes)) }

// packed cuts the messages into requests by count and by bytes.
func packed(ms []broker.Outgoing, fit []int, most int) [][]int {
	var parts [][]int
	size := 0
	for _, i := range fit {
		n := sizeOf(ms[i].Message)
		last := len(parts) - 1
		if last < 0 || len(parts[last]) == maxEntries || size+n > most {
			parts, size = append(parts, nil), 0
			last++
		}
		parts[last] = append(parts[last], i)
		size += n
	}
	return parts
}

// send is one request.
func (a *Account) send(ctx context.Context, to *facts, ms []broker.Outgoing) []broker.Result {
	in := &sqs.SendMessageBatchInput{QueueUrl: aws.String(to.url)}
	for i, m := range ms {
		in.Entries = append(in.Entries, entryOf(strconv.Itoa(i), m, to.fifo))
	}
	ctx, sent := noting(ctx)
	out, err := a.client(to.region).SendMessageBatch(ctx, in)
	if err != nil {
		return broker.All(len(ms), failed(err, *sent))
	}
	rs := broker.All(len(ms), broker.Result{Err: errNotNamed})
	for _, s := range out.Successful {
		if i, err := strconv.Atoi(text(s.Id)); err == nil && i >= 0 && i < len(ms) {
			rs[i] = accepted(ms[i], in.Entries[i], s)
		}
	}
	for _, e := range out.Failed {
		set(rs, text(e.Id), entryFailed(e))
	}
	return rs
}

var errDamaged = errors.New("the service has another message than was sent: its checksum differs")

// accepted compares the checksums. What arrived damaged was sent, so it is
// Unknown: neither is its dead copy to go, nor is it to be sent again.
func accepted(m broker.Outgoing, e types.SendMessageBatchRequestEntry, s types.SendMessageBatchResultEntry) broker.Result {
	if text(s.MD5OfMessageBody) != sum(m.Body) ||
		len(e.MessageAttributes) > 0 && text(s.MD5OfMessageAttributes) != attributesSum(e.MessageAttributes) {
		return broker.Result{Err: errDamaged}
	}
	return broker.Result{Outcome: broker.Done, NewMessageID: text(s.MessageId)}
}

func sum(b []byte) string {
	s := md5.Sum(b) //nolint:gosec // The service's own checksum.
	return hex.EncodeToString(s[:])
}

// attributesSum is the service's checksum of attributes: by name, each name,
// type and value with its length before it and its kind between (the developer
// guide, "Calculating the MD5 message digest for message attributes").
func attributesSum(as map[string]types.MessageAttributeValue) string {
	var b []byte
	part := func(p []byte) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	for _, name := range slices.Sorted(maps.Keys(as)) {
		v := as[name]
		part([]byte(name))
		part([]byte(text(v.DataType)))
		if isBinary(text(v.DataType)) {
			b = append(b, 2)
			part(v.BinaryValue)
			continue
		}
		b = append(b, 1)
		part([]byte(text(v.StringValue)))
	}
	return sum(b)
}
