package brokertest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var batchChecks = []check{
	{"one message too large does not stop the others", checkTooLarge},
	{"a destination that does not exist", checkNoQueue},
	{"one lost lease does not stop the others", checkPartialAck},
	{"nothing in, nothing out", checkEmptyBatch},
	{"an ended context applies nothing", checkEndedContext},
	{"a delayed message waits", checkDelay},
	{"a repeat inside the deduplication window is not delivered", checkDedup},
}

func checkTooLarge(s *suite) {
	ms := bodies(3)
	ms[1].Body = bytes.Repeat([]byte("x"), s.can().MaxMessageBytes+1)
	var rs []broker.Result
	if s.can().MaxBatch >= len(ms) {
		rs = s.Broker.Publish(s.ctx(), s.Destination, ms)
	} else {
		for i := range ms {
			rs = append(rs, s.Broker.Publish(s.ctx(), s.Destination, ms[i:i+1])...)
		}
	}
	if len(rs) != len(ms) {
		s.Fatalf("%d results for %d messages", len(rs), len(ms))
	}
	s.mustBe(broker.Done, nil, 0, rs[0])
	s.mustBe(broker.Refused, broker.ErrTooLarge, 1, rs[1])
	s.mustBe(broker.Done, nil, 2, rs[2])
	s.sameBodies(s.Read(s.T, s.Destination), outgoing([]broker.Outgoing{ms[0], ms[2]}))
}

func checkNoQueue(s *suite) {
	ms := bodies(min(2, s.can().MaxBatch))
	rs := s.Broker.Publish(s.ctx(), "no-such-destination", ms)
	if len(rs) != len(ms) {
		s.Fatalf("%d results for %d messages", len(rs), len(ms))
	}
	s.mustAll(broker.Refused, broker.ErrNoQueue, rs)
}

func checkPartialAck(s *suite) {
	s.seed(3)
	ds := s.mustReceive(3)
	s.mustAll(broker.Done, nil, s.release(ds[1:2])) // its lease is gone
	if s.can().MaxBatch < 3 {
		s.Skip("the broker has no batches")
	}
	rs := s.ack(ds)
	if len(rs) != 3 {
		s.Fatalf("%d results for 3 deliveries", len(rs))
	}
	s.mustBe(broker.Done, nil, 0, rs[0])
	s.mustBeLost(rs[1])
	s.mustBe(broker.Done, nil, 2, rs[2])
	s.sameBodies(s.left(), messages(ds[1:2]))
}

func checkEmptyBatch(s *suite) {
	for _, op := range s.calls(s.ctx(), nil) {
		if len(op.results) != 0 {
			s.Errorf("%s of nothing has %d results", op.op, len(op.results))
		}
	}
	if ds, err := s.Broker.Receive(s.ctx(), broker.Request{Max: 1, Lease: lease}); err != nil || len(ds) > 0 {
		s.Errorf("receive from an empty queue: %d copies, error %v", len(ds), err)
	}
}

type called struct {
	op      Op
	results []broker.Result
}

// calls makes one call of each batch method with ds.
func (s *suite) calls(ctx context.Context, ds []broker.Delivery) []called {
	return []called{
		{OpExtend, s.Broker.Extend(ctx, ds, lease)},
		{OpPublish, s.Broker.Publish(ctx, s.Destination, bodies(len(ds)))},
		{OpRelease, s.Broker.Release(ctx, ds)},
		{OpAck, s.Broker.Ack(ctx, ds)},
		{OpQuarantine, s.Broker.Quarantine(ctx, ds, broker.Reason{Type: "T"})},
	}
}

// checkEndedContext: a context that ended before the call. No result may be
// Done, and what was leased stays leased and counted.
func checkEndedContext(s *suite) {
	s.seed(2)
	ds := s.mustReceive(1)
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	for _, op := range s.calls(ended, ds) {
		if len(op.results) != len(ds) {
			s.Fatalf("%s: %d results for %d entries", op.op, len(op.results), len(ds))
		}
		if r := op.results[0]; r.Outcome == broker.Done || r.Err == nil {
			s.Errorf("%s with an ended context is %s (%v)", op.op, r.Outcome, r.Err)
		}
	}
	if got, err := s.Broker.Receive(ended, broker.Request{Max: 1, Lease: lease}); !errors.Is(err, context.Canceled) || len(got) > 0 {
		s.Errorf("receive with an ended context: %d copies, error %v", len(got), err)
	}
	if _, err := s.Broker.Describe(ended); !errors.Is(err, context.Canceled) {
		s.Errorf("describe with an ended context: error %v", err)
	}
	s.mustReceive(1) // the other one was not leased by the call that failed
	s.sameBodies(s.Read(s.T, s.Destination), nil)
	s.mustAll(broker.Done, nil, s.ack(ds))
}

// checkDelay sends with a delay and receives at the destination only through
// the oracle, which shows delayed copies too; what it proves is that a delay
// loses nothing. The source, where there is one, shows that it hides. A broker
// that cannot delay refuses.
func checkDelay(s *suite) {
	m := body(1)
	m.Delay = 30 * time.Second
	if s.Source == nil {
		s.publish([]broker.Outgoing{m})
		s.sameBodies(s.Read(s.T, s.Destination), outgoing([]broker.Outgoing{m}))
		return
	}
	s.needClock()
	rs := s.Broker.Publish(s.ctx(), s.SourceName, []broker.Outgoing{m})
	if rs[0].Outcome == broker.Refused { // it has no delay for a single message, and says so
		s.sameBodies(s.Read(s.T, s.SourceName), nil)
		return
	}
	s.mustAll(broker.Done, nil, rs)
	if ds := s.receiveFrom(s.Source, 1); len(ds) > 0 {
		s.Fatal("a delayed message was delivered at once")
	}
	s.Advance(31 * time.Second)
	if ds := s.receiveFrom(s.Source, 1); len(ds) != 1 {
		s.Fatalf("after its delay %d copies were delivered", len(ds))
	}
}

func checkDedup(s *suite) {
	window := s.can().DedupWindow
	if window == 0 {
		s.Skip("the broker does not deduplicate")
	}
	s.needClock()
	one, other := body(1), body(2)
	one.DedupID, other.DedupID = "same", "another"
	first := s.publish([]broker.Outgoing{one})[0]
	s.Advance(window - time.Second)
	rs := s.publish([]broker.Outgoing{one, other, other})
	if rs[0].NewMessageID != first.NewMessageID {
		s.Errorf("the repeat is told to be %q, the first was %q", rs[0].NewMessageID, first.NewMessageID)
	}
	s.sameBodies(s.Read(s.T, s.Destination), outgoing([]broker.Outgoing{one, other}))
	s.Advance(2 * time.Second)
	s.publish([]broker.Outgoing{one})
	s.sameBodies(s.Read(s.T, s.Destination), outgoing([]broker.Outgoing{one, other, one}))
}
