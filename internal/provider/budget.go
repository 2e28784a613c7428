package provider

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ThrottledError says that the provider asked for a pause. A look-up that meets
// it fails; it is never repeated behind the caller's back.
type ThrottledError struct {
	Until time.Time // by our clock; zero: it did not say
}

func (e *ThrottledError) Error() string {
	if e.Until.IsZero() {
		return "provider asks to slow down"
	}
	return fmt.Sprintf("provider asks to slow down until %s", e.Until.UTC().Format(time.RFC3339))
}

// Budget spaces requests evenly. Now and Sleep must be set; Interval 0 means no
// limit. It may be used from several goroutines.
type Budget struct {
	Interval time.Duration
	Now      func() time.Time
	// Sleep waits for d or until ctx ends, whichever is first.
	Sleep func(ctx context.Context, d time.Duration) error

	mu     sync.Mutex
	next   time.Time
	closed time.Time // no request before: the provider asked for a pause
}

// Wait takes the next slot and waits for it. During a pause that the provider
// asked for it fails at once with a *ThrottledError.
func (b *Budget) Wait(ctx context.Context) error {
	wait, err := b.reserve()
	if err != nil {
		return err
	}
	if wait <= 0 {
		return ctx.Err()
	}
	return b.Sleep(ctx, wait)
}

func (b *Budget) reserve() (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	if now.Before(b.closed) {
		return 0, &ThrottledError{Until: b.closed}
	}
	slot := now
	if b.next.After(now) {
		slot = b.next
	}
	b.next = slot.Add(b.Interval)
	return slot.Sub(now), nil
}

// Pause closes the budget until t.
func (b *Budget) Pause(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.After(b.closed) {
		b.closed = t
	}
}

// Sleep is the Sleep of a Budget by the real clock.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
