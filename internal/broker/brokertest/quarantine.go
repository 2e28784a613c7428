package brokertest

import (
	"bytes"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var quarantineChecks = []check{
	{"quarantine moves the copy with its reason", checkQuarantine},
	{"quarantine of a lost lease moves nothing", checkQuarantineLost},
}

func (s *suite) needSource() {
	s.Helper()
	if s.Source == nil {
		s.Skip("the fixture has no source queue")
	}
}

// toSource publishes to the source and receives there.
func (s *suite) toSource(ms []broker.Outgoing) []broker.Delivery {
	s.Helper()
	s.mustAll(broker.Done, nil, s.Broker.Publish(s.ctx(), s.SourceName, ms))
	ds := s.receiveFrom(s.Source, len(ms))
	if len(ds) != len(ms) {
		s.Fatalf("received %d of %d messages from the source", len(ds), len(ms))
	}
	return ds
}

func checkQuarantine(s *suite) {
	s.needSource()
	ms := s.difficult()
	ds := s.toSource(ms)
	why := broker.Reason{Type: "TypeOfReason", Code: "code-17", Message: s.TameValue("m\u00e9ssage of the reason")}
	s.mustAll(broker.Done, nil, s.Source.Quarantine(s.ctx(), ds, why))
	if again := s.receiveFrom(s.Source, 1); len(again) > 0 {
		s.Fatalf("quarantined copy %s is still in the source", again[0].Copy)
	}
	dead := messages(s.mustReceive(len(ms)))
	s.sameContents(s.withoutOwn(dead), outgoing(ms))
	ids := map[string]bool{}
	for _, d := range ds {
		ids[d.MessageID] = true
	}
	for _, m := range dead {
		if s.Room == 0 || len(m.Attributes) <= s.Room {
			s.tells(m, why)
		}
		if m.Origin == "" && s.can().NativeQuarantine {
			s.Errorf("copy %s does not say where it came from", m.Copy)
		}
		if ids[m.MessageID] != s.can().StableMessageID {
			s.Errorf("message %s kept its ID: %t, the broker says %t", m.MessageID, ids[m.MessageID], s.can().StableMessageID)
		}
	}
}

// tells looks for the reason among what the broker shows beside the body,
// whatever it names it.
func (s *suite) tells(m broker.Message, why broker.Reason) {
	s.Helper()
	for _, part := range []string{why.Type, why.Code, why.Message} {
		found := bytes.Contains(m.Raw, []byte(part))
		for _, as := range [][]broker.Attribute{m.System, m.Attributes} {
			for _, a := range as {
				found = found || string(a.Value) == part
			}
		}
		if !found {
			s.Errorf("copy %s does not tell %q", m.Copy, part)
		}
	}
}

func checkQuarantineLost(s *suite) {
	s.needSource()
	ds := s.toSource(bodies(2))
	s.mustAll(broker.Done, nil, s.Source.Release(s.ctx(), ds[:1]))
	rs := s.Source.Quarantine(s.ctx(), ds, broker.Reason{Type: "T"})
	if len(rs) != 2 {
		s.Fatalf("%d results for 2 deliveries", len(rs))
	}
	s.mustBeLost(rs[0])
	s.mustBe(broker.Done, nil, 1, rs[1])
	s.sameBodies(s.left(), messages(ds[1:]))
}
