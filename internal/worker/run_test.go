package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// TestStopFinishesTheCopyInHand: a worker that is asked to stop while it sends
// finishes that job, gives the rest back, and leaves nothing unknown.
func TestStopFinishesTheCopyInHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker.Batch = 2
	w.enqueue("j", 1)
	w.enqueue("k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	w.provider.script = script{func(sending context.Context, _ Request) error {
		cancel()
		return sending.Err()
	}}
	must(t, w.worker.Run(ctx))
	if d := cmp.Diff([]string{"j/1 made at 1"}, w.provider.accepted); d != "" {
		t.Error(d)
	}
	if s := w.row("j").State; s != ledger.Sent {
		t.Errorf("the job in hand is %s", s)
	}
	ds, err := w.source.Receive(t.Context(), broker.Request{Max: 2, Lease: time.Second})
	if err != nil || len(ds) != 1 || string(ds[0].Body) != "k" {
		t.Errorf("given back: %v, %v", ds, err)
	}
}

// TestRunGoesOn: what goes wrong with one copy is reported and stops nothing.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue("j", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reported []error
	render := w.worker.Render
	w.worker.Idle = time.Millisecond
	w.worker.Render = func(m broker.Message, r ledger.Row) ([]byte, error) {
		if len(reported) == 0 {
			return nil, errors.New("no template")
		}
		return render(m, r)
	}
	w.worker.Report = func(err error) {
		reported = append(reported, err)
		w.advance(lease)
	}
	w.provider.script = script{func(context.Context, Request) error { cancel(); return nil }}
	must(t, w.worker.Run(ctx))
	if len(reported) != 1 || w.row("j").State != ledger.Sent {
		t.Errorf("reported %v, the job is %s", reported, w.row("j").State)
	}
}

func TestWorkerValidate(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Worker){
		"no queue":                   func(w *Worker) { w.Queue = nil },
		"no clock":                   func(w *Worker) { w.Now = nil },
		"a lease within the claim":   func(w *Worker) { w.Lease = w.ClaimLife },
		"no budget":                  func(w *Worker) { w.Retry.Budget = 0 },
		"nowhere to report mistakes": func(w *Worker) { w.Report = nil },
	} {
		w := newWorld(t)
		spoil(w.worker)
		if w.worker.Run(t.Context()) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
