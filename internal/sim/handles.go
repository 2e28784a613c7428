package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// queueOf is a queue as one process sees it: with the faults of the way there
// and back, under the eyes of the promises.
type queueOf struct {
	p *proc
	q *queue
}

var _ broker.Broker = queueOf{}

// Capabilities are the same for every queue.
func (b queueOf) Capabilities() broker.Capabilities { return b.p.queues.caps }

// Describe implements broker.Broker.
func (b queueOf) Describe(context.Context) (broker.Description, error) {
	if f := b.p.enter("describe", failed); f != fine {
		return broker.Description{}, f.err()
	}
	return b.p.queues.describe(b.q), nil
}

// Browse implements broker.Broker.
func (b queueOf) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	if f := b.p.enter("browse", failed); f != fine {
		return broker.Completeness{Why: "the broker did not answer"}, f.err()
	}
	return b.p.queues.browse(ctx, b.q, limit, each)
}

// Receive implements broker.Broker. LeaseUntil is by the receiver's clock, from
// before the call.
func (b queueOf) Receive(_ context.Context, r broker.Request) ([]broker.Delivery, error) {
	until := b.p.clock().Add(r.Lease)
	op := "receive " + b.q.name
	b.p.asks(b.q)
	f := b.p.enter(op, failed, lostAfter)
	if f == failed || f == killed {
		return nil, f.err()
	}
	ds := b.p.queues.receive(b.q, r, b.p.order())
	for i := range ds {
		b.p.note("receive %s: copy %s of %s", b.q.name, ds[i].Copy.ID, b.p.keyOf(ds[i].Message))
		ds[i].LeaseUntil = until
	}
	if !b.p.leave(op) || f == lostAfter {
		return nil, errFault
	}
	return ds, nil
}

// order shuffles what may be received, where the broker keeps no order.
func (p *proc) order() func([]*copyOf) {
	if p.world.calm || !p.chance(0.3) {
		return nil
	}
	return func(cs []*copyOf) { p.rnd.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] }) }
}

func (f fate) err() error {
	if f == killed {
		return errDead
	}
	return errFault
}

// batch is one call for several deliveries: each is done or not, and the answer
// may be lost.
func (b queueOf) batch(verb string, ds []broker.Delivery, do func([]broker.Delivery) []broker.Result) []broker.Result {
	op := verb + " " + b.q.name
	f := b.p.enter(op, failed, lostBefore, lostAfter)
	switch f {
	case failed:
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: errFault})
	case lostBefore, killed:
		return broker.All(len(ds), broker.Result{Err: f.err()})
	}
	rs := do(ds)
	for i, d := range ds {
		b.p.note("%s: copy %s of %s: %s", op, d.Copy.ID, b.p.keyOf(d.Message), rs[i].Outcome)
	}
	if !b.p.leave(op) || f == lostAfter {
		return broker.All(len(ds), broker.Result{Err: errFault})
	}
	return rs
}

// Extend implements broker.Broker.
func (b queueOf) Extend(_ context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	return b.batch("extend", ds, func(ds []broker.Delivery) []broker.Result { return b.p.queues.extend(b.q, ds, lease) })
}

// Release implements broker.Broker.
func (b queueOf) Release(_ context.Context, ds []broker.Delivery) []broker.Result {
	return b.batch("release", ds, func(ds []broker.Delivery) []broker.Result {
		rs := b.p.queues.release(b.q, ds)
		b.p.rouse()
		return rs
	})
}

// Ack implements broker.Broker. What leaves a queue must not be lost.
func (b queueOf) Ack(_ context.Context, ds []broker.Delivery) []broker.Result {
	return b.batch("ack", ds, func(ds []broker.Delivery) []broker.Result {
		for _, d := range ds {
			if c := b.p.queues.held(b.q, d); c != nil {
				b.p.mayLeave(c.msg)
			}
		}
		rs := b.p.queues.ack(b.q, ds)
		for _, d := range ds {
			b.p.nothingLost(d.Message)
		}
		return rs
	})
}

// Quarantine implements broker.Broker.
func (b queueOf) Quarantine(_ context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	return b.batch("dead-letter", ds, func(ds []broker.Delivery) []broker.Result { return b.p.queues.quarantine(b.q, ds, r) })
}

// Publish implements broker.Broker. Each message of a call has a fate of its own.
func (b queueOf) Publish(_ context.Context, to string, ms []broker.Outgoing) []broker.Result {
	rs := make([]broker.Result, len(ms))
	b.p.sends = b.p.world.now
	f := b.p.enter("publish", failed, lostBefore, lostAfter)
	for i, o := range ms {
		rs[i] = b.publish(to, o, f)
		b.p.note("publish to %s: %s: %s", to, b.p.keyOf(o.Message), rs[i].Outcome)
	}
	if !b.p.leave("publish") {
		return broker.All(len(ms), broker.Result{Err: errDead})
	}
	return rs
}

func (b queueOf) publish(to string, o broker.Outgoing, f fate) broker.Result {
	if f == lostAfter || f == fine {
		if b.p.strikes(b.p.odds.fault, "publish: throttled") {
			return broker.Result{Outcome: broker.Refused, Err: broker.ErrThrottled}
		}
		b.p.mayPublish(to, o)
		r := b.p.queues.publish(to, o)
		b.p.rouse()
		if f == fine {
			return r
		}
	}
	if f == failed {
		return broker.Result{Outcome: broker.Refused, Err: errFault}
	}
	return broker.Result{Err: f.err()}
}

// ledgerOf is the ledger as one process sees it.
type ledgerOf struct {
	p *proc
	l *rows
}

var _ ledger.Ledger = ledgerOf{}

// Capabilities implements ledger.Ledger.
func (l ledgerOf) Capabilities() ledger.Capabilities { return l.l.caps }

// Now implements ledger.Ledger.
func (l ledgerOf) Now(context.Context) (time.Time, error) {
	if f := l.p.enter("ledger clock", failed); f != fine {
		return time.Time{}, f.err()
	}
	return l.l.now(), nil
}

// Get implements ledger.Ledger.
func (l ledgerOf) Get(_ context.Context, keys []ledger.Key) []ledger.Lookup {
	ls := make([]ledger.Lookup, len(keys))
	f := l.p.enter("ledger get", failed)
	for i, k := range keys {
		ls[i] = ledger.Lookup{Found: ledger.Unreadable, Err: f.err()}
		if f == fine {
			ls[i] = l.l.get(k)
		}
	}
	return ls
}

// History implements ledger.Ledger.
func (l ledgerOf) History(_ context.Context, k ledger.Key) (ledger.Row, bool, error) {
	if f := l.p.enter("ledger history", failed); f != fine {
		return ledger.Row{}, false, f.err()
	}
	r := l.l.byKey[l.l.key(k)]
	if r == nil {
		return ledger.Row{}, false, nil
	}
	return l.l.read(r, true), true, nil
}

// Scan implements ledger.Ledger.
func (l ledgerOf) Scan(_ context.Context, w ledger.Window, each func(ledger.Row) error) error {
	if f := l.p.enter("ledger scan", failed); f != fine {
		return f.err()
	}
	return l.l.scan(w, each)
}

// Apply implements ledger.Ledger.
func (l ledgerOf) Apply(_ context.Context, cs []ledger.Change) []ledger.Result {
	rs := make([]ledger.Result, len(cs))
	f := l.p.enter("ledger apply", lostBefore, lostAfter)
	for i, c := range cs {
		rs[i] = ledger.Result{Err: f.err()}
		if f == fine || f == lostAfter {
			l.p.mayChange(c)
			rs[i] = l.l.apply(c)
			l.p.changed(c, rs[i].Outcome)
		}
	}
	if !l.p.leave("ledger apply") || f == lostAfter {
		for i := range rs {
			rs[i] = ledger.Result{Err: errFault}
		}
	}
	return rs
}

// Rendering and SaveRendering make it a worker.Renderings.
func (l ledgerOf) Rendering(ctx context.Context, k ledger.Key) ([]byte, error) {
	if f := l.p.enter("rendering", failed); f != fine {
		return nil, f.err()
	}
	return l.l.rendering(ctx, k), nil
}

// SaveRendering keeps the first content.
func (l ledgerOf) SaveRendering(_ context.Context, k ledger.Key, content []byte) ([]byte, error) {
	if f := l.p.enter("save rendering", failed); f != fine {
		return nil, f.err()
	}
	return l.l.saveRendering(k, content), nil
}

func describe(c ledger.Change) string {
	return fmt.Sprintf("%s: %s %d to %s", c.Key.JobKey, c.From, c.FromAttempt, orElse(string(c.To), "a late record"))
}
