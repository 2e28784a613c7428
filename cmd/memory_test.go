package cmd

import (
	"math"
	"runtime/debug"
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
	a.boundRun(100_000)
	if len(bounds) != 1 || bounds[0] != runMemory+100_000*runJobMemory {
		t.Errorf("a run of 100,000 jobs is bounded to %v", bounds)
	}
	newApp(Env{}).boundRun(1) // within another's process: nothing to bound
}
