package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// keeper holds the run's lease on the dead-letter queue. Its check stands
// before every step: a process that was suspended past its lease finds out
// there, before it does anything more.
type keeper struct {
	runs Runs
	now  func() time.Time
	ttl  time.Duration

	mu    sync.Mutex
	lease Lease
	lost  error
}

// check returns nil while the lease is this process's for at least a quarter of
// its life. A lease that cannot be renewed is treated as lost.
func (k *keeper) check(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost != nil {
		return k.lost
	}
	if k.lease.Expires.Sub(k.now()) > k.ttl/4 {
		return nil
	}
	return k.renew(ctx)
}

// renew extends the lease, or finds it lost: to another, or to the clock, since
// others may have judged this run dead after that.
func (k *keeper) renew(ctx context.Context) error {
	if !k.now().Before(k.lease.Expires) {
		k.lost = fmt.Errorf("lease of run %s on %s ended at %s: %w", k.lease.Run, k.lease.Queue, stamp(k.lease.Expires), audit.ErrFenced)
		return k.lost
	}
	l, err := k.runs.Heartbeat(ctx, k.lease, k.now(), k.ttl)
	switch {
	case errors.Is(err, audit.ErrFenced):
		k.lost = fmt.Errorf("lease of run %s on %s: %w", k.lease.Run, k.lease.Queue, err)
		return k.lost
	case err != nil:
		return fmt.Errorf("renew the lease of run %s: %w", k.lease.Run, err)
	}
	k.lease = l
	return nil
}

// beat renews the lease at every tick until ctx ends. A failed renewal is not
// reported here: the next check meets it before anything is done.
func (k *keeper) beat(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			k.mu.Lock()
			if k.lost == nil {
				_ = k.renew(ctx) // the next check repeats it and reports
			}
			k.mu.Unlock()
		}
	}
}

// current is the lease as last renewed.
func (k *keeper) current() Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lease
}
