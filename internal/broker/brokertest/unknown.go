package brokertest

import "github.com/redrivectl/redrivectl/internal/broker"

var unknownChecks = []check{
	{"a publish whose reply is lost is unknown and was applied", func(s *suite) { checkLostPublish(s, true) }},
	{"a publish that was lost is unknown and was not applied", func(s *suite) { checkLostPublish(s, false) }},
	{"an acknowledgement whose reply is lost is unknown and was applied", func(s *suite) { checkLostAck(s, true) }},
	{"an acknowledgement that was lost is unknown and was not applied", func(s *suite) { checkLostAck(s, false) }},
	{"a lost publish can be repeated with its deduplication ID", checkRepeatLost},
}

func (s *suite) needFaults() {
	s.Helper()
	if s.LoseReply == nil {
		s.Skip("the fixture cannot lose replies")
	}
}

func checkLostPublish(s *suite, applied bool) {
	s.needFaults()
	s.LoseReply(OpPublish, applied)
	ms := bodies(1)
	s.mustAll(broker.Unknown, nil, s.Broker.Publish(s.ctx(), s.Destination, ms))
	if !applied {
		ms = nil
	}
	s.sameBodies(s.Read(s.T, s.Destination), outgoing(ms))
}

func checkLostAck(s *suite, applied bool) {
	s.needFaults()
	s.seed(1)
	ds := s.mustReceive(1)
	s.LoseReply(OpAck, applied)
	s.mustAll(broker.Unknown, nil, s.ack(ds))
	if applied {
		s.sameBodies(s.left(), nil)
		return
	}
	s.mustAll(broker.Done, nil, s.ack(ds)) // the lease still holds
}

func checkRepeatLost(s *suite) {
	s.needFaults()
	if s.can().DedupWindow == 0 {
		s.Skip("the broker does not deduplicate")
	}
	m := body(1)
	m.DedupID = "plan-and-copy"
	for _, applied := range []bool{false, true} {
		s.LoseReply(OpPublish, applied)
		s.mustAll(broker.Unknown, nil, s.Broker.Publish(s.ctx(), s.Destination, []broker.Outgoing{m}))
	}
	s.publish([]broker.Outgoing{m})
	s.sameBodies(s.Read(s.T, s.Destination), outgoing([]broker.Outgoing{m}))
}
