package local_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

func TestConformance(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Fixture { return fixture(t, false) })
}

func TestConformanceOrdered(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Fixture { return fixture(t, true) })
}

func TestConformanceRough(t *testing.T) {
	for seed := range uint64(3) {
		brokertest.Run(t, func(t *testing.T) brokertest.Fixture {
			return roughen(fixture(t, false), brokertest.Roughest(seed))
		})
	}
}

func TestConformanceRoughOrdered(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Fixture {
		o := brokertest.Roughest(7)
		o.BrowsePerGroup = 1
		return roughen(fixture(t, true), o)
	})
}

// clock is a time that moves only when told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// openFile is a new file with the queues jobs and jobs-dlq, and its clock.
func openFile(t testing.TB, ordered bool) (*local.File, *clock) {
	t.Helper()
	c := newClock()
	f, err := local.Open(filepath.Join(t.TempDir(), "queue.db"), local.Options{Create: true, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, q := range []local.QueueConfig{
		{Name: "jobs-dlq", Ordered: ordered},
		{Name: "jobs", Ordered: ordered, DeadLetter: "jobs-dlq", MaxReceives: 3},
		{Name: "elsewhere"},
	} {
		if err := f.CreateQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return f, c
}

func fixture(t *testing.T, ordered bool) brokertest.Fixture {
	f, c := openFile(t, ordered)
	source := f.Queue("jobs")
	return brokertest.Fixture{
		Broker: f.Queue("jobs-dlq"), Destination: "elsewhere",
		Source: source, SourceName: "jobs",
		Ordered: ordered, Advance: c.advance, System: []string{"AWSTraceHeader"},
		Seed: func(t *testing.T, ms []broker.Outgoing) { seedDead(t, source, ms) },
		Read: func(t *testing.T, destination string) []broker.Message { return browse(t, f.Queue(destination)) },
	}
}

// seedDead publishes to the source and dead-letters from there.
func seedDead(t testing.TB, source *local.Queue, ms []broker.Outgoing) {
	t.Helper()
	mustDone(t, source.Publish(t.Context(), "jobs", ms))
	for n := 0; n < len(ms); {
		ds, err := source.Receive(t.Context(), broker.Request{Max: 100})
		if err != nil || len(ds) == 0 {
			t.Fatalf("received %d, error %v", len(ds), err)
		}
		mustDone(t, source.Quarantine(t.Context(), ds, broker.Reason{Type: "SeedError", Code: "17", Message: "seeded"}))
		n += len(ds)
	}
}

func mustDone(t testing.TB, rs []broker.Result) {
	t.Helper()
	for i, r := range rs {
		if r.Outcome != broker.Done {
			t.Fatalf("result %d is %s: %v", i, r.Outcome, r.Err)
		}
	}
}

func browse(t testing.TB, q *local.Queue) []broker.Message {
	t.Helper()
	var ms []broker.Message
	if _, err := q.Browse(t.Context(), 0, func(m broker.Message) error { ms = append(ms, m); return nil }); err != nil {
		t.Fatal(err)
	}
	return ms
}

// roughen wraps the fixture's brokers, and lets the checks lose replies.
func roughen(f brokertest.Fixture, o brokertest.RoughOptions) brokertest.Fixture {
	var mu sync.Mutex
	armed := map[brokertest.Op]brokertest.Fault{}
	o.Fault = func(op brokertest.Op, _ int) brokertest.Fault {
		mu.Lock()
		defer mu.Unlock()
		fault := armed[op]
		delete(armed, op)
		return fault
	}
	f.LoseReply = func(op brokertest.Op, applied bool) {
		mu.Lock()
		defer mu.Unlock()
		armed[op] = brokertest.RequestLost
		if applied {
			armed[op] = brokertest.ReplyLost
		}
	}
	f.Broker, f.Source = brokertest.Rough(f.Broker, o), brokertest.Rough(f.Source, o)
	return f
}
