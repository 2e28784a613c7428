package worker

import (
	"math/rand/v2"
	"time"
)

// Retry is the retry policy of a queue; a classify.RetryPolicy converts to it.
type Retry struct {
	Base       time.Duration
	Cap        time.Duration // 0: none
	Budget     int           // attempts in all
	FullJitter bool
	Deadline   time.Duration // from the first attempt; 0: none
}

// Delay is how long to wait after attempt n (from 1) failed: with full jitter a
// uniform part of min(cap, base·2^(n−1)), without it the whole. It is pure: the
// same source gives the same delays.
func Delay(r Retry, n int, rnd *rand.Rand) time.Duration {
	most := r.Base
	// Doubling stops at the cap, and before it can overflow.
	for i := 1; i < n && most < 1<<61 && (r.Cap <= 0 || most < r.Cap); i++ {
		most *= 2
	}
	if r.Cap > 0 {
		most = min(most, r.Cap)
	}
	if most <= 0 || !r.FullJitter {
		return max(most, 0)
	}
	return time.Duration(rnd.Int64N(int64(most) + 1))
}
