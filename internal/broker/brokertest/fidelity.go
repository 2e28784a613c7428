package brokertest

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var fidelityChecks = []check{
	{"capabilities make sense", checkCapabilities},
	{"what is published arrives as it was", checkPublished},
	{"what is received is what was dead-lettered", checkReceived},
	{"what is browsed is what was dead-lettered", checkBrowsed},
	{"a redrive carries the message unchanged", checkRedriven},
	{"identity is per copy and stable", checkIdentity},
}

func checkCapabilities(s *suite) {
	c := s.can()
	if c.MaxBatch < 1 || c.MaxMessageBytes < 1 || c.MaxBatchBytes < 1 || c.MaxLease < lease {
		s.Fatalf("limits are missing: %+v", c)
	}
	if s.Ordered && !c.Ordered {
		s.Fatal("the fixture is ordered, the broker says it is not")
	}
}

func (s *suite) types() []string {
	if s.Types != nil {
		return s.Types
	}
	return []string{"String", "Number", "Binary", "Number.int", "Binary.gzip"}
}

// difficult are messages whose bytes, types and keys are easily damaged.
func (s *suite) difficult() []broker.Outgoing {
	texts := []string{
		"a plain body", "b {\"n\": 1.0, \"n\": 1e2}\r\n", "c \t\u00e4\u20ac\U0001F600 e\u0301",
		"d " + strings.Repeat("long line ", 2000), "e <&>\"'\\%00 ${x}",
	}
	if !s.Text {
		texts = append(texts, "f nul \x00 and \x00", "g not utf-8 \xff\xfe\xc3\x28", "h \x1b[2J\x1b]52;c;aGk=\x07\u202e")
	}
	ms := make([]broker.Outgoing, len(texts))
	for i, text := range texts {
		ms[i] = broker.Outgoing{Message: broker.Message{Body: []byte(s.TameBody(text)), Attributes: s.attributes(i)}}
	}
	if s.can().Ordered {
		ms[0].OrderKey, ms[2].OrderKey = "customer-1", "customer \u00e4/2"
		if s.Text {
			ms[2].OrderKey = "customer#(~2)"
		}
	}
	for _, name := range s.System {
		ms[1].System = append(ms[1].System, broker.Attribute{Name: name, Type: "String", Value: []byte("Root=1-5e1b4151-5ac6c58d2f3a4b5c6d7e8f90")})
	}
	return ms
}

// attributes are up to ten, of all types in turn.
func (s *suite) attributes(seed int) []broker.Attribute {
	var as []broker.Attribute
	for i := range (seed * 5) % 11 {
		a := broker.Attribute{Name: fmt.Sprintf("name-%d.x", i), Type: s.types()[i%len(s.types())]}
		switch kind, _, _ := strings.Cut(a.Type, "."); kind {
		case "Binary":
			a.Value = []byte{0, byte(i), 0xff, 0xfe, 0}
		case "Number":
			a.Value = []byte("1e3")
		default:
			a.Value = []byte(s.TameValue("  v\u00e4lue \n"))
		}
		as = append(as, a)
	}
	return as
}

func (s *suite) sameContents(got, want []broker.Message) {
	s.Helper()
	if diff := cmp.Diff(contents(want), contents(got), cmpopts.EquateEmpty()); diff != "" {
		s.Fatalf("messages differ (-want +got):\n%s", diff)
	}
}

func (s *suite) sameBodies(got, want []broker.Message) {
	s.Helper()
	if diff := cmp.Diff(bodiesOf(want), bodiesOf(got), cmpopts.EquateEmpty()); diff != "" {
		s.Fatalf("bodies differ (-want +got):\n%s", diff)
	}
}

// publish sends in batches and asks for success.
func (s *suite) publish(ms []broker.Outgoing) []broker.Result {
	s.Helper()
	var rs []broker.Result
	for at := 0; at < len(ms); at += s.can().MaxBatch {
		part := ms[at:min(at+s.can().MaxBatch, len(ms))]
		rs = append(rs, s.Broker.Publish(s.ctx(), s.Destination, part)...)
	}
	s.mustAll(broker.Done, nil, rs)
	return rs
}

func checkPublished(s *suite) {
	ms := s.difficult()
	rs := s.publish(ms)
	got := s.Read(s.T, s.Destination)
	s.sameContents(got, outgoing(ms))
	ids := map[string]bool{}
	for _, m := range got {
		ids[m.MessageID] = true
		if m.Receives != 0 {
			s.Fatalf("a message nobody received has %d receives", m.Receives)
		}
	}
	for i, r := range rs {
		if r.NewMessageID != "" && !ids[r.NewMessageID] {
			s.Fatalf("message %d is told to be %q, the destination holds no such message", i, r.NewMessageID)
		}
	}
}

// withoutOwn leaves off the system attributes that no sender set.
func (s *suite) withoutOwn(ms []broker.Message) []broker.Message {
	out := make([]broker.Message, len(ms))
	for i, m := range ms {
		var kept []broker.Attribute
		for _, a := range m.System {
			for _, name := range s.System {
				if a.Name == name {
					kept = append(kept, a)
				}
			}
		}
		m.System = kept
		out[i] = m
	}
	return out
}

func checkReceived(s *suite) {
	ms := s.difficult()
	s.Seed(s.T, ms)
	s.sameContents(s.withoutOwn(messages(s.mustReceive(len(ms)))), outgoing(ms))
}

func checkBrowsed(s *suite) {
	ms := s.difficult()
	s.Seed(s.T, ms)
	s.sameContents(s.withoutOwn(s.browse()), outgoing(ms))
}

// checkRedriven sends what was received as it was received, whatever the broker
// added when it dead-lettered: the destination holds what the sender sent.
func checkRedriven(s *suite) {
	ms := s.difficult()
	s.Seed(s.T, ms)
	var out []broker.Outgoing
	for _, d := range s.mustReceive(len(ms)) {
		out = append(out, broker.Outgoing{Message: d.Message})
	}
	s.publish(out)
	s.sameContents(s.Read(s.T, s.Destination), outgoing(ms))
}

func checkIdentity(s *suite) {
	twice := []broker.Outgoing{body(1), body(1)}
	s.Seed(s.T, twice)
	ds := s.mustReceive(2)
	if ds[0].Copy == ds[1].Copy || ds[0].Receipt == ds[1].Receipt {
		s.Fatalf("two copies share an identity or a receipt: %+v", ds)
	}
	first := map[broker.CopyID]string{}
	for _, d := range ds {
		if d.Copy.Entity == "" || d.Copy.ID == "" || d.MessageID == "" {
			s.Fatalf("a copy without identity: %+v", d)
		}
		first[d.Copy] = d.MessageID
	}
	s.mustAll(broker.Done, nil, s.batches(ds, s.release))
	for _, d := range s.mustReceive(2) {
		if first[d.Copy] != d.MessageID {
			s.Fatalf("copy %s was message %q, is %q now", d.Copy, first[d.Copy], d.MessageID)
		}
	}
}
