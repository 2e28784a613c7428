package redrive

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// TestOutgoing: what the sender set travels, what the broker added does not.
func TestOutgoing(t *testing.T) {
	t.Parallel()
	trace := broker.Attribute{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1")}
	m := broker.Message{
		Copy: broker.CopyID{Entity: "dlq", ID: "1"}, MessageID: "m", Origin: "src", OrderKey: "g", Body: []byte("\x00b"),
		Attributes: []broker.Attribute{{Name: "n", Type: "Number.int", Value: []byte("1")}},
		System:     []broker.Attribute{{Name: broker.SystemReasonType, Value: []byte("transient")}, trace, {Name: "SenderId"}},
		RawFormat:  "amqp", Raw: []byte("raw"), Receives: 4,
	}
	w := &work{item: &Item{Copy: m.Copy}, delivery: broker.Delivery{Message: m, Receipt: "r"}, job: job.Decode(m, "dlq")}
	want := broker.Outgoing{
		Message: broker.Message{
			OrderKey: "g", Body: m.Body, Attributes: m.Attributes, System: []broker.Attribute{trace}, RawFormat: "amqp", Raw: m.Raw,
		},
		DedupID: DedupID("plan", m.Copy),
	}
	if d := cmp.Diff(want, outgoing("plan", w)); d != "" {
		t.Error(d)
	}
	if DedupID("plan", m.Copy) == DedupID("other", m.Copy) || DedupID("p", broker.CopyID{Entity: "a", ID: "b"}) == DedupID("p", broker.CopyID{Entity: "ab"}) {
		t.Error("two redrives share a deduplication ID")
	}
}

// TestPacked: calls hold one destination each, within entries and bytes, and
// keep the order.
func TestPacked(t *testing.T) {
	t.Parallel()
	var ws []*work
	for _, x := range []struct {
		to    string
		bytes int
	}{{"a", 4}, {"b", 1}, {"a", 4}, {"a", 4}, {"a", 20}, {"b", 1}, {"a", 1}, {"a", 1}, {"a", 1}} {
		ws = append(ws, &work{item: &Item{Destination: x.to}, job: job.Job{Message: broker.Message{Body: make([]byte, x.bytes)}}})
	}
	s := &session{caps: broker.Capabilities{MaxBatch: 2, MaxBatchBytes: 10}}
	if d := cmp.Diff([][]int{{0, 2}, {1, 5}, {3}, {4}, {6, 7}, {8}}, s.packed(ws)); d != "" {
		t.Error(d)
	}
}
