package redrive

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// TestGatherJoinsWhatWaits: while one call is under way, everybody else's
// entries become the next one, and each gets his own answers.
func TestGatherJoinsWhatWaits(t *testing.T) {
	t.Parallel()
	const callers = 20
	begun, goOn := make(chan struct{}), make(chan struct{})
	var calls []int
	g := gather[int, string]{}
	g.do = func(_ context.Context, in []int) ([]string, error) {
		if len(calls) == 0 {
			close(begun)
			<-goOn
		}
		calls = append(calls, len(in))
		out := make([]string, len(in))
		for i, n := range in {
			out[i] = strconv.Itoa(n)
		}
		return out, nil
	}
	var wg sync.WaitGroup
	ask := func(n int) {
		wg.Go(func() {
			out, err := g.call(t.Context(), []int{n, -n})
			if want := []string{strconv.Itoa(n), strconv.Itoa(-n)}; err != nil || !slices.Equal(out, want) {
				t.Errorf("got %v %v, want %v", out, err, want)
			}
		})
	}
	ask(1)
	<-begun
	for n := range callers {
		ask(n + 2)
	}
	for g.pending() < callers {
		runtime.Gosched()
	}
	close(goOn)
	wg.Wait()
	if want := []int{2, 2 * callers}; !slices.Equal(calls, want) {
		t.Errorf("calls had %v entries, want %v", calls, want)
	}
}

func (g *gather[In, Out]) pending() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// TestGatherAnswersFromALaterCall: what a call under way has seen is no answer
// to somebody who asks after it began.
func TestGatherAnswersFromALaterCall(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	n := 0
	g := gather[struct{}, struct{}]{}
	g.do = func(context.Context, []struct{}) ([]struct{}, error) {
		n++
		begun <- struct{}{}
		<-goOn
		if n == 2 {
			return nil, errors.New("revoked")
		}
		return nil, nil
	}
	var wg sync.WaitGroup
	var first, second error
	wg.Go(func() { _, first = g.call(t.Context(), nil) })
	<-begun
	wg.Go(func() { _, second = g.call(t.Context(), nil) })
	for g.pending() == 0 {
		runtime.Gosched()
	}
	close(goOn)
	wg.Wait()
	if first != nil || second == nil {
		t.Errorf("got %v and %v, want only the second refused", first, second)
	}
}
