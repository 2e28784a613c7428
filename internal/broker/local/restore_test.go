package local_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

// TestRestoreExpired: a copy whose time is over comes back for as long as one
// that arrives now, else the restore would lose it; any other keeps its end.
func TestRestoreExpired(t *testing.T) {
	t.Parallel()
	f, c := openFile(t, false)
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "short", Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	q := f.Queue("short")
	message := func(id string, expires time.Time) broker.Message {
		return broker.Message{Copy: broker.CopyID{Entity: "short", ID: id}, MessageID: "m-" + id, SentAt: c.now(), ExpiresAt: expires}
	}
	mustDone(t, q.Restore(t.Context(), []broker.Message{
		message("1", c.now()), message("2", c.now().Add(time.Minute)), message("3", time.Time{}),
	}))
	var got []time.Time
	for _, m := range browse(t, q) {
		got = append(got, m.ExpiresAt)
	}
	if d := cmp.Diff([]time.Time{c.now().Add(time.Hour), c.now().Add(time.Minute), {}}, got); d != "" {
		t.Error(d)
	}
}

// TestRestoreRoom: no copy, whatever it brings along, takes the last row.
func TestRestoreRoom(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("jobs-dlq")
	m := broker.Message{Copy: broker.CopyID{Entity: "jobs-dlq", ID: strconv.Itoa(math.MaxInt64)}, MessageID: "m"}
	rs := q.Restore(t.Context(), []broker.Message{m})
	mustDone(t, rs)
	if rs[0].Copy.ID != "1" {
		t.Errorf("restored as %s", rs[0].Copy)
	}
	mustDone(t, q.Publish(t.Context(), "jobs-dlq", []broker.Outgoing{{}}))
}

// TestRestoreRefuses: what cannot be kept is refused, and the others come back.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("jobs-dlq")
	rs := q.Restore(t.Context(), []broker.Message{
		{MessageID: "a", Receives: -1},
		{MessageID: "b\x00"},
		{MessageID: "c", Attributes: []broker.Attribute{{}}},
		{MessageID: "d"},
	})
	for i, r := range rs {
		if want := map[bool]broker.Outcome{true: broker.Done, false: broker.Refused}[i == 3]; r.Outcome != want {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if ms := browse(t, q); len(ms) != 1 || ms[0].MessageID != "d" {
		t.Errorf("%+v", ms)
	}
}
