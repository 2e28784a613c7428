package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

// look browses and counts, and checks that nothing stays hidden.
func (w *world) look(ctx context.Context, limit int) (seen int, c broker.Completeness, err error) {
	w.Helper()
	c, err = w.dlq.Browse(ctx, limit, func(broker.Message) error { seen++; return nil })
	return seen, c, err
}

func (w *world) mustHideNothing() {
	w.Helper()
	if _, hidden, _ := w.server.Depth(w.name("jobs-dlq")); hidden > 0 {
		w.Errorf("%d copies stay hidden after the look", hidden)
	}
}

func plain(n int) []sqsfake.Message {
	ms := make([]sqsfake.Message, n)
	for i := range ms {
		ms[i] = sqsfake.Message{Body: fmt.Sprintf("body %d", i)}
	}
	return ms
}

// One empty answer is no proof: short answers and empty ones do not end a look.
func TestLookGoesOnAfterEmptyAnswers(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(300)...)
	w.server.Fewer(func(n int) int { return (n * 7) % 3 })
	seen, c, err := w.look(t.Context(), 0)
	if err != nil || seen != 300 || !c.Complete {
		t.Fatalf("saw %d, %+v, %v", seen, c, err)
	}
	w.mustHideNothing()
}

func TestLookSaysWhatItDidNotSee(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		want   string
	}{
		"in flight elsewhere": {func(w *world) {
			if _, err := w.dlq.Receive(w.Context(), broker.Request{Max: 2, Lease: 60e9}); err != nil {
				w.Fatal(err)
			}
		}, "2 copies are in flight with other receivers"},
		"refused": {func(w *world) {
			w.server.OnRequest(func(a string, n int) sqsfake.Fault {
				if a == "ReceiveMessage" && n == 1 {
					return sqsfake.OverLimit
				}
				return sqsfake.None
			})
		}, "SQS lends no more copies: too many are in flight"},
		"its own dead-letter policy": {func(w *world) {
			w.server.SetAttribute("jobs-dlq", "RedrivePolicy", sqsfake.DeadLetter("elsewhere", 2))
			w.reopen()
		}, "the queue itself dead-letters after 2 receives"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.server.Seed("jobs-dlq", plain(40)...)
			c.before(w)
			seen, done, err := w.look(t.Context(), 0)
			if err != nil || done.Complete || !strings.Contains(done.Why, c.want) {
				t.Fatalf("saw %d, %+v, %v", seen, done, err)
			}
			if n := len(w.server.Messages("elsewhere")); n > 0 {
				t.Errorf("the look has dead-lettered %d copies", n)
			}
		})
	}
}

// A FIFO group can be looked at no deeper than one receive, and that is said.
func TestLookIntoGroups(t *testing.T) {
	w := newWorld(t, ".fifo")
	for i := range 25 {
		w.server.Seed("jobs-dlq.fifo", sqsfake.Message{Body: fmt.Sprint(i), GroupID: "long"})
	}
	w.server.Seed("jobs-dlq.fifo", sqsfake.Message{Body: "x", GroupID: "short"})
	var bodies []string
	c, err := w.dlq.Browse(t.Context(), 0, func(m broker.Message) error {
		bodies = append(bodies, string(m.Body))
		return nil
	})
	if err != nil || c.Complete || !strings.Contains(c.Why, `"long" 10, "short" 1`) {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := strings.Join(bodies, " "); got != "0 1 2 3 4 5 6 7 8 9 x" {
		t.Errorf("saw %s", got)
	}
	w.mustHideNothing()
}

// A stopped look gives back what it holds, also what a receive brought that was
// under way when it was stopped.
func TestStoppedLookHidesNothing(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(500)...)
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	_, err := w.dlq.Browse(ctx, 0, func(broker.Message) error {
		if seen++; seen == 33 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("saw %d, %v", seen, err)
	}
	w.mustHideNothing()
}

// A release that fails is tried again; one that fails for good is told.
func TestLookTellsWhatStaysHidden(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(10)...)
	w.server.OnRequest(func(a string, n int) sqsfake.Fault {
		if a == "ChangeMessageVisibilityBatch" && n == 0 {
			return sqsfake.Error
		}
		return sqsfake.None
	})
	if _, c, err := w.look(t.Context(), 0); err != nil || !c.Complete {
		t.Fatalf("%+v, %v", c, err)
	}
	w.mustHideNothing()
	w.server.OnRequest(func(a string, _ int) sqsfake.Fault {
		if a == "ChangeMessageVisibilityBatch" {
			return sqsfake.Error
		}
		return sqsfake.None
	})
	if _, c, err := w.look(t.Context(), 0); err != nil || c.Complete || !strings.Contains(c.Why, "10 copies could not be given back") {
		t.Fatalf("%+v, %v", c, err)
	}
}

// A look that lasts longer than its lease renews it: no copy is shown twice, and
// none is lost from sight.
func TestLongLookRenews(t *testing.T) {
	w := newWorld(t, "")
	w.server.Seed("jobs-dlq", plain(700)...)
	seen := map[string]bool{}
	c, err := w.dlq.Browse(t.Context(), 0, func(m broker.Message) error {
		if seen[m.MessageID] {
			t.Errorf("copy %s was shown twice", m.Copy)
		}
		seen[m.MessageID] = true
		w.clock.advance(200e6) // 140 s in all
		return nil
	})
	if err != nil || len(seen) != 700 {
		t.Fatalf("saw %d, %+v, %v", len(seen), c, err)
	}
	// The clock jumps while requests are under way, so that a few leases end by
	// this side's count and not yet by the server's.
	w.clock.advance(2 * time.Minute)
	w.mustHideNothing()
}
