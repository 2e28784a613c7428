package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// lookLease is how long a look hides what it has seen.
const lookLease = 10 * time.Minute

// Browse shows what the inner broker shows, or, where looking counts, receives
// all that comes and releases it at the end.
func (r *rough) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	if !r.o.LookCounts {
		return r.inner.Browse(ctx, limit, func(m broker.Message) error { return each(r.renamed(m)) })
	}
	k := &look{r: r, limit: limit, each: each, seen: map[broker.CopyID]bool{}}
	why, err := k.run(ctx)
	if rerr := k.release(ctx); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if err != nil && why == "" {
		why = "the look was stopped"
	}
	return broker.Completeness{Complete: why == "", Why: why}, err
}

// look is one Browse that receives. It keeps the receipts of what it holds, not
// the bodies.
type look struct {
	r     *rough
	limit int
	each  func(broker.Message) error
	seen  map[broker.CopyID]bool
	held  []broker.Delivery
}

// run receives until several empty receives in a row, and says why what it saw
// is not all.
func (k *look) run(ctx context.Context) (why string, err error) {
	for empty := 0; empty < enoughEmpty; {
		ds, err := k.r.receive(ctx, broker.Request{Max: k.room(), Lease: lookLease}, false)
		if err != nil {
			return "the queue could not be read to its end", err
		}
		fresh := k.hold(ds)
		if empty++; len(fresh) > 0 {
			empty = 0
		}
		for _, m := range fresh {
			if err := k.each(m); err != nil {
				return "the look was stopped", err
			}
		}
		if k.limit > 0 && len(k.held) == k.limit {
			return k.atLimit(ctx)
		}
	}
	return k.missed(ctx)
}

// room is how many more copies the look may hold in one receive.
func (k *look) room() int {
	n := k.r.Capabilities().MaxBatch
	if k.limit > 0 {
		n = min(n, k.limit-len(k.held))
	}
	return n
}

// hold keeps what was not seen before.
func (k *look) hold(ds []broker.Delivery) []broker.Message {
	var fresh []broker.Message
	for _, d := range ds {
		if k.seen[d.Copy] {
			continue
		}
		k.seen[d.Copy] = true
		fresh = append(fresh, d.Message)
		d.Body, d.Raw, d.Attributes, d.System = nil, nil, nil, nil
		k.held = append(k.held, d)
	}
	return fresh
}

// atLimit says whether the limit cut anything off.
func (k *look) atLimit(ctx context.Context) (string, error) {
	d, err := k.r.inner.Describe(ctx)
	if err != nil {
		return "the queue could not be counted", err
	}
	if d.Depth.Total() > int64(k.limit) {
		return fmt.Sprintf("stopped at the limit of %d", k.limit), nil
	}
	return "", nil
}

// missed holds what was seen against the count.
func (k *look) missed(ctx context.Context) (string, error) {
	d, err := k.r.inner.Describe(ctx)
	if err != nil {
		return "the queue could not be counted", err
	}
	if n := d.Depth.Total() - int64(len(k.held)); n > 0 {
		return fmt.Sprintf("%d copies are leased by others, delayed or behind their group", n), nil
	}
	return "", nil
}

// release gives back all that the look holds, also after ctx ended.
func (k *look) release(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for part := range slices.Chunk(k.held, k.r.Capabilities().MaxBatch) {
		for i, result := range k.r.inner.Release(ctx, part) {
			if result.Outcome != broker.Done && !errors.Is(result.Err, broker.ErrLeaseLost) {
				return fmt.Errorf("release copy %s: %w", part[i].Copy, result.Err)
			}
		}
	}
	return nil
}
