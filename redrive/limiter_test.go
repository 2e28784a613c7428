package redrive

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLimiterEveryWindow is promise 6 as a property: whatever the batches, how
// long they take, where the process was restarted and where it paused, no one-second window (or,
// below one per second, no window of one start) holds more than the rate. A
// start may be applied at any moment of its call, so the worst is taken.
func TestLimiterEveryWindow(t *testing.T) {
	t.Parallel()
	// Spans about the edges of the window, where an error of one would show.
	lasts := []time.Duration{
		0, 1, time.Microsecond, time.Millisecond, 333 * time.Millisecond, time.Second - time.Millisecond,
		time.Second - time.Microsecond, time.Second - 1, time.Second, time.Second + 1, 3 * time.Second,
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate(rapid.SampledFrom([]float64{0.1, 0.5, 1, 1.5, 2.5, 7, 50}).Draw(t, "rate"))
		now := time.Unix(0, 0)
		clock := func() time.Time { return now }
		sleep := func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }
		var starts []time.Time
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			l := newLimiter(rate, clock, sleep)
			for range rapid.IntRange(0, 12).Draw(t, "batches") {
				if rapid.IntRange(0, 5).Draw(t, "paused") == 0 {
					now = now.Add(rapid.SampledFrom(lasts).Draw(t, "pause"))
					l.drain()
				}
				k, err := l.take(t.Context(), rapid.IntRange(1, 20).Draw(t, "size"), goOn)
				if err != nil {
					t.Fatal(err)
				}
				begin := now
				now = now.Add(rapid.SampledFrom(lasts).Draw(t, "lasts"))
				used := rapid.IntRange(0, k).Draw(t, "used")
				applied := begin.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(begin))).Draw(t, "at")))
				for range used {
					starts = append(starts, applied)
				}
				l.done(k, used)
			}
		}
		slices.SortFunc(starts, time.Time.Compare)
		limit, window := int(math.Floor(float64(rate))), time.Second
		if rate < 1 {
			limit, window = 1, time.Duration(float64(time.Second)/float64(rate))
		}
		for i := range starts {
			if j := i + limit; j < len(starts) && starts[j].Sub(starts[i]) <= window {
				t.Fatalf("%d starts within %s at rate %s", limit+1, starts[j].Sub(starts[i]), rate)
			}
		}
	})
}

func goOn(context.Context) error { return nil }

// TestLimiterUsesTheRate: the bound is not bought with half the speed.
func TestLimiterUsesTheRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(50, func() time.Time { return now }, func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil })
	for range 100 {
		k, err := l.take(t.Context(), 10, goOn)
		if err != nil || k != 10 {
			t.Fatal(k, err)
		}
		now = now.Add(20 * time.Millisecond)
		l.done(k, k)
	}
	if took := now.Sub(time.Unix(0, 0)); took > 24*time.Second {
		t.Errorf("1000 at 50/s took %s", took)
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"50/s": "50", "50": "50", "0.5/s": "0.5", "30/m": "0.5", " 2.5/s ": "2.5", "3600/h": "1"} {
		r, err := ParseRate(in)
		if err != nil || r.String() != want {
			t.Errorf("%q: %s %v, want %s", in, r, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "NaN", "Inf", "1e9", "5/d", "x/s", "0/s", "1/s/s"} {
		if r, err := ParseRate(in); err == nil {
			t.Errorf("%q is %s", in, r)
		}
	}
}

// TestLimiterEdge: the window is closed. A place is free again after a whole
// second, not at its end.
func TestLimiterEdge(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(2, func() time.Time { return now }, nil)
	now = now.Add(2 * time.Second)
	if k, _ := l.try(1); k != 1 {
		t.Fatal("no place")
	}
	used := now
	l.done(1, 1)
	if k, _ := l.try(1); k != 1 {
		t.Fatal("no second place")
	}
	for _, d := range []time.Duration{0, time.Second - time.Millisecond, time.Second - 1, time.Second} {
		now = used.Add(d)
		if k, wait := l.try(1); k != 0 || wait != time.Second-d+1 {
			t.Errorf("after %s: %d places, wait %s", d, k, wait)
		}
	}
	now = used.Add(time.Second + 1)
	if k, _ := l.try(1); k != 1 {
		t.Error("no place after the window")
	}
}
