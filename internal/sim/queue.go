package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// queues is the broker: all its queues, in memory. It keeps what
// internal/broker/brokertest asks of one, which a test of this package shows.
type queues struct {
	now   func() time.Time
	caps  broker.Capabilities
	byApp bool // a message's ID is the one that its sender gave it
	named map[string]*queue
	last  int // numbers of copies, messages and receipts
}

type queue struct {
	name, deadLetter string
	maxReceives      int // then a copy is dead-lettered without a word
	copies           []*copyOf
	dedup            map[string]dedup
}

// copyOf is one copy; hidden until then.
type copyOf struct {
	msg     broker.Message
	receipt string
	until   time.Time
	leased  bool
}

type dedup struct {
	id    string
	until time.Time
}

// messageIDAttribute is how a sender names its message, where the broker takes
// its word for it.
const messageIDAttribute = "message_id"

func newQueues(now func() time.Time, caps broker.Capabilities, names ...string) *queues {
	q := &queues{now: now, caps: caps, named: map[string]*queue{}}
	for _, n := range names {
		q.named[n] = &queue{name: n, dedup: map[string]dedup{}}
	}
	return q
}

func (qs *queues) number(prefix string) string {
	qs.last++
	return prefix + strconv.Itoa(qs.last)
}

func (c *copyOf) visible(now time.Time) bool { return !c.until.After(now) }

func (q *queue) find(c broker.CopyID) *copyOf {
	i := slices.IndexFunc(q.copies, func(x *copyOf) bool { return x.msg.Copy == c })
	if i < 0 {
		return nil
	}
	return q.copies[i]
}

func (q *queue) drop(c broker.CopyID) {
	q.copies = slices.DeleteFunc(q.copies, func(x *copyOf) bool { return x.msg.Copy == c })
}

// held is the copy of a delivery whose lease still holds.
func (qs *queues) held(q *queue, d broker.Delivery) *copyOf {
	c := q.find(d.Copy)
	if c == nil || !c.leased || c.receipt != d.Receipt || c.visible(qs.now()) {
		return nil
	}
	return c
}

// receive leases the copies that may go, in the order that pick gives them.
func (qs *queues) receive(q *queue, r broker.Request, order func([]*copyOf)) []broker.Delivery {
	now := qs.now()
	ready := qs.ready(q, r.Only, now)
	if order != nil && !qs.caps.Ordered {
		order(ready)
	}
	var ds []broker.Delivery
	for _, c := range ready {
		if len(ds) == min(r.Max, atLeastOne(qs.caps.MaxBatch)) {
			break
		}
		if q.maxReceives > 0 && c.msg.Receives >= q.maxReceives {
			qs.move(q, c, broker.QuarantinedByMaxReceives, broker.Reason{})
			continue
		}
		ds = append(ds, qs.lease(c, now, r.Lease))
	}
	return ds
}

func atLeastOne(n int) int { return max(n, 1) }

// ready are the visible copies. Of an ordered group that is the head alone, and
// nothing while one of it is in flight; a copy asked for by name may lie behind.
func (qs *queues) ready(q *queue, only []broker.CopyID, now time.Time) []*copyOf {
	busy, groups := map[string]bool{}, map[string]bool{}
	for _, c := range q.copies {
		busy[c.msg.OrderKey] = busy[c.msg.OrderKey] || c.leased && !c.visible(now)
	}
	named := len(only) > 0 && qs.caps.SelectiveReceive
	var ready []*copyOf
	for _, c := range q.copies {
		g := c.msg.OrderKey
		switch ordered := qs.caps.Ordered && g != ""; {
		case named && !slices.Contains(only, c.msg.Copy):
		case ordered && (busy[g] || groups[g]):
		case ordered && !named && !c.visible(now):
			groups[g] = true // its head waits
		case c.visible(now):
			groups[g] = true
			ready = append(ready, c)
		}
	}
	return ready
}

func (qs *queues) lease(c *copyOf, now time.Time, d time.Duration) broker.Delivery {
	c.msg.Receives++
	if c.msg.FirstReceivedAt.IsZero() {
		c.msg.FirstReceivedAt = now
	}
	c.receipt, c.leased, c.until = qs.number("r"), true, now.Add(d)
	return broker.Delivery{Message: c.msg, Receipt: c.receipt, LeaseUntil: c.until}
}

// settle makes one change to each of the received copies that are still held.
func (qs *queues) settle(q *queue, ds []broker.Delivery, act func(*copyOf) error) []broker.Result {
	rs := make([]broker.Result, len(ds))
	for i, d := range ds {
		c := qs.held(q, d)
		if c == nil {
			rs[i] = broker.Result{Outcome: broker.Refused, Err: broker.ErrLeaseLost}
		} else if err := act(c); err != nil {
			rs[i] = broker.Result{Outcome: broker.Refused, Err: err}
		} else {
			rs[i] = broker.Result{Outcome: broker.Done}
		}
	}
	return rs
}

func (qs *queues) extend(q *queue, ds []broker.Delivery, lease time.Duration) []broker.Result {
	return qs.settle(q, ds, func(c *copyOf) error { c.until = qs.now().Add(lease); return nil })
}

func (qs *queues) ack(q *queue, ds []broker.Delivery) []broker.Result {
	return qs.settle(q, ds, func(c *copyOf) error { q.drop(c.msg.Copy); return nil })
}

func (qs *queues) release(q *queue, ds []broker.Delivery) []broker.Result {
	return qs.settle(q, ds, func(c *copyOf) error { c.leased, c.until = false, qs.now(); return nil })
}

func (qs *queues) quarantine(q *queue, ds []broker.Delivery, r broker.Reason) []broker.Result {
	return qs.settle(q, ds, func(c *copyOf) error {
		if qs.named[q.deadLetter] == nil {
			return broker.ErrNoQueue
		}
		qs.move(q, c, broker.QuarantinedByApplication, r)
		return nil
	})
}

// move dead-letters a copy: the same message under another copy's identity.
func (qs *queues) move(q *queue, c *copyOf, by string, r broker.Reason) {
	q.drop(c.msg.Copy)
	to := qs.named[q.deadLetter]
	m := c.msg
	m.Copy, m.Origin = broker.CopyID{Entity: to.name, ID: qs.number("")}, q.name
	m.System = append(withoutReason(m.System), notes(by, r, qs.now())...)
	if !qs.caps.StableMessageID {
		m.MessageID = qs.number("m")
	}
	to.copies = append(to.copies, &copyOf{msg: m})
}

func withoutReason(as []broker.Attribute) []broker.Attribute {
	return slices.DeleteFunc(slices.Clone(as), func(a broker.Attribute) bool { return a.Name != broker.SystemTraceHeader })
}

func notes(by string, r broker.Reason, at time.Time) []broker.Attribute {
	var as []broker.Attribute
	for _, n := range [][2]string{
		{broker.SystemReasonType, r.Type},
		{broker.SystemReasonCode, r.Code},
		{broker.SystemReasonMessage, r.Message},
		{broker.SystemQuarantinedBy, by},
		{broker.SystemReasonAt, at.UTC().Format(time.RFC3339Nano)},
	} {
		if n[1] != "" {
			as = append(as, broker.Attribute{Name: n[0], Type: "String", Value: []byte(n[1])})
		}
	}
	return as
}

// publish adds one message to a queue.
func (qs *queues) publish(to string, o broker.Outgoing) broker.Result {
	q := qs.named[to]
	now := qs.now()
	switch {
	case q == nil:
		return broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("%s: %w", to, broker.ErrNoQueue)}
	case qs.caps.MaxMessageBytes > 0 && len(o.Body) > qs.caps.MaxMessageBytes:
		return broker.Result{Outcome: broker.Refused, Err: broker.ErrTooLarge}
	}
	if d, ok := q.dedup[o.DedupID]; ok && now.Before(d.until) && o.DedupID != "" {
		return broker.Result{Outcome: broker.Done, NewMessageID: d.id}
	}
	m := broker.Message{
		Copy: broker.CopyID{Entity: to, ID: qs.number("")}, MessageID: qs.number("m"), OrderKey: o.OrderKey,
		Body: slices.Clone(o.Body), Attributes: slices.Clone(o.Attributes), System: withoutReason(o.System),
		RawFormat: o.RawFormat, Raw: slices.Clone(o.Raw), SentAt: now,
	}
	for _, a := range m.Attributes {
		if qs.byApp && a.Name == messageIDAttribute {
			m.MessageID = string(a.Value)
		}
	}
	q.copies = append(q.copies, &copyOf{msg: m, until: now.Add(o.Delay)})
	if qs.caps.DedupWindow > 0 && o.DedupID != "" {
		q.dedup[o.DedupID] = dedup{m.MessageID, now.Add(qs.caps.DedupWindow)}
	}
	return broker.Result{Outcome: broker.Done, NewMessageID: m.MessageID}
}

func (qs *queues) browse(ctx context.Context, q *queue, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	for i, c := range slices.Clone(q.copies) {
		if err := ctx.Err(); err != nil {
			return broker.Completeness{Why: "the look was cut short"}, err
		}
		if limit > 0 && i == limit {
			return broker.Completeness{Why: "stopped at its limit"}, nil
		}
		if err := each(c.msg); err != nil {
			return broker.Completeness{Why: "the look was stopped"}, err
		}
	}
	return broker.Completeness{Complete: true}, nil
}

func (qs *queues) describe(q *queue) broker.Description {
	d := broker.Description{Broker: "sim", Queue: q.name, MaxReceives: q.maxReceives}
	d.Depth.Exact = qs.caps.ExactCounts
	for _, c := range q.copies {
		switch {
		case c.visible(qs.now()):
			d.Depth.Visible++
		case c.leased:
			d.Depth.InFlight++
		default:
			d.Depth.Delayed++
		}
		if at := c.msg.SentAt; d.OldestAt.IsZero() || at.Before(d.OldestAt) {
			d.OldestAt = at
		}
	}
	for _, n := range slices.Sorted(maps.Keys(qs.named)) {
		if qs.named[n].deadLetter == q.name {
			d.Sources = append(d.Sources, n)
		}
	}
	return d
}
