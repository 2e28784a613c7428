package cmd

import (
	"math"
	"runtime/debug"
)

// What a run takes of the collector's memory, in bytes: for what it has in its
// hands, and for where each job of its plan stands. Without a bound, what is no
// longer used may take as much again before it is collected; near to what is
// needed, the collector takes a fifth of a run's processor time. So small plans
// have the bound of one of 100,000 jobs.
const (
	runMemory     = 23 << 20
	runJobMemory  = 40
	leastRunBound = runMemory + 100_000*runJobMemory
)

// boundMemory has this process keep near a bound, in bytes, at the price of
// collecting more often. GOMEMLIMIT is the operator's own bound and stands.
func boundMemory(limit int64) {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// boundRun bounds the memory of a process that does nothing but a run.
func (a *app) boundRun(jobs int) {
	if a.bound != nil {
		a.bound(max(leastRunBound, runMemory+runJobMemory*int64(jobs)))
	}
}
