package worker

import (
	"math/rand/v2"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
)

// Delay is how long to wait after attempt n (from 1) failed: with full jitter a
// uniform part of the policy's longest wait, without it the whole. It is pure: the
// same source gives the same delays.
func Delay(r classify.RetryPolicy, n int, rnd *rand.Rand) time.Duration {
	most := r.Longest(n)
	if most == 0 || !r.FullJitter {
		return most
	}
	return time.Duration(rnd.Int64N(int64(most) + 1))
}
