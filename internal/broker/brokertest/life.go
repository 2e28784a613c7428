package brokertest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var lifeChecks = []check{
	{"a job's whole way loses and doubles nothing", checkWholeWay},
}

// checkWholeWay redrives a whole queue as a run does: receive, publish,
// acknowledge, batch after batch, until nothing comes.
func checkWholeWay(s *suite) {
	want := s.seed(several)
	for {
		ds := s.receive(min(s.can().MaxBatch, 50))
		if len(ds) == 0 {
			break
		}
		out := make([]broker.Outgoing, len(ds))
		for i, d := range ds {
			out[i] = broker.Outgoing{Message: d.Message}
		}
		s.publish(out)
		s.mustAll(broker.Done, nil, s.batches(ds, s.ack))
	}
	s.sameBodies(s.Read(s.T, s.Destination), outgoing(want))
	s.sameBodies(s.left(), nil)
}

// checkGoroutines runs a whole way in a subtest, whose cleanup closes the
// broker, and then looks for what is still running.
func checkGoroutines(t *testing.T, open func(t *testing.T) Fixture) {
	before := goleak.IgnoreCurrent()
	t.Run("whole way", func(t *testing.T) { checkWholeWay(newSuite(t, open(t))) })
	t.Run("ended", func(t *testing.T) { checkBrowseContext(newSuite(t, open(t))) })
	goleak.VerifyNone(t, before)
}
