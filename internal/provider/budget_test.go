package provider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var slept []time.Duration
	b := &provider.Budget{
		Interval: time.Second, Now: func() time.Time { return now },
		Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil },
	}
	for range 3 { // the clock stands still: the second and third wait for their slots
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(slept) != 2 || slept[0] != time.Second || slept[1] != 2*time.Second {
		t.Errorf("slept %v", slept)
	}
	b.Pause(now.Add(time.Minute))
	b.Pause(now.Add(time.Second)) // a shorter pause does not end a longer one
	var throttled *provider.ThrottledError
	if err := b.Wait(t.Context()); !errors.As(err, &throttled) || !throttled.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("during a pause: %v", err)
	}
	now = now.Add(time.Minute)
	if err := b.Wait(t.Context()); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

func TestOffsetFromDate(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 3, 2, 12, 0, 0, 400e6, time.UTC)
	received := sent.Add(200 * time.Millisecond)
	for _, tt := range []struct {
		date time.Time
		want time.Duration
	}{
		{time.Time{}, 0},
		{sent.Truncate(time.Second), 0},
		{sent.Truncate(time.Second).Add(10 * time.Second), 9400 * time.Millisecond},
		{sent.Truncate(time.Second).Add(-10 * time.Second), -9400 * time.Millisecond},
	} {
		if got := provider.OffsetFromDate(tt.date, sent, received); got != tt.want {
			t.Errorf("OffsetFromDate(%s) = %s, want %s", tt.date, got, tt.want)
		}
	}
}
