package brokertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// ErrReplyLost is the error of an entry whose reply Rough lost.
var ErrReplyLost = errors.New("the reply was lost")

// Fault is what Rough does to one entry of a call.
type Fault int

// The faults. ReplyLost applies the entry and answers Unknown; RequestLost does
// not apply it and answers Unknown too; Throttle does not apply it and answers
// Refused with broker.ErrThrottled.
const (
	NoFault Fault = iota
	ReplyLost
	RequestLost
	Throttle
)

// RoughOptions choose how a Rough broker is difficult. The zero value changes
// nothing; Roughest is all of it without faults.
type RoughOptions struct {
	Seed uint64 // of everything random; the same calls then do the same

	FreshMessageIDs   bool // a copy's message ID is not the sender's, but stable per copy
	ShortReceives     bool // fewer than asked for, sometimes none though there are some
	Duplicates        bool // an earlier delivery outside a group comes once more, receipt and all
	Shuffle           bool // deliveries of different groups come in any order
	ApproximateCounts bool // counts are off by up to a fifth and two
	NoSelection       bool // Request.Only is ignored
	LookCounts        bool // Browse receives and releases
	NoDedup           bool // Outgoing.DedupID is ignored
	// BrowsePerGroup is what Capabilities say where LookCounts is set: a look at
	// an ordered queue sees no further than its receives do. 0: all of a group.
	BrowsePerGroup int

	// Fault decides on entry i of op, counted from 0 over the life of the
	// wrapper and per operation; nil is no fault. For OpReceive the entry is the
	// call: ReplyLost leases the copies and fails, the others only fail.
	Fault func(op Op, i int) Fault
	// LosePublishReply is Fault with ReplyLost for the publishes i for which it
	// is true; nil loses none.
	LosePublishReply func(i int) bool
}

// Roughest is every difficulty that needs no arming.
func Roughest(seed uint64) RoughOptions {
	return RoughOptions{
		Seed: seed, FreshMessageIDs: true, ShortReceives: true, Duplicates: true, Shuffle: true,
		ApproximateCounts: true, NoSelection: true, LookCounts: true,
	}
}

// maxEmpty is how many receives in a row may be empty without cause, and
// enoughEmpty how many a Browse needs to believe that the queue is.
const (
	maxEmpty    = 2
	enoughEmpty = 4
)

type rough struct {
	inner broker.Broker
	o     RoughOptions

	mu      sync.Mutex
	random  *rand.Rand
	count   map[Op]int
	empties int               // empty receives in a row that had no cause
	past    []broker.Delivery // some of what was delivered, for Duplicates
}

// Rough wraps b into a broker that keeps the contract in the least convenient
// way that o allows: what is built on a contract must work on it as on b.
func Rough(b broker.Broker, o RoughOptions) broker.Broker {
	return &rough{inner: b, o: o, random: rand.New(rand.NewPCG(o.Seed, o.Seed)), count: map[Op]int{}}
}

// Capabilities are the inner broker's less what the options take away.
func (r *rough) Capabilities() broker.Capabilities {
	c := r.inner.Capabilities()
	c.StableMessageID = c.StableMessageID && !r.o.FreshMessageIDs
	c.ExactCounts = c.ExactCounts && !r.o.ApproximateCounts
	c.SelectiveReceive = c.SelectiveReceive && !r.o.NoSelection
	c.FreePeek = c.FreePeek && !r.o.LookCounts
	if r.o.LookCounts {
		c.BrowsePerGroup = r.o.BrowsePerGroup
	}
	if r.o.NoDedup {
		c.DedupWindow = 0
	}
	return c
}

func (r *rough) Describe(ctx context.Context) (broker.Description, error) {
	d, err := r.inner.Describe(ctx)
	if err != nil {
		return d, err
	}
	d.LookCounts = d.LookCounts || r.o.LookCounts
	if r.o.ApproximateCounts {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range []*int64{&d.Depth.Visible, &d.Depth.InFlight, &d.Depth.Delayed} {
			off := 2 + *n/5
			*n = max(0, *n-off+r.random.Int64N(2*off+1))
		}
		d.Depth.Exact = false
	}
	return d, nil
}

func (r *rough) Receive(ctx context.Context, q broker.Request) ([]broker.Delivery, error) {
	return r.receive(ctx, q, r.o.Duplicates)
}

// receive is Receive; a look asks for no duplicates, since it could not tell
// them from leases of its own.
func (r *rough) receive(ctx context.Context, q broker.Request, duplicates bool) ([]broker.Delivery, error) {
	if r.o.NoSelection {
		q.Only = nil
	}
	fault := r.next(OpReceive)
	if fault == RequestLost || fault == Throttle {
		return nil, fmt.Errorf("receive: %w", faultResult(fault).Err)
	}
	if q.Max = r.shorten(q.Max); q.Max == 0 {
		return nil, ctx.Err()
	}
	ds, err := r.inner.Receive(ctx, q)
	if err != nil {
		return nil, err
	}
	if fault == ReplyLost {
		return nil, fmt.Errorf("receive: %w", ErrReplyLost)
	}
	return r.disturb(ds, q.Max, duplicates), nil
}

// shorten asks for less; for nothing at most maxEmpty times in a row.
func (r *rough) shorten(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.o.ShortReceives || n <= 0 {
		return n
	}
	least := 0
	if r.empties >= maxEmpty {
		least = 1
	}
	n = least + r.random.IntN(n+1-least)
	if r.empties++; n > 0 {
		r.empties = 0
	}
	return n
}

// disturb renames, repeats and shuffles what was received.
func (r *rough) disturb(ds []broker.Delivery, most int, duplicates bool) []broker.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ds {
		ds[i].Message = r.renamed(ds[i].Message)
	}
	if duplicates {
		ds = r.duplicate(ds, most)
	}
	if r.o.Shuffle && !slices.ContainsFunc(ds, func(d broker.Delivery) bool { return d.OrderKey != "" }) {
		r.random.Shuffle(len(ds), func(i, j int) { ds[i], ds[j] = ds[j], ds[i] })
	}
	return ds
}

// duplicate adds an earlier delivery to every fourth receive that has room for
// it, and keeps a few of these.
func (r *rough) duplicate(ds []broker.Delivery, most int) []broker.Delivery {
	out := ds
	if len(ds) < most && len(r.past) > 0 && r.random.IntN(4) == 0 {
		out = append(out, r.past[r.random.IntN(len(r.past))])
	}
	for _, d := range ds {
		if d.OrderKey == "" && len(r.past) < 8 {
			r.past = append(r.past, d)
		} else if d.OrderKey == "" {
			r.past[r.random.IntN(len(r.past))] = d
		}
	}
	return out
}

// renamed gives a copy a message ID of its own, always the same.
func (r *rough) renamed(m broker.Message) broker.Message {
	if r.o.FreshMessageIDs {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", r.o.Seed, m.Copy))
		m.MessageID = hex.EncodeToString(sum[:16])
	}
	return m
}

// next counts one entry of op and says what happens to it.
func (r *rough) next(op Op) Fault {
	r.mu.Lock()
	i := r.count[op]
	r.count[op]++
	r.mu.Unlock()
	if op == OpPublish && r.o.LosePublishReply != nil && r.o.LosePublishReply(i) {
		return ReplyLost
	}
	if r.o.Fault == nil {
		return NoFault
	}
	return r.o.Fault(op, i)
}

func faultResult(f Fault) broker.Result {
	if f == Throttle {
		return broker.Result{Outcome: broker.Refused, Err: broker.ErrThrottled}
	}
	return broker.Result{Outcome: broker.Unknown, Err: ErrReplyLost}
}

// withFaults calls the inner broker with the entries that reach it, and answers
// for the others, and for those whose reply is lost.
func withFaults[E any](r *rough, op Op, es []E, call func([]E) []broker.Result) []broker.Result {
	results := make([]broker.Result, len(es))
	faults := make([]Fault, len(es))
	var through []E
	var at []int
	for i, e := range es {
		faults[i] = r.next(op)
		results[i] = faultResult(faults[i])
		if faults[i] == NoFault || faults[i] == ReplyLost {
			through, at = append(through, e), append(at, i)
		}
	}
	for j, result := range call(through) {
		if faults[at[j]] == NoFault {
			results[at[j]] = result
		}
	}
	return results
}

func (r *rough) Extend(ctx context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	return withFaults(r, OpExtend, ds, func(ds []broker.Delivery) []broker.Result { return r.inner.Extend(ctx, ds, lease) })
}

func (r *rough) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return withFaults(r, OpAck, ds, func(ds []broker.Delivery) []broker.Result { return r.inner.Ack(ctx, ds) })
}

func (r *rough) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	return withFaults(r, OpRelease, ds, func(ds []broker.Delivery) []broker.Result { return r.inner.Release(ctx, ds) })
}

func (r *rough) Publish(ctx context.Context, destination string, ms []broker.Outgoing) []broker.Result {
	return withFaults(r, OpPublish, ms, func(ms []broker.Outgoing) []broker.Result {
		if r.o.NoDedup {
			ms = slices.Clone(ms)
			for i := range ms {
				ms[i].DedupID = ""
			}
		}
		return r.inner.Publish(ctx, destination, ms)
	})
}

func (r *rough) Quarantine(ctx context.Context, ds []broker.Delivery, why broker.Reason) []broker.Result {
	return withFaults(r, OpQuarantine, ds, func(ds []broker.Delivery) []broker.Result { return r.inner.Quarantine(ctx, ds, why) })
}
