package cmd

import (
	"math"
	"runtime/debug"
	"slices"
	"testing"
)

// A process is bounded once it is known how many jobs its run has, unless the
// operator bounded it.
func TestBoundMemory(t *testing.T) {
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	const own = 1 << 40 // far above what these tests take
	boundMemory(own)
	if got := debug.SetMemoryLimit(-1); got != own {
		t.Errorf("bounded to %d, want %d", got, own)
	}
	boundMemory(own / 2)
	if got := debug.SetMemoryLimit(-1); got != own {
		t.Errorf("bounded to %d, over the bound of %d that stood", got, own)
	}
	var bounds []int64
	a := newApp(Env{Bound: func(limit int64) { bounds = append(bounds, limit) }})
	for _, jobs := range []int{1, 100_000, 200_000} {
		a.boundRun(jobs)
	}
	if want := []int64{leastRunBound, leastRunBound, leastRunBound + 100_000*runJobMemory}; !slices.Equal(bounds, want) {
		t.Errorf("runs are bounded to %v, want %v", bounds, want)
	}
	newApp(Env{}).boundRun(1) // within another's process: nothing to bound
}
