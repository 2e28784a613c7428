package redrive

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How the effective rate follows throttling: additive increase, multiplicative
// decrease, as TCP does (RFC 5681), because it finds a rate that others leave over
// without being told which one that is.
const (
	slowBy     = 2  // a decrease divides the rate by it
	slowest    = 64 // no decrease goes below this part of the plan's rate
	raiseParts = 20 // an increase adds this part of the plan's rate
	// raiseAfter is how long after a decrease nothing is raised, and two windows at
	// least: a provider's throttling is seen only once the worker has met it.
	raiseAfter = 5 * time.Second
)

// What every call takes costs none of the rate: the broker applies each as long
// after it began. That is the fastest call's time less a margin for how much faster
// one could still be; never more than a part of the window, so that even where the
// network is suddenly faster no window that is shorter by this part holds more than
// the rate.
const (
	margin    = 2 * time.Millisecond
	tolerance = 50
)

// limiter keeps a rate in any one-second window, not on average. A start holds
// its place for a window from just before its call, and, because a broker may
// apply a publish at any moment of the call, from when the call is known to be over,
// less what every call takes. A new limiter is full: the process before it may have
// used the last second.
//
// The rate in force moves between the plan's and a small part of it. No window of
// the plan's ever holds more than the plan's rate, since a place is kept for at
// least that long whatever is in force.
type limiter struct {
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
	asked float64 // jobs per second that the plan's own window holds
	most  int     // the plan's own window
	least time.Duration

	mu       sync.Mutex
	inForce  float64 // jobs per second
	n        int     // the window in force: at most n in w
	w        time.Duration
	lowered  time.Time // when the rate was last lowered
	moved    time.Time // or raised
	ahead    int       // asked for and not begun
	inFlight int
	first    time.Time     // when a call was over for the first time
	fastest  time.Duration // of all calls
	used     int           // the sum of spent
	spent    []spent
}

// spent are places that become free together. A limiter has them in the order of
// their times.
type spent struct {
	until  time.Time
	places int
}

// newLimiter keeps the rate r, beginning with inForce jobs per second where a run
// had come down to that before; 0: at r.
func newLimiter(r Rate, inForce float64, now func() time.Time, sleep func(context.Context, time.Duration) error) *limiter {
	n, w := r.window()
	l := &limiter{now: now, sleep: sleep, asked: float64(n) / w.Seconds(), most: n, least: w}
	if inForce <= 0 {
		inForce = l.asked
	}
	l.set(max(inForce, l.asked/slowest))
	l.use(n)
	return l
}

// set brings a rate into force. The caller holds the lock, or has the only hand.
func (l *limiter) set(perSecond float64) {
	if l.inForce = perSecond; perSecond >= l.asked {
		l.inForce, l.n, l.w = l.asked, l.most, l.least
		return
	}
	l.n, l.w = Rate(perSecond).window()
	l.n, l.w = min(l.n, l.most), max(l.w, l.least)
}

// rate is the rate in force, in jobs per second.
func (l *limiter) rate() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.n) / l.w.Seconds()
}

// lead is how long before its places are free a batch may be received and
// recorded, so that it is ready when they are.
const lead = 500 * time.Millisecond

// turn is a batch's part of the rate: what it asked for ahead, less what it has
// begun.
type turn struct {
	limiter *limiter
	ahead   int
	begun   bool
}

// turn waits until up to k places are free within the lead, behind whoever asked
// before. Whoever took the turn calls leave once. While a slow rate makes it wait,
// it asks now and then whether to go on.
func (l *limiter) turn(ctx context.Context, k int, ask func(context.Context) error) (*turn, error) {
	n, err := l.wait(ctx, ask, func() (int, time.Duration) { return l.tryAhead(k) })
	if err != nil {
		return nil, err
	}
	return &turn{limiter: l, ahead: n}, nil
}

// leave gives back what the turn did not begin.
func (t *turn) leave() {
	t.less(t.ahead)
	if t.begun {
		t.limiter.raise()
	}
}

func (t *turn) less(k int) {
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	k = min(k, t.ahead)
	t.ahead, t.limiter.ahead = t.ahead-k, t.limiter.ahead-k
}

// room is how many of k the rate in force still has places for within the lead. It is
// fewer than the turn asked for only where the rate was lowered since.
func (t *turn) room(k int) int {
	l := t.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	k = min(k, l.n)
	for k > 0 && l.freeIn(k, l.ahead-t.ahead) > lead {
		k--
	}
	return k
}

// begin takes up to k places, and returns how many. The first call of over says
// that their starts are over; all of them count.
func (t *turn) begin(ctx context.Context, k int) (n int, over func(), err error) {
	n, err = t.limiter.take(ctx, k, func(context.Context) error { return nil })
	if err != nil {
		return 0, nil, err
	}
	t.less(n)
	t.begun = true
	began := t.limiter.now()
	return n, sync.OnceFunc(func() { t.limiter.done(n, n, began) }), nil
}

// take waits until k places (at most burst) are free and holds them. Whoever
// took them calls done once.
func (l *limiter) take(ctx context.Context, k int, ask func(context.Context) error) (int, error) {
	return l.wait(ctx, ask, func() (int, time.Duration) { return l.try(k) })
}

func (l *limiter) wait(ctx context.Context, ask func(context.Context) error, try func() (int, time.Duration)) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		got, wait := try()
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
	if wait := l.freeIn(k, 0); wait > 0 {
		return 0, wait
	}
	l.inFlight += k
	return k, 0
}

func (l *limiter) tryAhead(k int) (int, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k = min(k, l.n)
	if wait := l.freeIn(k, l.ahead) - lead; wait > 0 {
		return 0, wait
	}
	l.ahead += k
	return k, 0
}

// freeIn is how long it takes until k places are free behind so many others. The
// caller holds the lock.
func (l *limiter) freeIn(k, behind int) time.Duration {
	now := l.now()
	l.forget(now)
	missing := behind + l.inFlight + l.used + k - l.n
	if missing <= 0 {
		return 0
	}
	for _, p := range l.spent {
		if missing -= p.places; missing <= 0 {
			return p.until.Sub(now) + time.Nanosecond
		}
	}
	return l.w // what is in flight is not free before that
}

// forget frees the places whose window is over. The window is closed: a place
// used exactly one window ago still counts.
func (l *limiter) forget(now time.Time) {
	for len(l.spent) > 0 && l.spent[0].until.Before(now) {
		l.used -= l.spent[0].places
		l.spent = l.spent[1:]
	}
}

// done gives k places back, of calls that began then and are over now: the used
// ones after their window, the others at once.
func (l *limiter) done(k, used int, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight -= k
	now := l.now()
	l.useAt(used, now.Add(-l.common(now, now.Sub(began))))
}

// common is what every call takes, after one more. In the first window nobody
// knows: its calls open the connections.
func (l *limiter) common(now time.Time, took time.Duration) time.Duration {
	if l.first.IsZero() {
		l.first, l.fastest = now, took
	}
	l.fastest = min(l.fastest, took)
	if now.Sub(l.first) <= l.w {
		return 0
	}
	return max(0, min(l.fastest-margin, l.w/tolerance))
}

// raise follows work that came through: a whole window after the last change it
// raises a rate that was lowered, unless that was just now.
func (l *limiter) raise() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.inForce < l.asked && now.Sub(l.moved) > l.w && now.Sub(l.lowered) > max(raiseAfter, 2*l.w) {
		l.set(l.inForce + l.asked/raiseParts)
		l.moved = l.now()
	}
}

func (l *limiter) use(k int) { l.useAt(k, l.now()) }

// useAt counts k places for a window from then.
func (l *limiter) useAt(k int, from time.Time) {
	if k == 0 {
		return
	}
	one := spent{from.Add(l.w), k}
	at := len(l.spent)
	for at > 0 && l.spent[at-1].until.After(one.until) {
		at--
	}
	l.used += k
	l.spent = slices.Insert(l.spent, at, one)
}

// drain uses up what is free, as at a start.
func (l *limiter) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use(l.most)
}

// lowest reports that the rate cannot be lowered any more.
func (l *limiter) lowest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inForce <= l.asked/slowest
}

// slow lowers the rate, because somebody asked for it, and reports whether it did.
// What is heard within a window of the last time is of the batches that were under
// way then, and says nothing of the rate since.
func (l *limiter) slow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, before := l.now(), l.inForce
	if !l.lowered.IsZero() && now.Sub(l.lowered) <= l.w {
		return false
	}
	l.set(max(l.inForce/slowBy, l.asked/slowest))
	l.lowered, l.moved = now, now
	return l.inForce < before
}
