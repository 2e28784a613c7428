package redrive

import (
	"context"
	"sync"
	"time"
)

// limiter keeps a rate in any one-second window, not on average. A start holds
// its place from when it was granted until one window after it is known to be
// over, because a broker may apply a publish at any moment of the call. A new
// limiter is full: the process before it may have used the last second.
type limiter struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu       sync.Mutex
	n        int
	w        time.Duration
	inFlight int
	used     int // the sum of spent
	spent    []spent
}

// spent are places that become free together. A limiter has them in the order of
// their times.
type spent struct {
	until  time.Time
	places int
}

func newLimiter(r Rate, now func() time.Time, sleep func(context.Context, time.Duration) error) *limiter {
	n, w := r.window()
	l := &limiter{now: now, sleep: sleep, n: n, w: w}
	l.use(n)
	return l
}

// rate is the present rate in jobs per second.
func (l *limiter) rate() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.n) / l.w.Seconds()
}

// take waits until k places (at most burst) are free and holds them. Whoever
// took them calls done once. While a slow rate makes it wait, it asks now and
// then whether to go on.
func (l *limiter) take(ctx context.Context, k int, ask func(context.Context) error) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		got, wait := l.try(k)
		if got > 0 {
			return got, nil
		}
		if err := l.sleep(ctx, min(wait, wishEvery)); err != nil {
			return 0, err
		}
		if wait > wishEvery {
			if err := ask(ctx); err != nil {
				return 0, err
			}
		}
	}
}

func (l *limiter) try(k int) (int, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k = min(k, l.n)
	now := l.now()
	l.forget(now)
	missing := l.inFlight + l.used + k - l.n
	if missing <= 0 {
		l.inFlight += k
		return k, 0
	}
	for _, p := range l.spent {
		if missing -= p.places; missing <= 0 {
			return 0, p.until.Sub(now) + time.Nanosecond
		}
	}
	return 0, l.w
}

// forget frees the places whose window is over. The window is closed: a place
// used exactly one window ago still counts.
func (l *limiter) forget(now time.Time) {
	for len(l.spent) > 0 && l.spent[0].until.Before(now) {
		l.used -= l.spent[0].places
		l.spent = l.spent[1:]
	}
}

// done gives k places back: the used ones after a window from now, the others
// at once.
func (l *limiter) done(k, used int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight -= k
	l.use(used)
}

func (l *limiter) use(k int) {
	if k == 0 {
		return
	}
	l.used += k
	l.spent = append(l.spent, spent{l.now().Add(l.w), k})
}

// drain uses up what is free, as at a start.
func (l *limiter) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use(l.n)
}

// slow halves the rate, because a broker asked for it.
func (l *limiter) slow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n > 1 {
		l.n /= 2
		return
	}
	l.w *= 2
}
