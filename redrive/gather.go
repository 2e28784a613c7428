package redrive

import (
	"context"
	"slices"
	"sync"
)

// gather joins what several batches ask for at the same time into one call, so
// that what a call costs whatever it is asked (a transaction, a sync of the
// disk, a query) is paid once. While one call is under way the next one fills.
// Every caller gets the answers to his own entries, from a call that began after
// he asked.
type gather[In, Out any] struct {
	// do answers entry for entry; its error is every caller's.
	do func(context.Context, []In) ([]Out, error)

	mu      sync.Mutex
	waiting []*asking[In, Out]
	busy    bool
}

type asking[In, Out any] struct {
	in   []In
	out  []Out
	err  error
	done chan struct{}
}

// call waits for the answers. A call that has begun is not cut short.
func (g *gather[In, Out]) call(ctx context.Context, in []In) ([]Out, error) {
	a := &asking[In, Out]{in: in, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	first := !g.busy
	g.busy = true
	g.mu.Unlock()
	if first {
		go g.serve(context.WithoutCancel(ctx))
	}
	<-a.done
	return a.out, a.err
}

// serve answers until nobody waits.
func (g *gather[In, Out]) serve(ctx context.Context) {
	for {
		g.mu.Lock()
		all := g.waiting
		g.waiting, g.busy = nil, len(all) > 0
		g.mu.Unlock()
		if len(all) == 0 {
			return
		}
		g.answer(ctx, all)
	}
}

func (g *gather[In, Out]) answer(ctx context.Context, all []*asking[In, Out]) {
	asked := make([][]In, len(all))
	for i, a := range all {
		asked[i] = a.in
	}
	in := slices.Concat(asked...)
	out, err := g.do(ctx, in)
	for _, a := range all {
		if a.err = err; err == nil {
			a.out, out = out[:len(a.in):len(a.in)], out[len(a.in):]
		}
		close(a.done)
	}
}
