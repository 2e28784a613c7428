package sqs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

func bodies(n int) []broker.Outgoing {
	ms := make([]broker.Outgoing, n)
	for i := range ms {
		ms[i].Body = fmt.Appendf(nil, "body %d", i)
	}
	return ms
}

// What a publish is known to have done, fault by fault. A hidden retry would show
// as a second request.
func TestOutcomeOfPublish(t *testing.T) {
	for fault, want := range map[sqsfake.Fault]struct {
		outcome broker.Outcome
		err     error
		applied int
	}{
		sqsfake.None:       {broker.Done, nil, 3},
		sqsfake.Throttled:  {broker.Refused, broker.ErrThrottled, 0},
		sqsfake.Error:      {broker.Unknown, nil, 0},
		sqsfake.AfterError: {broker.Unknown, nil, 3},
		sqsfake.Drop:       {broker.Unknown, nil, 3},
		sqsfake.DropBefore: {broker.Unknown, nil, 0},
		sqsfake.KeyDenied:  {broker.Refused, broker.ErrDenied, 0},
		sqsfake.Denied:     {broker.Refused, broker.ErrDenied, 0},
		sqsfake.Damaged:    {broker.Unknown, nil, 3},
	} {
		t.Run(string(fault), func(t *testing.T) {
			w := newWorld(t, "")
			w.server.OnRequest(func(action string, _ int) sqsfake.Fault {
				if action == "SendMessageBatch" {
					return fault
				}
				return sqsfake.None
			})
			for i, r := range w.dlq.Publish(t.Context(), "elsewhere", bodies(3)) {
				if r.Outcome != want.outcome || want.err != nil && !errors.Is(r.Err, want.err) || (r.Err == nil) != (r.Outcome == broker.Done) {
					t.Errorf("entry %d is %s: %v", i, r.Outcome, r.Err)
				}
			}
			if n := w.server.Requests("SendMessageBatch"); n != 1 {
				t.Errorf("%d requests", n)
			}
			if n := len(w.server.Messages("elsewhere")); n != want.applied {
				t.Errorf("%d messages arrived, want %d", n, want.applied)
			}
		})
	}
}

// Each entry of a batch has its own result.
func TestOutcomeOfEntries(t *testing.T) {
	codes := map[int]string{1: "InternalFailure", 2: "RequestThrottled", 3: "InvalidMessageContents", 4: "KmsAccessDenied"}
	want := []broker.Outcome{broker.Done, broker.Unknown, broker.Refused, broker.Refused, broker.Refused, broker.Done}
	w := newWorld(t, "")
	w.server.OnEntry(func(_ string, n int) string { return codes[n] })
	rs := w.dlq.Publish(t.Context(), "elsewhere", bodies(6))
	for i, r := range rs {
		if r.Outcome != want[i] {
			t.Errorf("entry %d is %s: %v", i, r.Outcome, r.Err)
		}
	}
	if !errors.Is(rs[2].Err, broker.ErrThrottled) || !errors.Is(rs[4].Err, broker.ErrDenied) {
		t.Errorf("entries 2 and 4: %v, %v", rs[2].Err, rs[4].Err)
	}
	if n := len(w.server.Messages("elsewhere")); n != 2 {
		t.Errorf("%d messages arrived", n)
	}
}

// Nothing leaves the process where no server answers, so nothing was applied.
func TestOutcomeWithoutServer(t *testing.T) {
	w := newWorld(t, "")
	if rs := w.dlq.Publish(t.Context(), "elsewhere", bodies(1)); rs[0].Outcome != broker.Done {
		t.Fatal(rs[0].Err)
	}
	w.stop() // and with it every connection
	if rs := w.dlq.Publish(t.Context(), "elsewhere", bodies(2)); rs[0].Outcome != broker.Refused || rs[1].Outcome != broker.Refused {
		t.Errorf("results %+v", rs)
	}
}

// Requests are cut by bytes as well as by count, and a message that the
// destination itself does not take is not sent.
func TestPublishCutsRequests(t *testing.T) {
	w := newWorld(t, "")
	big := bytes.Repeat([]byte("x"), 400_000)
	ms := bodies(13)
	for i := range 4 {
		ms[i].Body = big
	}
	for i, r := range w.dlq.Publish(t.Context(), "elsewhere", ms) {
		if r.Outcome != broker.Done {
			t.Errorf("entry %d: %v", i, r.Err)
		}
	}
	if n := w.server.Requests("SendMessageBatch"); n != 3 {
		t.Errorf("%d requests", n)
	}
	w.server.CreateQueue("narrow", map[string]string{"MaximumMessageSize": "1024"})
	rs := w.dlq.Publish(t.Context(), "narrow", []broker.Outgoing{ms[0], ms[12]})
	if !errors.Is(rs[0].Err, broker.ErrTooLarge) || rs[0].Outcome != broker.Refused || rs[1].Outcome != broker.Done {
		t.Errorf("results %+v", rs)
	}
}

// A delete after the lease's end would succeed and delete nothing, so it is not
// even tried.
func TestAckAfterTheLease(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(2)...)
	ds, err := w.dlq.Receive(t.Context(), broker.Request{Max: 2, Lease: time.Minute})
	if err != nil || len(ds) != 2 {
		t.Fatal(len(ds), err)
	}
	w.clock.advance(time.Minute)
	for _, r := range w.dlq.Ack(t.Context(), ds) {
		if r.Outcome != broker.Refused || !errors.Is(r.Err, broker.ErrLeaseLost) {
			t.Errorf("result %s: %v", r.Outcome, r.Err)
		}
	}
	if n := w.server.Requests("DeleteMessageBatch"); n > 0 {
		t.Errorf("%d deletes were sent", n)
	}
}

// A receive whose answer is lost blocks its FIFO groups; the next one gets the
// same messages.
func TestLostFIFOReceiveIsAskedForAgain(t *testing.T) {
	w := newWorld(t, ".fifo")
	w.server.Seed("jobs-dlq.fifo", sqsfake.Message{Body: "a", GroupID: "g"})
	w.server.OnRequest(func(action string, n int) sqsfake.Fault {
		if action == "ReceiveMessage" && n == 0 {
			return sqsfake.Drop
		}
		return sqsfake.None
	})
	if _, err := w.dlq.Receive(t.Context(), broker.Request{Max: 10, Lease: time.Minute}); err == nil {
		t.Fatal("the lost receive has no error")
	}
	ds, err := w.dlq.Receive(t.Context(), broker.Request{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("got %d, %v", len(ds), err)
	}
	if r := w.dlq.Ack(t.Context(), ds)[0]; r.Outcome != broker.Done {
		t.Errorf("acknowledged: %s, %v", r.Outcome, r.Err)
	}
}

// A quarantined copy tells why and from where, if it has room for one attribute
// more; the mark is no part of the message.
func TestQuarantine(t *testing.T) {
	full := make([]broker.Attribute, 10)
	for i := range full {
		full[i] = broker.Attribute{Name: fmt.Sprint("name-", i), Type: "String", Value: []byte("v")}
	}
	w := newWorld(t, "")
	ms := bodies(2)
	ms[1].Attributes = full
	for _, r := range w.dlq.Publish(t.Context(), "jobs", ms) {
		if r.Outcome != broker.Done {
			t.Fatal(r.Err)
		}
	}
	ds, err := w.source.Receive(t.Context(), broker.Request{Max: 10, Lease: time.Minute})
	if err != nil || len(ds) != 2 {
		t.Fatal(len(ds), err)
	}
	for _, r := range w.source.Quarantine(t.Context(), ds, broker.Reason{Type: "T", Code: "17", Message: "m"}) {
		if r.Outcome != broker.Done {
			t.Errorf("quarantined: %s, %v", r.Outcome, r.Err)
		}
	}
	var got []string
	if _, err := w.dlq.Browse(t.Context(), 0, func(m broker.Message) error {
		reason := ""
		for _, a := range m.System {
			if a.Name == broker.SystemReasonType || a.Name == broker.SystemReasonCode || a.Name == broker.SystemReasonMessage {
				reason += string(a.Value) + " "
			}
		}
		got = append(got, fmt.Sprintf("%s|%d|%s|%s", m.Body, len(m.Attributes), m.Origin, reason))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := "body 0|0|" + sqsfake.ARN("jobs") + "|T 17 m \nbody 1|10||"
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	if n := len(w.server.Messages("jobs")); n > 0 {
		t.Errorf("%d copies are still in the source", n)
	}
}

// What a receive brought and cannot be handed on is given back, not hidden.
func TestDamagedReceiveHidesNothing(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(3)...)
	w.server.OnRequest(func(action string, _ int) sqsfake.Fault {
		if action == "ReceiveMessage" {
			return sqsfake.Damaged
		}
		return sqsfake.None
	})
	if ds, err := w.dlq.Receive(t.Context(), broker.Request{Max: 10, Lease: time.Minute}); err == nil {
		t.Errorf("received %d", len(ds))
	}
	w.mustHideNothing()
}

// A queue of the time when 256 KiB were the most takes no larger request either,
// and a reason that has no room is left out.
func TestOldQueue(t *testing.T) {
	w := newWorld(t, "")
	w.server.CreateQueue("old", map[string]string{"MaximumMessageSize": "262144"})
	ms := bodies(10)
	for i := range ms {
		ms[i].Body = bytes.Repeat([]byte("x"), 100_000)
	}
	for i, r := range w.dlq.Publish(t.Context(), "old", ms) {
		if r.Outcome != broker.Done {
			t.Errorf("entry %d: %v", i, r.Err)
		}
	}
	if n := w.server.Requests("SendMessageBatch"); n != 5 {
		t.Errorf("%d requests", n)
	}
	ms[0].Body = bytes.Repeat([]byte("x"), 1<<20)
	if r := w.dlq.Publish(t.Context(), "jobs", ms[:1])[0]; r.Outcome != broker.Done {
		t.Fatal(r.Err)
	}
	ds, err := w.source.Receive(t.Context(), broker.Request{Max: 1, Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatal(len(ds), err)
	}
	if r := w.source.Quarantine(t.Context(), ds, broker.Reason{Type: "T"})[0]; r.Outcome != broker.Done {
		t.Error(r.Err)
	}
}
