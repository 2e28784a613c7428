package brokertest

import (
	"fmt"
	"slices"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var orderChecks = []check{
	{"a group comes in order, one chain in flight", checkGroup},
	{"a group waits for its head, others do not", checkGroupWaits},
	{"two receivers never hold one copy", checkTwoReceivers},
}

// grouped are n messages of each group, in turn.
func grouped(n int, groups ...string) []broker.Outgoing {
	var ms []broker.Outgoing
	for i := range n {
		for _, g := range groups {
			m := broker.Message{OrderKey: g, Body: fmt.Appendf(nil, "%s %03d", g, i)}
			ms = append(ms, broker.Outgoing{Message: m})
		}
	}
	return ms
}

func (s *suite) needOrder() {
	s.Helper()
	if !s.Ordered {
		s.Skip("the queue is not ordered")
	}
}

// checkGroup drains a queue of three groups, releasing a third of the copies on
// first sight, and looks at the order in which each group was acknowledged.
func checkGroup(s *suite) {
	s.needOrder()
	ms := grouped(6, "a", "b", "c")
	s.Seed(s.T, ms)
	acked := map[string][]string{}
	for turn := 0; ; turn++ {
		ds := s.receive(s.can().MaxBatch)
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			if turn%3 == 1 {
				s.mustAll(broker.Done, nil, s.release([]broker.Delivery{d}))
				continue
			}
			s.mustAll(broker.Done, nil, s.ack([]broker.Delivery{d}))
			acked[d.OrderKey] = append(acked[d.OrderKey], string(d.Body))
		}
	}
	for _, g := range []string{"a", "b", "c"} {
		if len(acked[g]) != 6 || !slices.IsSorted(acked[g]) {
			s.Errorf("group %s was acknowledged as %q", g, acked[g])
		}
	}
}

func checkGroupWaits(s *suite) {
	s.needOrder()
	s.Seed(s.T, grouped(1, "a"))
	head := s.mustReceive(1)
	later := grouped(3, "a")[1:]
	s.Seed(s.T, append(later, grouped(1, "b")...))
	other := s.mustReceive(1)
	if other[0].OrderKey != "b" {
		s.Fatalf("copy %q came while its group is in flight", other[0].Body)
	}
	s.mustSeeNone("the group is in flight")
	s.mustAll(broker.Done, nil, s.ack(head))
	if next := s.mustReceive(1); string(next[0].Body) != string(later[0].Body) {
		s.Fatalf("after the head came %q, want %q", next[0].Body, later[0].Body)
	}
}

// checkTwoReceivers lets several goroutines receive at once; no clock moves, so
// every lease holds.
func checkTwoReceivers(s *suite) {
	s.seed(60)
	const receivers = 4
	got := make(chan []broker.Delivery, receivers)
	for range receivers {
		go func() { got <- s.drainAlone() }()
	}
	holders := map[broker.CopyID]map[string]bool{}
	for range receivers {
		for _, d := range <-got {
			if holders[d.Copy] == nil {
				holders[d.Copy] = map[string]bool{}
			}
			holders[d.Copy][d.Receipt] = true
		}
	}
	for c, receipts := range holders {
		if len(receipts) > 1 {
			s.Errorf("copy %s was leased %d times at once", c, len(receipts))
		}
	}
	if len(holders) != 60 {
		s.Errorf("%d of 60 copies were received", len(holders))
	}
}

func (s *suite) drainAlone() []broker.Delivery {
	var all []broker.Delivery
	for idle := 0; idle < patience; {
		ds, err := s.Broker.Receive(s.ctx(), broker.Request{Max: 3, Lease: lease})
		if err != nil {
			s.Errorf("receive: %v", err)
			return all
		}
		all = append(all, ds...)
		if idle++; len(ds) > 0 && len(all) < 200 {
			idle = 0
		}
	}
	return all
}
