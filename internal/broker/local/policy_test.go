package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

func outgoing(body, group string) broker.Outgoing {
	return broker.Outgoing{Message: broker.Message{Body: []byte(body), OrderKey: group}}
}

func receive(t testing.TB, q *local.Queue, n int, only ...broker.CopyID) []broker.Delivery {
	t.Helper()
	ds, err := q.Receive(t.Context(), broker.Request{Max: n, Lease: time.Minute, Only: only})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func bodies(ds []broker.Delivery) []string {
	bs := []string{}
	for _, d := range ds {
		bs = append(bs, string(d.Body))
	}
	return bs
}

func wantBodies(t testing.TB, what string, ds []broker.Delivery, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), bodies(ds)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTooManyReceives(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, false)
	source, dead := f.Queue("jobs"), f.Queue("jobs-dlq")
	m := outgoing("poison", "")
	m.Attributes = []broker.Attribute{{Name: "kind", Type: "Binary", Value: []byte{0, 255}}}
	m.System = []broker.Attribute{{Name: "AWSTraceHeader", Type: "String", Value: []byte("Root=1")}}
	mustDone(t, source.Publish(t.Context(), "jobs", []broker.Outgoing{m}))
	first := browse(t, source)[0]
	firstReceived := c.now()
	for n := range 3 {
		if ds := receive(t, source, 1); len(ds) != 1 || ds[0].Receives != n+1 {
			t.Fatalf("receive %d gave %+v", n+1, ds)
		}
		c.advance(2 * time.Minute)
	}
	if got := browse(t, dead); len(got) != 0 {
		t.Fatal("the copy moved before the next receive")
	}
	if ds := receive(t, source, 1); len(ds) != 0 {
		t.Fatalf("received %q a fourth time", bodies(ds))
	}
	want := first
	want.Copy = broker.CopyID{Entity: "jobs-dlq", ID: "2"}
	want.Origin, want.Receives, want.FirstReceivedAt = "jobs", 3, firstReceived
	want.System = append(want.System,
		broker.Attribute{Name: broker.SystemQuarantinedBy, Type: "String", Value: []byte("max_receives")},
		broker.Attribute{Name: broker.SystemReasonAt, Type: "String", Value: []byte("2026-03-01T08:06:00Z")})
	if diff := cmp.Diff([]broker.Message{want}, browse(t, dead)); diff != "" {
		t.Fatalf("dead copy (-want +got):\n%s", diff)
	}
	if ds := receive(t, dead, 1); len(ds) != 1 || ds[0].Receives != 4 {
		t.Fatalf("receives do not go on in the dead-letter queue: %+v", ds)
	}
	if got := browse(t, source); len(got) != 0 {
		t.Fatal("the copy is in both queues")
	}
}

// A poison message must not keep the good ones behind it from being received.
func TestReceiveSkipsExhausted(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, false)
	source := f.Queue("jobs")
	fill(t, source, "jobs", 150)
	for range 3 {
		for len(receive(t, source, 100)) > 0 {
		}
		c.advance(2 * time.Minute)
	}
	mustDone(t, source.Publish(t.Context(), "jobs", []broker.Outgoing{outgoing("good", "")}))
	wantBodies(t, "past 150 exhausted copies", receive(t, source, 10), "good")
	if n := len(browse(t, f.Queue("jobs-dlq"))); n != 150 {
		t.Fatalf("%d of 150 copies were dead-lettered", n)
	}
}

func TestReasonIsReadBack(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, false)
	source, dead := f.Queue("jobs"), f.Queue("jobs-dlq")
	want := broker.Reason{Type: "ValidationError", Message: "bad \xff bytes\x00"}
	mustDone(t, source.Publish(t.Context(), "jobs", []broker.Outgoing{outgoing("a", "")}))
	mustDone(t, source.Quarantine(t.Context(), receive(t, source, 1), want))
	got, at, err := local.ReasonOf(browse(t, dead)[0])
	if err != nil || got != want || !at.Equal(c.now()) {
		t.Fatalf("reason %+v at %s, error %v", got, at, err)
	}
	if r := dead.Quarantine(t.Context(), receive(t, dead, 1), want)[0]; r.Outcome != broker.Refused {
		t.Fatalf("quarantine in a queue without a dead-letter queue is %s (%v)", r.Outcome, r.Err)
	}
}

func TestGroupMovesInOrder(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, true)
	source := f.Queue("jobs")
	mustDone(t, source.Publish(t.Context(), "jobs", []broker.Outgoing{
		outgoing("a1", "a"), outgoing("a2", "a"), outgoing("b1", "b"), outgoing("free", ""),
	}))
	for range 3 {
		wantBodies(t, "the heads", receive(t, source, 10), "a1", "b1", "free")
		c.advance(2 * time.Minute)
	}
	wantBodies(t, "the next of group a", receive(t, source, 10), "a2")
	wantBodies(t, "the dead heads", receive(t, f.Queue("jobs-dlq"), 10), "a1", "b1", "free")
}

func TestOnlyLeasesOutOfTurnOneAtATime(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, true)
	q := f.Queue("jobs-dlq")
	mustDone(t, q.Publish(t.Context(), "jobs-dlq", []broker.Outgoing{
		outgoing("a1", "a"), outgoing("a2", "a"), outgoing("a3", "a"), outgoing("b1", "b"),
	}))
	ms := browse(t, q)
	named := receive(t, q, 10, ms[2].Copy, ms[1].Copy)
	wantBodies(t, "the earliest of the named", named, "a2")
	wantBodies(t, "only the other group", receive(t, q, 10), "b1")
	wantBodies(t, "while the group is in flight", receive(t, q, 10, ms[2].Copy))
	mustDone(t, q.Ack(t.Context(), named))
	wantBodies(t, "after it", receive(t, q, 10), "a1")
}

func TestRetention(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, true)
	ctx := t.Context()
	for _, q := range []local.QueueConfig{
		{Name: "short-dlq", Retention: time.Hour},
		{Name: "short", Ordered: true, Retention: time.Minute, DeadLetter: "short-dlq"},
	} {
		if err := f.CreateQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	q, dead := f.Queue("short"), f.Queue("short-dlq")
	mustDone(t, q.Publish(ctx, "short", []broker.Outgoing{outgoing("old", "g")}))
	c.advance(59 * time.Second)
	mustDone(t, q.Publish(ctx, "short", []broker.Outgoing{outgoing("new", "g"), outgoing("dead", "")}))
	mustDone(t, q.Quarantine(ctx, receive(t, q, 2, browse(t, q)[2].Copy), broker.Reason{}))
	c.advance(2 * time.Second)
	if ms := browse(t, q); len(ms) != 1 {
		t.Fatalf("browse shows %d copies, one has not expired", len(ms))
	}
	d, err := q.Describe(ctx)
	if want := (broker.Depth{Visible: 1, Exact: true}); err != nil || d.Depth != want {
		t.Fatalf("depth %+v, want %+v, error %v", d.Depth, want, err)
	}
	wantBodies(t, "the expired head does not block", receive(t, q, 2), "new")
	if ms := browse(t, dead); len(ms) != 1 || !ms[0].ExpiresAt.Equal(ms[0].SentAt.Add(time.Hour)) {
		t.Fatalf("retention of the dead copy: %+v", ms)
	}
	c.advance(time.Hour)
	wantBodies(t, "after the retention", receive(t, dead, 1))
}

func TestDelay(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, false)
	ctx := t.Context()
	if err := f.CreateQueue(ctx, local.QueueConfig{Name: "slow", Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	q := f.Queue("slow")
	own := outgoing("own", "")
	own.Delay = time.Second
	mustDone(t, q.Publish(ctx, "slow", []broker.Outgoing{outgoing("queue's", ""), own}))
	d, err := q.Describe(ctx)
	if want := (broker.Depth{Delayed: 2, Exact: true}); err != nil || d.Depth != want {
		t.Fatalf("depth %+v, error %v", d.Depth, err)
	}
	c.advance(time.Second)
	wantBodies(t, "after the message's own delay", receive(t, q, 2), "own")
	c.advance(59 * time.Second)
	wantBodies(t, "after the queue's", receive(t, q, 2), "queue's")
}

func TestPublishRefusals(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("jobs")
	with := func(change func(*broker.Outgoing)) broker.Outgoing {
		m := outgoing("x", "")
		change(&m)
		return m
	}
	tooLarge := bytes.Repeat([]byte("x"), 1<<20-3)
	bad := []broker.Outgoing{
		with(func(m *broker.Outgoing) { m.OrderKey = "a\x00b" }),
		with(func(m *broker.Outgoing) { m.DedupID = "\xff" }),
		with(func(m *broker.Outgoing) { m.Delay = -1 }),
		with(func(m *broker.Outgoing) { m.Attributes = []broker.Attribute{{Type: "String"}} }),
		with(func(m *broker.Outgoing) { m.Attributes = []broker.Attribute{{Name: "n\x00"}} }),
		with(func(m *broker.Outgoing) {
			m.Body, m.Attributes = tooLarge, []broker.Attribute{{Name: "n", Type: "t", Value: []byte("12")}}
		}),
	}
	rs := q.Publish(t.Context(), "jobs", append(bad, outgoing("good", "")))
	for i, r := range rs[:len(bad)] {
		if r.Outcome != broker.Refused || r.Err == nil {
			t.Errorf("message %d is %s (%v)", i, r.Outcome, r.Err)
		}
	}
	if !errors.Is(rs[len(bad)-1].Err, broker.ErrTooLarge) {
		t.Errorf("attributes do not count: %v", rs[len(bad)-1].Err)
	}
	mustDone(t, rs[len(bad):])
	many := make([]broker.Outgoing, 101)
	for i, r := range q.Publish(t.Context(), "jobs", many) {
		if r.Outcome != broker.Refused {
			t.Fatalf("result %d of a call that is too long is %s", i, r.Outcome)
		}
	}
	if n := len(browse(t, q)); n != 1 {
		t.Fatalf("%d messages were published, one was good", n)
	}
}

func TestRawSections(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	m := broker.Outgoing{Message: broker.Message{RawFormat: "amqp", Raw: []byte{0, 0x53, 0x70}}}
	mustDone(t, f.Queue("jobs").Publish(t.Context(), "jobs", []broker.Outgoing{m}))
	got := browse(t, f.Queue("jobs"))[0]
	if got.RawFormat != "amqp" || !bytes.Equal(got.Raw, m.Raw) || len(got.Body) != 0 {
		t.Fatalf("raw %q %x, body %x", got.RawFormat, got.Raw, got.Body)
	}
}

func TestCreateQueue(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	for i, c := range []struct {
		config local.QueueConfig
		is     error
		ok     bool
	}{
		{local.QueueConfig{Name: "jobs-dlq"}, nil, true}, // as it is
		{local.QueueConfig{Name: "jobs-dlq", Ordered: true}, local.ErrQueueExists, false},
		{local.QueueConfig{Name: "x", DeadLetter: "none"}, broker.ErrNoQueue, false},
		{local.QueueConfig{Name: "x", DeadLetter: "x"}, nil, false},
		{local.QueueConfig{Name: "x", MaxReceives: 1}, nil, false},
		{local.QueueConfig{Name: "", MaxReceives: 1}, nil, false},
		{local.QueueConfig{Name: "a\x00"}, nil, false},
		{local.QueueConfig{Name: "x", Visibility: 13 * time.Hour}, nil, false},
		{local.QueueConfig{Name: "x", Delay: -1}, nil, false},
		{local.QueueConfig{Name: "x", Retention: 1}, nil, false},
	} {
		err := f.CreateQueue(t.Context(), c.config)
		if (err == nil) != c.ok || (c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	want := []local.QueueConfig{
		{Name: "elsewhere", Visibility: 30 * time.Second, MaxMessageBytes: 1 << 20},
		{Name: "jobs", Visibility: 30 * time.Second, DeadLetter: "jobs-dlq", MaxReceives: 3, MaxMessageBytes: 1 << 20},
		{Name: "jobs-dlq", Visibility: 30 * time.Second, MaxMessageBytes: 1 << 20},
	}
	got, err := f.Queues(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("queues, error %v (-want +got):\n%s", err, diff)
	}
	d, err := f.Queue("jobs-dlq").Describe(t.Context())
	if err != nil || fmt.Sprint(d.Sources) != "[jobs]" {
		t.Fatalf("sources %v, error %v", d.Sources, err)
	}
}

func TestMissingQueue(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("nowhere")
	ctx := t.Context()
	_, describe := q.Describe(ctx)
	_, browse := q.Browse(ctx, 0, func(broker.Message) error { return nil })
	_, receive := q.Receive(ctx, broker.Request{Max: 1})
	ack := q.Ack(ctx, make([]broker.Delivery, 1))[0].Err
	for what, err := range map[string]error{"describe": describe, "browse": browse, "receive": receive, "ack": ack} {
		if !errors.Is(err, broker.ErrNoQueue) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
