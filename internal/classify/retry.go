package classify

import (
	"math"
	"time"
)

// RetryPolicy is the retry policy of the queue's workers: after attempt n has
// failed the next one waits min(Cap, Base·2^(n−1)), or with FullJitter a time
// drawn evenly from 0 up to that.
type RetryPolicy struct {
	Base       time.Duration
	Cap        time.Duration // 0: none
	Budget     int           // attempts in all
	FullJitter bool
	Deadline   time.Duration // from the first claim, for the last attempt to begin; 0: none
}

// Longest is the longest wait after attempt n (from 1) has failed.
func (r RetryPolicy) Longest(n int) time.Duration {
	most := r.Base
	// Doubling stops at the cap, and before it can overflow.
	for i := 1; i < n && most < 1<<61 && (r.Cap <= 0 || most < r.Cap); i++ {
		most *= 2
	}
	if r.Cap > 0 {
		most = min(most, r.Cap)
	}
	return max(most, 0)
}

// Start is when one attempt can begin, counted from the claim of the first.
type Start struct {
	Attempt int           // from 1
	Delay   time.Duration // the longest wait before it; 0 for the first
	// Earliest: every wait was as short as it can be, 0s with full jitter, and
	// every attempt before failed at once.
	Earliest time.Duration
	// Expected: every wait was as long as it is on average, half of the longest
	// with full jitter; the attempts themselves are counted as instant.
	Expected time.Duration
	// Latest: every wait was as long as it can be, and every attempt before took
	// as long as it may.
	Latest time.Duration
}

// Window says of each attempt of the budget when it can begin. attempt is the
// longest time that one attempt may take, from its claim to its failure. Times
// beyond 292 years are given as that.
func (r RetryPolicy) Window(attempt time.Duration) []Start {
	starts := make([]Start, 0, r.Budget)
	at := Start{Attempt: 1}
	for n := 1; n <= r.Budget; n++ {
		starts = append(starts, at)
		least, mean, most := r.wait(n)
		at = Start{
			Attempt: n + 1, Delay: most, Earliest: plus(at.Earliest, least), Expected: plus(at.Expected, mean),
			Latest: plus(plus(at.Latest, attempt), most),
		}
	}
	return starts
}

// LongestOfAll is how long the whole budget can take, from the claim of the
// first attempt to the failure of the last; see Window.
func (r RetryPolicy) LongestOfAll(attempt time.Duration) time.Duration {
	starts := r.Window(attempt)
	if len(starts) == 0 {
		return 0
	}
	return plus(starts[len(starts)-1].Latest, attempt)
}

// wait is the shortest, mean and longest wait after attempt n.
func (r RetryPolicy) wait(n int) (least, mean, most time.Duration) {
	most = r.Longest(n)
	if r.FullJitter {
		return 0, most / 2, most
	}
	return most, most, most
}

// plus adds two durations that are not negative, up to the longest there is.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// checkRetry finds a retry policy that can never retry as it says.
func (s source) checkRetry(r *fileRetry) error {
	switch {
	case r == nil:
		return nil
	case r.Base <= 0:
		return s.fault("$.retry.base", "base must be longer than 0s")
	case r.Cap < r.Base:
		return s.fault("$.retry.cap", "cap must not be shorter than base")
	case r.Budget < 1 || r.Budget > 1000:
		return s.fault("$.retry.budget", "budget must be 1 to 1000 attempts, not %d", r.Budget)
	}
	return nil
}
