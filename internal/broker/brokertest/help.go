package brokertest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

const (
	// lease is what the checks lease for: long for a broker without a clock to
	// move, and inside every broker's limits.
	lease = time.Minute
	// patience is how many receives in a row may bring nothing new before the
	// checks believe that there is nothing: no single empty receive is proof.
	patience = 8
)

func body(i int) broker.Outgoing {
	return broker.Outgoing{Message: broker.Message{Body: fmt.Appendf(nil, "body %06d", i)}}
}

func bodies(n int) []broker.Outgoing {
	ms := make([]broker.Outgoing, n)
	for i := range ms {
		ms[i] = body(i)
	}
	return ms
}

// seed fills the dead-letter queue with n plain messages, batch by batch.
func (s *suite) seed(n int) []broker.Outgoing {
	s.Helper()
	ms := bodies(n)
	for part := range slices.Chunk(ms, s.can().MaxBatch) {
		s.Seed(s.T, part)
	}
	return ms
}

// delivery names one lease of one copy.
type delivery struct {
	copy    broker.CopyID
	receipt string
}

// receive leases until it holds n copies or nothing new comes any more. Order
// is the broker's. A delivery that the check has seen before is a duplicate and
// left out: at-least-once brokers may deliver twice.
func (s *suite) receive(n int, only ...broker.CopyID) []broker.Delivery {
	s.Helper()
	return s.receiveFrom(s.Broker, n, only...)
}

func (s *suite) receiveFrom(b broker.Broker, n int, only ...broker.CopyID) []broker.Delivery {
	s.Helper()
	var got []broker.Delivery
	for idle := 0; idle < patience && len(got) < n; {
		r := broker.Request{Max: min(n-len(got), b.Capabilities().MaxBatch), Lease: lease, Only: only}
		ds, err := b.Receive(s.ctx(), r)
		if err != nil {
			s.Fatalf("receive: %v", err)
		}
		fresh := s.fresh(ds)
		if len(fresh) > r.Max {
			s.Fatalf("receive of at most %d gave %d", r.Max, len(fresh))
		}
		got = append(got, fresh...)
		if idle++; len(fresh) > 0 {
			idle = 0
		}
	}
	return got
}

// fresh leaves out deliveries that were seen before, and remembers the others.
func (s *suite) fresh(ds []broker.Delivery) []broker.Delivery {
	return slices.DeleteFunc(slices.Clone(ds), func(d broker.Delivery) bool {
		key := delivery{d.Copy, d.Receipt}
		seen := s.seen[key]
		s.seen[key] = true
		return seen
	})
}

// mustReceive is receive of exactly n copies.
func (s *suite) mustReceive(n int, only ...broker.CopyID) []broker.Delivery {
	s.Helper()
	ds := s.receive(n, only...)
	if len(ds) != n {
		s.Fatalf("received %d copies, want %d", len(ds), n)
	}
	return ds
}

// mustSeeNone says that nothing can be received.
func (s *suite) mustSeeNone(why string) {
	s.Helper()
	if ds := s.receive(1); len(ds) > 0 {
		s.Fatalf("received copy %s although %s", ds[0].Copy, why)
	}
}

// browse is all that a look shows.
func (s *suite) browse() []broker.Message {
	s.Helper()
	var ms []broker.Message
	done, err := s.Broker.Browse(s.ctx(), 0, func(m broker.Message) error { ms = append(ms, m); return nil })
	if err != nil {
		s.Fatalf("browse: %v", err)
	}
	if done.Complete == (done.Why != "") {
		s.Fatalf("browse is complete %t and says why not: %q", done.Complete, done.Why)
	}
	return ms
}

// left is what is still in the dead-letter queue, found by browsing where that
// is free, else by receiving all that can be received.
func (s *suite) left() []broker.Message {
	s.Helper()
	if s.can().FreePeek {
		return s.browse()
	}
	ds := s.receive(1 << 20)
	s.mustAll(broker.Done, nil, s.batches(ds, func(ds []broker.Delivery) []broker.Result { return s.Broker.Release(s.ctx(), ds) }))
	return messages(ds)
}

// batches calls act with at most MaxBatch deliveries at a time.
func (s *suite) batches(ds []broker.Delivery, act func([]broker.Delivery) []broker.Result) []broker.Result {
	var rs []broker.Result
	for part := range slices.Chunk(ds, s.can().MaxBatch) {
		rs = append(rs, act(part)...)
	}
	return rs
}

func messages(ds []broker.Delivery) []broker.Message {
	ms := make([]broker.Message, len(ds))
	for i, d := range ds {
		ms[i] = d.Message
	}
	return ms
}

// content is a message as its sender knows it, in a form to compare: attributes
// sorted by name, since brokers keep them in a map.
func content(m broker.Message) broker.Message {
	sorted := func(as []broker.Attribute) []broker.Attribute {
		as = slices.Clone(as)
		slices.SortFunc(as, func(a, b broker.Attribute) int { return cmp.Compare(a.Name, b.Name) })
		return as
	}
	return broker.Message{
		Body: m.Body, OrderKey: m.OrderKey, RawFormat: m.RawFormat, Raw: m.Raw,
		Attributes: sorted(m.Attributes), System: sorted(m.System),
	}
}

// contents are sorted by body: no broker is asked to keep an order
// across groups.
func contents(ms []broker.Message) []broker.Message {
	cs := make([]broker.Message, len(ms))
	for i, m := range ms {
		cs[i] = content(m)
	}
	slices.SortFunc(cs, func(a, b broker.Message) int { return slices.Compare(a.Body, b.Body) })
	return cs
}

func outgoing(os []broker.Outgoing) []broker.Message {
	ms := make([]broker.Message, len(os))
	for i, o := range os {
		ms[i] = o.Message
	}
	return ms
}

// bodiesOf are the bodies, sorted.
func bodiesOf(ms []broker.Message) []string {
	bs := make([]string, len(ms))
	for i, m := range ms {
		bs[i] = string(m.Body)
	}
	slices.Sort(bs)
	return bs
}

// mustAll checks that every result has the outcome, and the error where it is
// not nil, and that only Done is without one.
func (s *suite) mustAll(want broker.Outcome, is error, rs []broker.Result) {
	s.Helper()
	for i, r := range rs {
		s.mustBe(want, is, i, r)
	}
}
