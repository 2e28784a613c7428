package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/redrivectl/redrivectl/internal/broker"
)

const (
	// lookLease is how long a look holds a copy before it renews: long enough to
	// renew rarely, short enough that a look that was killed hides nothing for
	// long.
	lookLease = 2 * time.Minute
	// receivers look at once. A FIFO queue gives a group to one receive at a time,
	// and more receivers would only cut its messages apart.
	receivers     = 8
	receiversFIFO = 1
	// proof is how many receives in a row must be empty, while the service counts
	// no visible copy, before the queue is believed to be; stubborn is how many
	// when it still counts some.
	proof    = 3
	stubborn = 12
	// releaseTime bounds the giving back after a look, and releaseEach is what every
	// copy of a long one adds to it.
	releaseTime = 30 * time.Second
	releaseEach = time.Millisecond
)

// Browse implements broker.Broker. SQS has no peek: the look receives with a
// lease, renews it while it lasts, and gives everything back at the end, also
// when it is stopped. Every copy it sees has been received once more.
func (q *Queue) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	if err := ctx.Err(); err != nil {
		return broker.Completeness{Why: "stopped"}, err
	}
	l := &look{queue: q, limit: limit, each: each, ctx: ctx, seen: map[string]lent{}, groups: map[string]int{}}
	err := l.receiveAll()
	why := l.incomplete(context.WithoutCancel(ctx), err)
	if n := l.giveBack(context.WithoutCancel(ctx)); n > 0 && why == "" {
		why = fmt.Sprintf("%d copies could not be given back and stay hidden for up to %s", n, lookLease)
	}
	return broker.Completeness{Complete: why == "", Why: why}, err
}

// look is one Browse at work.
type look struct {
	queue *Queue
	limit int
	each  func(broker.Message) error
	ctx   context.Context //nolint:containedctx // One look's own.

	mu     sync.Mutex
	seen   map[string]lent // by message ID
	held   int             // how many of them are
	groups map[string]int  // copies seen of each group of a FIFO queue
	renews time.Time       // when the first lease has to be renewed
	wanted int             // reserved by receives under way
	empty  int             // receives in a row that brought nothing
	stop   string          // why it ends before the queue is empty
}

// lent is all that is kept of a copy: a look can hold a hundred thousand.
type lent struct {
	receipt string // empty: it is not held any more
	until   int64  // the lease, in nanoseconds since 1970
}

// delivery is the copy as far as renewing and giving back need it.
func (l *look) delivery(id string) broker.Delivery {
	c := l.seen[id]
	m := broker.Message{Copy: broker.CopyID{Entity: l.queue.facts.arn, ID: id}, MessageID: id}
	return broker.Delivery{Message: m, Receipt: c.receipt, LeaseUntil: time.Unix(0, c.until)}
}

func (l *look) deliveries(ids []string) []broker.Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	ds := make([]broker.Delivery, len(ids))
	for i, id := range ids {
		ds[i] = l.delivery(id)
	}
	return ds
}

func (l *look) receiveAll() error {
	n := receivers
	if l.queue.facts.fifo {
		n = receiversFIFO
	}
	g, ctx := errgroup.WithContext(l.ctx)
	for range n {
		g.Go(func() error { return l.receiver(ctx) })
	}
	err := g.Wait()
	if l.ctx.Err() != nil && err == nil {
		err = l.ctx.Err()
	}
	return err
}

// receiver receives until the queue is believed empty or the look ends. A
// receive under way is never cut off: what it leased would stay hidden.
func (l *look) receiver(ctx context.Context) error {
	for ctx.Err() == nil {
		n := l.reserve()
		if n == 0 {
			return nil
		}
		if err := l.renew(ctx); err != nil {
			return err
		}
		ds, err := l.queue.Receive(context.WithoutCancel(ctx), broker.Request{Max: n, Lease: lookLease})
		if err := l.took(n, ds, err); err != nil {
			return err
		}
		done, err := l.ended(ctx, len(ds))
		if done || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// reserve is how many copies the next receive may ask for; 0 ends the receiver.
func (l *look) reserve() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != "" {
		return 0
	}
	n := maxEntries
	if l.limit > 0 {
		n = min(n, l.limit-len(l.seen)-l.wanted)
	}
	if l.held+l.wanted+n > maxInFlight {
		l.stop = fmt.Sprintf("SQS lends at most %d copies at once", maxInFlight)
		return 0
	}
	l.wanted += n
	return n
}

// took hands on what a receive brought. A copy that comes again, because its
// lease ended, is held under its new receipt and not shown again.
func (l *look) took(n int, ds []broker.Delivery, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted -= n
	if codeOf(err) == "OverLimit" {
		l.stop = "SQS lends no more copies: too many are in flight"
		return nil
	}
	if err != nil {
		return err
	}
	for i, d := range ds {
		if err := l.show(d); err != nil {
			for _, rest := range ds[i:] {
				l.hold(rest)
			}
			return err
		}
	}
	return nil
}

func (l *look) show(d broker.Delivery) error {
	if again := l.hold(d); again {
		return nil
	}
	if err := l.ctx.Err(); err != nil {
		return err
	}
	if l.queue.facts.fifo {
		l.groups[d.OrderKey]++
	}
	if most := l.queue.facts.maxReceives; most > 0 && d.Receives >= most-1 {
		l.stop = fmt.Sprintf("the queue itself dead-letters after %d receives, and this look has brought a copy to %d", most, d.Receives)
	}
	return l.each(d.Message)
}

// hold keeps the lease, and reports whether the copy was seen before. The caller
// holds the lock.
func (l *look) hold(d broker.Delivery) (again bool) {
	was, again := l.seen[d.MessageID]
	if was.receipt == "" {
		l.held++
	}
	l.seen[d.MessageID] = lent{d.Receipt, d.LeaseUntil.UnixNano()}
	l.renewBy(d.LeaseUntil)
	return again
}

// renewBy notes when a lease has to be renewed. The caller holds the lock.
func (l *look) renewBy(until time.Time) {
	if at := until.Add(-lookLease / 2); l.renews.IsZero() || at.Before(l.renews) {
		l.renews = at
	}
}

// ended reports that there is nothing more to receive: several receives in a row
// were empty, and the service counts no visible copy, or goes on counting some
// that it does not give.
func (l *look) ended(ctx context.Context, got int) (bool, error) {
	l.mu.Lock()
	l.empty++
	if got > 0 {
		l.empty = 0
	}
	empty := l.empty
	l.mu.Unlock()
	switch {
	case empty < proof:
		return false, nil
	case empty >= stubborn:
		return true, nil
	}
	d, err := l.queue.depth(ctx)
	return err == nil && d.Visible == 0, err
}

// incomplete says why the look did not see the whole queue, or is empty.
func (l *look) incomplete(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return "stopped"
	case err != nil:
		return "the look failed"
	case l.stop != "":
		return l.stop
	}
	d, err := l.queue.depth(ctx)
	if err != nil {
		return "what is left could not be counted"
	}
	elsewhere := d.InFlight - int64(l.held)
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{d.Visible, "visible copies did not come"}, {elsewhere, "copies are in flight with other receivers"}, {d.Delayed, "copies are delayed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if l.limit > 0 && len(l.seen) >= l.limit && len(parts) > 0 {
		return "limit"
	}
	if d.Visible > 0 && l.queue.facts.fifo {
		parts = append(parts, l.depthOfGroups())
	}
	return strings.Join(parts, "; ")
}

// depthOfGroups says how deep the look saw into the groups of a FIFO queue: of
// each no further than one receive reaches.
func (l *look) depthOfGroups() string {
	const shown = 5
	var names []string
	for name := range l.groups {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return 2*(l.groups[b]-l.groups[a]) + strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names[:min(shown, len(names))] {
		parts = append(parts, fmt.Sprintf("%q %d", name, l.groups[name]))
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		more = fmt.Sprintf(" and %d groups more", n)
	}
	return fmt.Sprintf("of a FIFO group only the first %d can be seen: %s%s", browsePerGroup, strings.Join(parts, ", "), more)
}

// renew extends the leases that end soon. One that cannot be extended is
// forgotten: its copy will come again.
func (l *look) renew(ctx context.Context) error {
	for part := range slices.Chunk(l.due(), maxEntries) {
		rs := l.queue.Extend(context.WithoutCancel(ctx), l.deliveries(part), lookLease)
		l.mu.Lock()
		for i, id := range part {
			if rs[i].Outcome == broker.Refused && l.seen[id].receipt != "" {
				l.seen[id] = lent{}
				l.held--
			}
		}
		l.mu.Unlock()
	}
	return ctx.Err()
}

// due are the copies whose leases end soon. Between two renewals nothing is
// searched for them.
func (l *look) due() (ids []string) {
	now := l.queue.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.renews) {
		return nil
	}
	l.renews = time.Time{}
	renewed := now.Add(lookLease)
	for id, c := range l.seen {
		if c.receipt == "" {
			continue
		}
		if c.until-now.UnixNano() <= int64(lookLease/2) {
			ids = append(ids, id)
			c.until = renewed.UnixNano() // so that no other receiver renews it too
			l.seen[id] = c
		}
		l.renewBy(time.Unix(0, c.until))
	}
	return ids
}

// giveBack releases what the look holds, many batches at once, and returns how
// many copies stay hidden. Releasing twice is harmless, so what failed is tried
// once more.
func (l *look) giveBack(ctx context.Context) int {
	left := make([]string, 0, l.held)
	for id, c := range l.seen {
		if c.receipt != "" {
			left = append(left, id)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime+time.Duration(len(left))*releaseEach)
	defer cancel()
	for range 2 {
		left = l.release(ctx, left)
	}
	return len(left)
}

// release returns the copies that could not be given back. One whose lease is over
// hides nothing.
func (l *look) release(ctx context.Context, ids []string) (left []string) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(2 * receivers)
	for part := range slices.Chunk(ids, maxEntries) {
		g.Go(func() error {
			for i, r := range l.queue.Release(ctx, l.deliveries(part)) {
				if r.Outcome != broker.Done && !errors.Is(r.Err, broker.ErrLeaseLost) {
					mu.Lock()
					left = append(left, part[i])
					mu.Unlock()
				}
			}
			return nil
		})
	}
	_ = g.Wait() // no release returns an error
	return left
}
