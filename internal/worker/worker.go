// Package worker is the reference worker: docs/worker-contract.md in code. It
// takes copies from a queue, lets the ledger decide who may send, and never
// acknowledges a copy whose job is not committed or replaced.
package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Renderings keeps what was rendered for a job, so that every attempt sends the
// same bytes. A *sqlledger.Ledger is one.
type Renderings interface {
	// Rendering is nil where nothing is stored yet.
	Rendering(ctx context.Context, key ledger.Key) ([]byte, error)
	// SaveRendering stores the content unless one is stored, and returns the
	// stored one.
	SaveRendering(ctx context.Context, key ledger.Key, content []byte) ([]byte, error)
}

// Work is what a copy is about.
type Work struct {
	Key ledger.Key
	// New is the row to write when the ledger has none and rows are first
	// written at the claim.
	New ledger.NewRow
}

// Worker handles the copies of one queue. All fields but those marked optional
// are needed.
type Worker struct {
	Queue  broker.Broker
	Ledger ledger.Ledger
	Sender Sender
	// Decode reads what a copy is about. Its error says that no attempt could
	// ever read it.
	Decode func(broker.Message) (Work, error)
	// Render makes the content once; later attempts send what was stored.
	Render     func(broker.Message, ledger.Row) ([]byte, error)
	Renderings Renderings
	// Insert writes rows at the claim; optional where the application writes
	// them when it enqueues.
	Insert func(ctx context.Context, rows ...ledger.NewRow) error
	Retry  classify.RetryPolicy
	// ClaimLife bounds one send; Lease is the queue's, longer than that.
	ClaimLife, Lease time.Duration
	Batch            int           // copies in one receive; optional, 1
	Idle             time.Duration // between two looks at an empty queue; optional, 200 ms
	Actor            string        // in the ledger's history
	Now              func() time.Time
	Rand             *rand.Rand // of the jitter; a seeded source repeats
	// Report is told what went wrong with single copies, which stay in the queue.
	Report func(error)

	random sync.Mutex
}

// Validate reports the first setting with which the contract cannot be kept.
func (w *Worker) Validate() error {
	switch {
	case w.Queue == nil || w.Ledger == nil || w.Sender == nil || w.Decode == nil || w.Render == nil || w.Renderings == nil:
		return errors.New("worker: queue, ledger, sender, decode, render and renderings are needed")
	case w.Now == nil || w.Rand == nil || w.Report == nil:
		return errors.New("worker: a clock, a source of jitter and a report are needed")
	case w.ClaimLife <= 0 || w.Lease <= w.ClaimLife:
		return fmt.Errorf("worker: claim life %s must be above zero and below the lease %s", w.ClaimLife, w.Lease)
	case w.Retry.Budget < 1:
		return fmt.Errorf("worker: retry budget %d allows no attempt", w.Retry.Budget)
	case !w.Ledger.Capabilities().Writable:
		return fmt.Errorf("worker: %w", ledger.ErrReadOnly)
	}
	return nil
}

// Run handles copies until ctx ends, which is no error. The copy in hand is
// finished first: to cut a send short would make its outcome unknown.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Validate(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		n, err := w.Step(ctx)
		if err != nil && ctx.Err() == nil {
			w.Report(err)
		}
		if n == 0 || err != nil {
			w.rest(ctx)
		}
	}
	return nil
}

func (w *Worker) rest(ctx context.Context) {
	idle := w.Idle
	if idle == 0 {
		idle = 200 * time.Millisecond
	}
	t := time.NewTimer(idle)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Step receives one batch and handles each copy; it returns how many there were.
// An error of one copy leaves that copy to its lease and the others to be
// handled.
func (w *Worker) Step(ctx context.Context) (int, error) {
	ds, err := w.Queue.Receive(ctx, broker.Request{Max: max(w.Batch, 1), Lease: w.Lease})
	if err != nil {
		return 0, fmt.Errorf("receive: %w", err)
	}
	var errs []error
	for i, d := range ds {
		if ctx.Err() != nil {
			return i, errors.Join(append(errs, w.giveBack(ctx, ds[i:]))...)
		}
		if err := w.handle(context.WithoutCancel(ctx), d); err != nil {
			errs = append(errs, fmt.Errorf("copy %s: %w", d.Copy, err))
		}
	}
	return len(ds), errors.Join(errs...)
}

// giveBack releases what was received and not begun when the worker is stopped.
func (w *Worker) giveBack(ctx context.Context, ds []broker.Delivery) error {
	var errs []error
	for _, r := range w.Queue.Release(context.WithoutCancel(ctx), ds) {
		errs = append(errs, settled("release", []broker.Result{r}))
	}
	return errors.Join(errs...)
}

func (w *Worker) delay(attempt int, asked time.Duration) time.Duration {
	w.random.Lock()
	defer w.random.Unlock()
	return max(Delay(w.Retry, attempt, w.Rand), asked)
}
