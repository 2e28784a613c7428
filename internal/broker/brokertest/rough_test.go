package brokertest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

func openRough(t *testing.T, o brokertest.RoughOptions) (rough broker.Broker, inner *local.Queue) {
	t.Helper()
	f, err := local.Open(filepath.Join(t.TempDir(), "queue.db"), local.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	return brokertest.Rough(f.Queue("q"), o), f.Queue("q")
}

func messages(n int) []broker.Outgoing {
	ms := make([]broker.Outgoing, n)
	for i := range ms {
		ms[i].Body = fmt.Appendf(nil, "%d", i)
	}
	return ms
}

// trace is what a fixed series of receives gives.
func trace(t *testing.T, seed uint64) []string {
	t.Helper()
	b, _ := openRough(t, brokertest.Roughest(seed))
	b.Publish(t.Context(), "q", messages(30))
	var seen []string
	for range 20 {
		ds, err := b.Receive(t.Context(), broker.Request{Max: 4, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for _, d := range ds {
			line += fmt.Sprintf("%s=%s ", d.Body, d.MessageID)
		}
		seen = append(seen, line)
	}
	return seen
}

func TestRoughRepeatsItself(t *testing.T) {
	t.Parallel()
	first := trace(t, 1)
	if diff := cmp.Diff(first, trace(t, 1)); diff != "" {
		t.Errorf("one seed, two series:\n%s", diff)
	}
	if cmp.Equal(first, trace(t, 2)) {
		t.Error("two seeds, one series")
	}
	empty, duplicated, lines := 0, 0, map[string]int{}
	for _, line := range first {
		if line == "" {
			empty++
		}
		var body, id string
		for rest := line; ; {
			if n, _ := fmt.Sscanf(rest, "%s ", &body); n == 0 {
				break
			}
			id, rest = body, rest[len(body)+1:]
			if lines[id]++; lines[id] > 1 {
				duplicated++
			}
		}
	}
	if empty == 0 || duplicated == 0 {
		t.Errorf("%d empty receives and %d duplicates: the wrapper is not rough", empty, duplicated)
	}
}

func TestRoughFaults(t *testing.T) {
	t.Parallel()
	b, inner := openRough(t, brokertest.RoughOptions{
		LosePublishReply: func(i int) bool { return i == 1 },
		Fault: func(op brokertest.Op, i int) brokertest.Fault {
			if op != brokertest.OpPublish {
				return brokertest.NoFault
			}
			return map[int]brokertest.Fault{2: brokertest.RequestLost, 3: brokertest.Throttle}[i]
		},
	})
	rs := b.Publish(t.Context(), "q", messages(5))
	want := []broker.Outcome{broker.Done, broker.Unknown, broker.Unknown, broker.Refused, broker.Done}
	for i, r := range rs {
		if r.Outcome != want[i] {
			t.Errorf("result %d is %s, want %s", i, r.Outcome, want[i])
		}
	}
	if !errors.Is(rs[1].Err, brokertest.ErrReplyLost) || !errors.Is(rs[3].Err, broker.ErrThrottled) {
		t.Errorf("errors %v and %v", rs[1].Err, rs[3].Err)
	}
	var applied []string
	if _, err := inner.Browse(t.Context(), 0, func(m broker.Message) error {
		applied = append(applied, string(m.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0", "1", "4"}, applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
