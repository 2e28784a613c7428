package sqs_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

func TestConformance(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Fixture { return newWorld(t, "").fixture() })
}

func TestConformanceFIFO(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Fixture { return newWorld(t, ".fifo").fixture() })
}

// clock is a time that moves only when told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

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

// world is a server with the queues jobs, jobs-dlq and elsewhere, all FIFO or
// none, and the adapter over the first's dead-letter queue.
type world struct {
	*testing.T
	server *sqsfake.Server
	clock  *clock
	suffix string
	dlq    *sqs.Queue
	source *sqs.Queue
	http   *httptest.Server
	close  func() error // of the adapter's connections
}

func newWorld(t *testing.T, suffix string) *world {
	t.Helper()
	w := &world{T: t, clock: &clock{at: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}, suffix: suffix}
	w.server = sqsfake.New(sqsfake.Options{Now: w.clock.now})
	w.server.CreateQueue(w.name("jobs-dlq"), nil)
	w.server.CreateQueue(w.name("elsewhere"), nil)
	w.server.CreateQueue(w.name("jobs"), map[string]string{"RedrivePolicy": sqsfake.DeadLetter(w.name("jobs-dlq"), 3)})
	w.http = httptest.NewServer(w.server)
	t.Cleanup(w.http.Close)
	w.reopen()
	return w
}

// reopen lets the adapter find the queues anew.
func (w *world) reopen() {
	w.Helper()
	account := sqs.NewAccount(sqs.Options{Now: w.clock.now, Config: aws.Config{
		Region: sqsfake.Region, BaseEndpoint: aws.String(w.http.URL), Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
	}})
	w.close = account.Close
	w.Cleanup(func() {
		if err := account.Close(); err != nil {
			w.Error(err)
		}
	})
	w.dlq, w.source = w.open(account, "jobs-dlq"), w.open(account, "jobs")
}

// stop ends the server: nobody listens there any more.
func (w *world) stop() {
	w.Helper()
	if err := w.close(); err != nil {
		w.Fatal(err)
	}
	w.http.Close()
}

func (w *world) name(base string) string { return base + w.suffix }

func (w *world) open(a *sqs.Account, base string) *sqs.Queue {
	w.Helper()
	q, err := a.Open(w.Context(), w.name(base))
	if err != nil {
		w.Fatal(err)
	}
	return q
}

func (w *world) fixture() brokertest.Fixture {
	f := brokertest.Fixture{
		Broker: w.dlq, Source: w.source, SourceName: w.name("jobs"), Destination: w.name("elsewhere"), Ordered: w.suffix != "", Text: true, Room: 9,
		Advance: w.clock.advance, System: []string{broker.SystemTraceHeader}, LoseReply: w.loseReply,
		Seed: func(t *testing.T, ms []broker.Outgoing) { w.seed(t, ms) },
		Read: func(_ *testing.T, destination string) []broker.Message { return w.read(destination) },
	}
	if f.Ordered {
		f.Broker, f.Source = grouped{w.dlq}, grouped{w.source}
	}
	return f
}

// seed puts dead letters into the dead-letter queue as SQS moves them there.
func (w *world) seed(t *testing.T, ms []broker.Outgoing) {
	t.Helper()
	for _, m := range ms {
		w.server.Seed(w.name("jobs-dlq"), stored(m.Message, sqsfake.ARN(w.name("jobs")), w.suffix != ""))
	}
}

var serial atomic.Int64

// stored is a message as the server keeps it. A FIFO queue needs a group, so one
// is made up that only this message has.
func stored(m broker.Message, source string, fifo bool) sqsfake.Message {
	out := sqsfake.Message{Body: string(m.Body), Source: source, GroupID: m.OrderKey, Attributes: map[string]sqsfake.Attribute{}}
	if fifo && out.GroupID == "" {
		out.GroupID = fmt.Sprintf("%s%d", madeUp, serial.Add(1))
	}
	for _, a := range m.System {
		out.TraceHeader = string(a.Value)
	}
	for _, a := range m.Attributes {
		v := sqsfake.Attribute{DataType: a.Type, BinaryValue: a.Value}
		if !strings.HasPrefix(a.Type, "Binary") {
			v.StringValue, v.BinaryValue = aws.String(string(a.Value)), nil
		}
		out.Attributes[a.Name] = v
	}
	return out
}

// read is the oracle: what the server holds, not by way of the adapter.
func (w *world) read(queue string) []broker.Message {
	var ms []broker.Message
	for _, s := range w.server.Messages(queue) {
		m := broker.Message{
			Copy: broker.CopyID{Entity: sqsfake.ARN(queue), ID: s.ID}, MessageID: s.ID, Body: []byte(s.Body),
			OrderKey: realGroup(s.GroupID), Receives: s.Receives, SentAt: s.SentAt,
		}
		for _, name := range slices.Sorted(maps.Keys(s.Attributes)) {
			v := s.Attributes[name]
			a := broker.Attribute{Name: name, Type: v.DataType, Value: v.BinaryValue}
			if v.StringValue != nil {
				a.Value = []byte(*v.StringValue)
			}
			m.Attributes = append(m.Attributes, a)
		}
		if s.TraceHeader != "" {
			m.System = []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte(s.TraceHeader)}}
		}
		ms = append(ms, m)
	}
	return ms
}

// loseReply cuts the connection of the next request of an operation, before or
// after it was applied.
func (w *world) loseReply(op brokertest.Op, applied bool) {
	action := map[brokertest.Op]string{
		brokertest.OpPublish: "SendMessageBatch", brokertest.OpAck: "DeleteMessageBatch",
		brokertest.OpExtend: "ChangeMessageVisibilityBatch", brokertest.OpRelease: "ChangeMessageVisibilityBatch",
		brokertest.OpReceive: "ReceiveMessage",
	}[op]
	next := w.server.Requests(action)
	w.server.OnRequest(func(a string, n int) sqsfake.Fault {
		switch {
		case a != action || n != next:
			return sqsfake.None
		case applied:
			return sqsfake.Drop
		default:
			return sqsfake.DropBefore
		}
	})
}

// madeUp begins the groups that no test named.
const madeUp = "made-up-"

func realGroup(group string) string {
	if strings.HasPrefix(group, madeUp) {
		return ""
	}
	return group
}

// grouped gives every message that has none a group of its own and a
// deduplication ID, which a FIFO queue needs, and does not show them.
type grouped struct{ broker.Broker }

func (g grouped) Publish(ctx context.Context, destination string, ms []broker.Outgoing) []broker.Result {
	ms = slices.Clone(ms)
	for i := range ms {
		unique := fmt.Sprintf("%s%d", madeUp, serial.Add(1))
		ms[i].OrderKey = cmp.Or(ms[i].OrderKey, unique)
		ms[i].DedupID = cmp.Or(ms[i].DedupID, unique)
	}
	return g.Broker.Publish(ctx, destination, ms)
}

func (g grouped) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	return g.Broker.Browse(ctx, limit, func(m broker.Message) error {
		m.OrderKey = realGroup(m.OrderKey)
		return each(m)
	})
}

func (g grouped) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	ds, err := g.Broker.Receive(ctx, r)
	for i := range ds {
		ds[i].OrderKey = realGroup(ds[i].OrderKey)
	}
	return ds, err
}

// Quarantine gives back what Receive hid: the group is part of the message.
func (g grouped) Quarantine(ctx context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	ds = slices.Clone(ds)
	for i := range ds {
		ds[i].OrderKey = cmp.Or(ds[i].OrderKey, fmt.Sprintf("%s%d", madeUp, serial.Add(1)))
	}
	return g.Broker.Quarantine(ctx, ds, r)
}
