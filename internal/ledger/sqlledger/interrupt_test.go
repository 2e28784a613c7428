package sqlledger_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
)

// fading is a context that ends when it is asked for the last time.
type fading struct {
	context.Context
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (f *fading) Done() <-chan struct{} { return f.done }

func (f *fading) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	if f.left == 0 {
		close(f.done)
	}
	if f.left <= 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted: wherever opening and reading a ledger is interrupted, it is said to
// be, and not that the ledger failed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	cfg := sqlledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Create: true}
	l, err := sqlledger.Open(t.Context(), cfg)
	if err == nil {
		err = errors.Join(l.Init(t.Context()), l.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for left := 1; ; left++ {
		ctx := &fading{Context: t.Context(), left: left, done: make(chan struct{})}
		l, err := sqlledger.Open(ctx, cfg)
		if err == nil {
			_, err = l.Now(ctx)
			if err == nil {
				err = l.Get(ctx, []ledger.Key{{JobKey: "a"}})[0].Err
			}
			err = errors.Join(err, l.Close())
		}
		if err == nil {
			if left < 5 {
				t.Errorf("only %d questions to the context", left)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d questions: %v", left, err)
		}
	}
}
