package brokertest

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var restoreChecks = []check{
	{"a restored copy is as it was", checkRestored},
	{"a copy is restored once", checkRestoredOnce},
	{"a restored copy takes nobody's identity", checkRestoredBeside},
	{"a restored copy can be received in its place", checkRestoredInOrder},
}

// restorer skips the check where the broker can only publish.
func (s *suite) restorer() broker.Restorer {
	s.Helper()
	r, ok := s.Broker.(broker.Restorer)
	if !ok {
		s.Skip("the broker cannot restore")
	}
	return r
}

// dead seeds messages and takes them off the queue again: copies to restore.
func (s *suite) dead(ms []broker.Outgoing) []broker.Message {
	s.Helper()
	s.Seed(s.T, ms)
	was := s.browse()
	for len(s.browse()) > 0 { // an ordered queue gives one of a group at a time
		s.mustAll(broker.Done, nil, s.batches(s.receive(1), s.ack))
	}
	return was
}

func (s *suite) sameCopies(got, want []broker.Message) {
	s.Helper()
	if d := cmp.Diff(want, got); d != "" {
		s.Fatalf("copies differ (-want +got):\n%s", d)
	}
}

func checkRestored(s *suite) {
	r := s.restorer()
	was := s.dead(s.difficult())
	back := slices.Clone(was)
	slices.Reverse(back) // in any order
	rs := r.Restore(s.ctx(), back)
	s.mustAll(broker.Done, nil, rs)
	for i, r := range rs {
		if r.Copy != back[i].Copy || r.NewMessageID != back[i].MessageID {
			s.Fatalf("copy %s is told to be %s of message %s", back[i].Copy, r.Copy, r.NewMessageID)
		}
	}
	s.sameCopies(s.browse(), was)
}

func checkRestoredOnce(s *suite) {
	r := s.restorer()
	was := s.dead(bodies(3))
	for range 2 {
		s.mustAll(broker.Done, nil, r.Restore(s.ctx(), was))
	}
	s.sameCopies(s.browse(), was)
}

// checkRestoredBeside restores a copy whose identity is another message's now,
// and one that comes from another queue.
func checkRestoredBeside(s *suite) {
	r := s.restorer()
	s.Seed(s.T, bodies(1))
	there := s.browse()
	taken, foreign := body(2).Message, body(3).Message
	taken.Copy, taken.MessageID = there[0].Copy, "m-2"
	foreign.Copy, foreign.MessageID = broker.CopyID{Entity: "another-queue", ID: "7"}, "m-3"
	rs := r.Restore(s.ctx(), []broker.Message{taken, foreign})
	s.mustAll(broker.Done, nil, rs)
	now := s.browse()
	if len(now) != 3 || now[0].Copy != there[0].Copy || string(now[0].Body) != string(there[0].Body) {
		s.Fatalf("the copy that was there is not as it was: %+v", now)
	}
	for i, m := range now[1:] {
		if m.Copy != rs[i].Copy || m.Copy == there[0].Copy || m.MessageID != []string{"m-2", "m-3"}[i] {
			s.Fatalf("copy %d is %s of message %s", i, m.Copy, m.MessageID)
		}
	}
}

// checkRestoredInOrder restores the head of an ordering group after the copy
// behind it.
func checkRestoredInOrder(s *suite) {
	r := s.restorer()
	ms := bodies(3)
	if s.Ordered {
		for i := range ms {
			ms[i].OrderKey = "group"
		}
	}
	was := s.dead(ms)
	for _, i := range []int{1, 2, 0} {
		if s.Advance != nil {
			s.Advance(lease) // so that the head is the one that was visible last
		}
		s.mustAll(broker.Done, nil, r.Restore(s.ctx(), was[i:i+1]))
	}
	if !s.Ordered {
		s.mustReceive(3)
		return
	}
	var got []string
	for range was {
		ds := s.mustReceive(1)
		got = append(got, string(ds[0].Body))
		s.mustAll(broker.Done, nil, s.ack(ds))
	}
	if want := bodiesOf(was); !slices.Equal(got, want) {
		s.Fatalf("the group came as %s", strings.Join(got, ", "))
	}
}
