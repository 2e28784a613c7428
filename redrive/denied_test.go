package redrive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

// oneByOne is a broker whose batches have one entry.
type oneByOne struct{ broker.Broker }

func (b oneByOne) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.MaxBatch = 1
	return c
}

// TestDenied: what a broker does not permit ends the run. The step is tried
// once, nothing leaves the queue without having been sent, and once it is
// permitted resume does what is left.
func TestDenied(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call            string
		noLedger        bool
		stopped         redrive.Report
		dlq, src, tries int
		resumed         redrive.Report
	}{
		"send": {
			call: "publish", stopped: redrive.Report{Planned: 3, Redriven: 1, Remaining: 2}, dlq: 2, src: 1, tries: 2,
			resumed: redrive.Report{Planned: 3, Redriven: 3},
		},
		"send, without a ledger": {
			call: "publish", noLedger: true, stopped: redrive.Report{Planned: 3, Redriven: 1, Failed: 1, Remaining: 1}, dlq: 2, src: 1, tries: 2,
			resumed: redrive.Report{Planned: 3, Redriven: 2, Failed: 1},
		},
		"delete": {
			call: "ack", stopped: redrive.Report{Planned: 3, Redriven: 1, Unknown: 1, Remaining: 1}, dlq: 2, src: 2, tries: 2,
			resumed: redrive.Report{Planned: 3, Redriven: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noLedger = tt.noLedger
			w.dead("k1", "k2", "k3")
			w.broker = oneByOne{w.broker}
			id := w.plan()
			tries := 0
			w.fault = func(call string) error {
				if call == tt.call {
					if tries++; tries > 1 {
						return broker.ErrDenied
					}
				}
				return nil
			}
			e, err := w.run(id)
			var denied *redrive.DeniedError
			if !errors.As(err, &denied) || !errors.Is(err, broker.ErrDenied) || e.State != redrive.RunFailed {
				t.Errorf("run %s, %v", e.State, err)
			}
			if d := cmp.Diff(tt.stopped, e.Report, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if w.depth("dlq") != tt.dlq || w.depth("src") != tt.src || tries != tt.tries {
				t.Errorf("%d dead copies, %d sent, %d tries", w.depth("dlq"), w.depth("src"), tries)
			}
			ds, err := w.queues.Queue("dlq").Receive(w.ctx, broker.Request{Max: 10, Lease: 1})
			if err != nil || len(ds) != tt.dlq {
				t.Errorf("%d dead copies are hidden: %v", tt.dlq-len(ds), err)
			}
			w.fault = nil
			e, err = w.resume()
			w.must(err)
			if d := cmp.Diff(tt.resumed, e.Report, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

// unchosen is a broker that cannot receive by name.
type unchosen struct{ broker.Broker }

func (b unchosen) Capabilities() broker.Capabilities {
	c := b.Broker.Capabilities()
	c.SelectiveReceive = false
	return c
}

func (b unchosen) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	r.Only = nil
	return b.Broker.Receive(ctx, r)
}

// TestResumeLetsGo: while resume waits for the copy of an open intent it is given
// the plan's other copies, and does not keep them from itself.
func TestResumeLetsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2", "k3")
	dlq := w.broker
	w.broker = oneByOne{dlq}
	id := w.plan()
	w.fault = func(call string) error {
		if call == "ack" {
			return broker.ErrDenied
		}
		return nil
	}
	if e, err := w.run(id); !errors.Is(err, broker.ErrDenied) || e.Report.Unknown != 1 {
		t.Fatalf("%+v, %v", e.Report, err)
	}
	w.fault = nil
	first := broker.CopyID{Entity: "dlq", ID: "1"}
	ds, err := dlq.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute, Only: []broker.CopyID{first}}) // another consumer
	if err != nil || len(ds) != 1 || decode(ds[0].Message).JobKey != "k1" {
		t.Fatalf("%v, %v", ds, err)
	}
	w.broker = unchosen{dlq}
	e, err := w.resume()
	w.must(err)
	if e.Report.Redriven != 3 || w.depth("dlq") != 0 || w.depth("src") != 3 {
		t.Errorf("%+v, %d dead, %d sent", e.Report, w.depth("dlq"), w.depth("src"))
	}
}
