package brokertest

import (
	"errors"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var leaseChecks = []check{
	{"a lease hides the copy", checkHidden},
	{"a lease ends and the copy comes back", checkExpiry},
	{"an acknowledgement after the lease does not remove the copy", checkLateAck},
	{"extend keeps the lease", checkExtend},
	{"release shows the copy at once", checkRelease},
	{"acknowledge removes exactly the received copies", checkAck},
	{"an acknowledged copy cannot be acknowledged again", checkAckTwice},
	{"receive by name", checkOnly},
}

func (s *suite) mustBe(want broker.Outcome, is error, i int, r broker.Result) {
	s.Helper()
	if r.Outcome != want || (is != nil && !errors.Is(r.Err, is)) {
		s.Fatalf("result %d is %s (%v), want %s (%v)", i, r.Outcome, r.Err, want, is)
	}
	if (r.Err == nil) != (r.Outcome == broker.Done) {
		s.Fatalf("result %d is %s with error %v: only done has none", i, r.Outcome, r.Err)
	}
}

// mustBeLost allows what a broker can tell of a lost lease: ErrLeaseLost, or
// that it does not know.
func (s *suite) mustBeLost(r broker.Result) {
	s.Helper()
	if r.Outcome == broker.Refused {
		s.mustBe(broker.Refused, broker.ErrLeaseLost, 0, r)
		return
	}
	s.mustBe(broker.Unknown, nil, 0, r)
}

func (s *suite) needClock() {
	s.Helper()
	if s.Advance == nil {
		s.Skip("the fixture has no clock to move")
	}
}

func checkHidden(s *suite) {
	s.seed(1)
	d := s.mustReceive(1)[0]
	if d.Receipt == "" || d.LeaseUntil.IsZero() || d.Receives < 1 {
		s.Fatalf("delivery without receipt, end of lease or count: %+v", d)
	}
	s.mustSeeNone("it is leased")
}

func checkExpiry(s *suite) {
	s.needClock()
	s.seed(1)
	first := s.mustReceive(1)[0]
	s.Advance(lease - time.Second)
	s.mustSeeNone("the lease has a second left")
	s.Advance(2 * time.Second)
	second := s.mustReceive(1)[0]
	if second.Copy != first.Copy || second.MessageID != first.MessageID {
		s.Fatalf("the copy came back as %s, message %s, was %s, message %s", second.Copy, second.MessageID, first.Copy, first.MessageID)
	}
	if second.Receipt == first.Receipt {
		s.Fatal("the receipt of the ended lease was given out again")
	}
	if second.Receives <= first.Receives {
		s.Fatalf("receives %d after %d", second.Receives, first.Receives)
	}
}

func checkLateAck(s *suite) {
	s.needClock()
	s.seed(2)
	ds := s.mustReceive(2)
	s.Advance(lease + time.Second)
	s.mustBeLost(s.Broker.Ack(s.ctx(), ds[:1])[0])
	again := s.mustReceive(2) // both are still there, and now somebody else's
	for _, rs := range [][]broker.Result{
		s.Broker.Ack(s.ctx(), ds), s.Broker.Release(s.ctx(), ds), s.Broker.Extend(s.ctx(), ds, lease),
	} {
		for _, r := range rs {
			s.mustBeLost(r)
		}
	}
	s.mustSeeNone("the old receipt does not release it")
	s.mustAll(broker.Done, nil, s.Broker.Ack(s.ctx(), again))
}

func checkExtend(s *suite) {
	s.needClock()
	s.seed(1)
	ds := s.mustReceive(1)
	s.Advance(lease - 10*time.Second)
	s.mustAll(broker.Done, nil, s.Broker.Extend(s.ctx(), ds, lease))
	s.Advance(lease - 10*time.Second)
	s.mustSeeNone("the lease was extended")
	s.mustAll(broker.Done, nil, s.Broker.Ack(s.ctx(), ds))
}

func checkRelease(s *suite) {
	s.seed(1)
	ds := s.mustReceive(1)
	s.mustAll(broker.Done, nil, s.Broker.Release(s.ctx(), ds))
	again := s.mustReceive(1)
	if again[0].Copy != ds[0].Copy {
		s.Fatalf("the released copy %s came back as %s", ds[0].Copy, again[0].Copy)
	}
	s.mustBeLost(s.Broker.Ack(s.ctx(), ds)[0])
}

func checkAck(s *suite) {
	s.seed(5)
	ds := s.mustReceive(5)
	s.mustAll(broker.Done, nil, s.batches(ds[:3], s.ack))
	s.mustAll(broker.Done, nil, s.batches(ds[3:], s.release))
	s.sameBodies(s.left(), messages(ds[3:]))
}

func (s *suite) ack(ds []broker.Delivery) []broker.Result     { return s.Broker.Ack(s.ctx(), ds) }
func (s *suite) release(ds []broker.Delivery) []broker.Result { return s.Broker.Release(s.ctx(), ds) }

func checkAckTwice(s *suite) {
	s.seed(1)
	ds := s.mustReceive(1)
	s.mustAll(broker.Done, nil, s.ack(ds))
	// A broker may take the second one as done already (SQS does); it may not
	// bring the copy back.
	if r := s.ack(ds)[0]; r.Outcome != broker.Done {
		s.mustBeLost(r)
	}
	s.sameBodies(s.left(), nil)
}

func checkOnly(s *suite) {
	if !s.can().SelectiveReceive {
		s.Skip("the broker cannot receive by name")
	}
	s.seed(6)
	all := s.browse()
	named := []broker.CopyID{all[4].Copy, all[1].Copy, {Entity: "elsewhere", ID: all[0].Copy.ID}}
	ds := s.mustReceive(2, named...)
	s.sameBodies(messages(ds), []broker.Message{all[1], all[4]})
	if more := s.receive(1, named...); len(more) > 0 {
		s.Fatalf("received copy %s by name while it is leased", more[0].Copy)
	}
	s.mustReceive(4)
}
