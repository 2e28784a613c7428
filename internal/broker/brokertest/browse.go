package brokertest

import (
	"context"
	"errors"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var browseChecks = []check{
	{"browse of an empty queue is complete", checkBrowseEmpty},
	{"browse sees every copy once and leaves it", checkBrowseAll},
	{"browse stops at its limit", checkBrowseLimit},
	{"browse ends with the error of its callback", checkBrowseError},
	{"browse ends with its context and leases nothing", checkBrowseContext},
	{"browse counts no receive and sees what is leased", checkFreePeek},
	{"browse misses what others lease and says so", checkBrowseLeased},
	{"counts", checkCounts},
}

func checkBrowseEmpty(s *suite) {
	done, err := s.Broker.Browse(s.ctx(), 0, func(m broker.Message) error { s.Errorf("copy %s", m.Copy); return nil })
	if err != nil || !done.Complete {
		s.Fatalf("complete %t (%s), error %v", done.Complete, done.Why, err)
	}
}

// several is more than one page or batch of any broker here.
const several = 260

func checkBrowseAll(s *suite) {
	n := several
	if per := s.can().BrowsePerGroup; per > 0 && s.Ordered {
		n = per
	}
	want := s.seed(n)
	var got []broker.Message
	done, err := s.Broker.Browse(s.ctx(), 0, func(m broker.Message) error { got = append(got, m); return nil })
	if err != nil || !done.Complete || done.Why != "" {
		s.Fatalf("complete %t (%s), error %v", done.Complete, done.Why, err)
	}
	s.sameBodies(got, outgoing(want))
	s.sameBodies(messages(s.mustReceive(n)), outgoing(want)) // nothing stayed leased
}

func checkBrowseLimit(s *suite) {
	s.seed(7)
	for _, c := range []struct {
		limit, want int
		complete    bool
	}{{1, 1, false}, {6, 6, false}, {8, 7, true}} {
		seen := 0
		done, err := s.Broker.Browse(s.ctx(), c.limit, func(broker.Message) error { seen++; return nil })
		if err != nil || seen != c.want || done.Complete != c.complete || (done.Why == "") != c.complete {
			s.Errorf("limit %d: saw %d, complete %t (%s), error %v", c.limit, seen, done.Complete, done.Why, err)
		}
	}
	s.mustReceive(7)
}

func checkBrowseError(s *suite) {
	s.seed(5)
	stop := errors.New("stop")
	seen := 0
	done, err := s.Broker.Browse(s.ctx(), 0, func(broker.Message) error {
		if seen++; seen == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || done.Complete || done.Why == "" || seen != 2 {
		s.Fatalf("saw %d, complete %t (%s), error %v", seen, done.Complete, done.Why, err)
	}
	s.mustReceive(5)
}

func checkBrowseContext(s *suite) {
	s.seed(several)
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	seen := 0
	done, err := s.Broker.Browse(ctx, 0, func(broker.Message) error {
		seen++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || done.Complete || done.Why == "" || seen == 0 {
		s.Fatalf("saw %d, complete %t (%s), error %v", seen, done.Complete, done.Why, err)
	}
	s.mustReceive(several)
}

func checkFreePeek(s *suite) {
	if !s.can().FreePeek {
		if d, err := s.Broker.Describe(s.ctx()); err != nil || !d.LookCounts {
			s.Fatalf("a look that is not free must say so: %+v, error %v", d, err)
		}
		return
	}
	s.seed(3)
	held := s.mustReceive(1)[0]
	before := s.browse()
	after := s.browse()
	s.sameBodies(after, before)
	if len(after) != 3 {
		s.Fatalf("browse saw %d of 3 copies, one of them leased", len(after))
	}
	for i, m := range after {
		if m.Receives != before[i].Receives || (m.Copy == held.Copy && m.Receives != held.Receives) {
			s.Fatalf("a look changed receives of copy %s to %d", m.Copy, m.Receives)
		}
	}
	s.mustAll(broker.Done, nil, s.ack([]broker.Delivery{held})) // its lease was not touched
}

func checkBrowseLeased(s *suite) {
	s.seed(3)
	s.mustReceive(1)
	seen := 0
	done, err := s.Broker.Browse(s.ctx(), 0, func(broker.Message) error { seen++; return nil })
	if err != nil {
		s.Fatal(err)
	}
	if want := map[bool]int{true: 3, false: 2}[s.can().FreePeek]; seen != want || done.Complete != (seen == 3) {
		s.Fatalf("saw %d of 3 with one leased elsewhere, complete %t (%s)", seen, done.Complete, done.Why)
	}
}

func checkCounts(s *suite) {
	s.seed(5)
	s.mustReceive(2)
	d, err := s.Broker.Describe(s.ctx())
	if err != nil {
		s.Fatal(err)
	}
	if d.Broker == "" || d.Queue == "" || d.OldestAt.IsZero() && s.can().ExactCounts {
		s.Errorf("description lacks broker, queue or oldest: %+v", d)
	}
	if d.Depth.Exact != s.can().ExactCounts {
		s.Fatalf("depth says exact %t, the broker %t", d.Depth.Exact, s.can().ExactCounts)
	}
	if want := (broker.Depth{Visible: 3, InFlight: 2, Exact: true}); d.Depth.Exact && d.Depth != want {
		s.Fatalf("depth %+v, want %+v", d.Depth, want)
	}
}
