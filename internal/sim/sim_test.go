package sim

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedsFlag = flag.Int("seeds", 200, "how many schedules to run")
	fromFlag  = flag.Uint64("from", 1, "the first seed")
	seedFlag  = flag.Uint64("seed", 0, "run this schedule alone, and print its trace")
)

// TestSim runs schedules, or the one of -seed with its trace.
func TestSim(t *testing.T) {
	if *seedFlag != 0 {
		alone(t, *seedFlag)
		return
	}
	started := time.Now()
	first := search(t, *fromFlag, *seedsFlag)
	t.Logf("%d schedules in %s", *seedsFlag, time.Since(started).Round(time.Millisecond))
	if first != nil {
		explain(t, first.Seed)
	}
}

// alone prints the whole trace of one schedule, or, where it breaks a promise, of
// the smallest part of it that does.
func alone(t *testing.T, seed uint64) {
	t.Helper()
	r := mustRun(t, Options{Seed: seed, Trace: true})
	if r.Broken != nil {
		explain(t, seed)
	}
	t.Log("\n" + r.Trace)
}

func explain(t *testing.T, seed uint64) {
	t.Helper()
	r, err := Explain(seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatalf("seed %d breaks %s\n%s\nagain: make sim SEED=%d", seed, r.Broken, r.Trace, seed)
}

func mustRun(t *testing.T, o Options) Result {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// search runs schedules on all processors, and finds the first that breaks a
// promise.
func search(t *testing.T, from uint64, n int) *Result {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	var first *Result
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				stop := i >= uint64(n) || first != nil && first.Seed < from+i
				mu.Unlock()
				if stop {
					return
				}
				r, err := Run(Options{Seed: from + i})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if r.Broken != nil && (first == nil || r.Seed < first.Seed) {
					first = &r
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return first
}

// TestSameTrace: a seed gives the same trace, to the byte.
func TestSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		a, b := mustRun(t, Options{Seed: seed + 1, Trace: true}), mustRun(t, Options{Seed: seed + 1, Trace: true})
		if a.Trace != b.Trace {
			t.Errorf("seed %d: two traces", seed+1)
		}
	}
}

// TestCrashesAnywhere: the attention of a schedule can lie on each call that there
// is, and has processes killed right before it, and right after it where it changes
// something.
func TestCrashesAnywhere(t *testing.T) {
	t.Parallel()
	possible, seen := map[string]bool{}, map[string]bool{}
	for _, op := range places {
		for seed := uint64(1); !seen[op+": killed before"] && seed < 1000; seed++ {
			killedAt(t, op, seed, possible, seen)
		}
	}
	for _, where := range slices.Sorted(maps.Keys(possible)) {
		op, _, _ := strings.Cut(where, ": ")
		if !slices.Contains(places, op) {
			t.Errorf("no schedule gives its attention to %q", op)
			continue
		}
		for seed := uint64(1); !seen[where] && seed < 1000; seed++ {
			killedAt(t, op, seed, map[string]bool{}, seen)
		}
		if !seen[where] {
			t.Errorf("no process is ever %s", where)
		}
	}
	for _, op := range slices.Concat(places, painful) {
		if !possible[op+": killed before"] {
			t.Errorf("nobody calls %q", op)
		}
	}
}

// killedAt runs a schedule that crashes at a call, and notes where processes could
// have been killed and where they were.
func killedAt(t *testing.T, op string, seed uint64, possible, seen map[string]bool) {
	t.Helper()
	r := mustRun(t, Options{Seed: seed, Trace: true, focus: op, deaths: possible})
	for line := range strings.Lines(r.Trace) {
		if _, what, ok := strings.Cut(line, " !! "); ok {
			seen[strings.TrimSpace(what)] = true
		}
	}
}
