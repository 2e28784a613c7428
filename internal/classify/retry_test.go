package classify_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redrivectl/redrivectl/internal/classify"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	s := time.Second
	r := classify.RetryPolicy{Base: 2 * s, Cap: 5 * s, Budget: 4, FullJitter: true}
	want := []classify.Start{
		{Attempt: 1},
		{Attempt: 2, Delay: 2 * s, Expected: 1 * s, Latest: 12 * s},
		{Attempt: 3, Delay: 4 * s, Expected: 3 * s, Latest: 26 * s},
		{Attempt: 4, Delay: 5 * s, Expected: 5500 * time.Millisecond, Latest: 41 * s},
	}
	if d := cmp.Diff(want, r.Window(10*s)); d != "" {
		t.Error(d)
	}
	if got := r.LongestOfAll(10 * s); got != 51*s {
		t.Errorf("the whole takes %s", got)
	}
	r.FullJitter = false
	want = []classify.Start{
		{Attempt: 1},
		{Attempt: 2, Delay: 2 * s, Earliest: 2 * s, Expected: 2 * s, Latest: 2 * s},
		{Attempt: 3, Delay: 4 * s, Earliest: 6 * s, Expected: 6 * s, Latest: 6 * s},
		{Attempt: 4, Delay: 5 * s, Earliest: 11 * s, Expected: 11 * s, Latest: 11 * s},
	}
	if d := cmp.Diff(want, r.Window(0)); d != "" {
		t.Error(d)
	}
}

// TestWindowIsOrdered: whatever a policy file can say, times are never negative,
// never fall, and the three keep their order.
func TestWindowIsOrdered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(1, math.MaxInt64).Draw(t, "base")
		r := classify.RetryPolicy{
			Base: time.Duration(base), Cap: time.Duration(rapid.Int64Range(base, math.MaxInt64).Draw(t, "cap")),
			Budget: rapid.IntRange(1, 1000).Draw(t, "budget"), FullJitter: rapid.Bool().Draw(t, "jitter"),
		}
		attempt := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "attempt"))
		starts := r.Window(attempt)
		last := classify.Start{}
		for _, s := range starts {
			if s.Earliest < last.Earliest || s.Expected < last.Expected || s.Latest < last.Latest || s.Earliest > s.Expected || s.Expected > s.Latest {
				t.Fatalf("%+v after %+v", s, last)
			}
			last = s
		}
		if last.Attempt != r.Budget || r.LongestOfAll(attempt) < last.Latest {
			t.Fatalf("%+v is the last of %d", last, r.Budget)
		}
	})
}

// TestRetryFaultsHaveAPlace: what a retry section does not have is reported
// where the section stands.
func TestRetryFaultsHaveAPlace(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string]string{
		"retry: {base: 1s, cap: 2s}":                        "p.yaml:6:9: budget must be 1 to 1000 attempts, not 0",
		"retry:\n  budget: 3":                               "p.yaml:7:3: base must be longer than 0s",
		"retry: {base: 1s, cap: 2s, budget: 2000}":          "p.yaml:6:36: budget must be 1 to 1000 attempts, not 2000",
		"retry: {base: 1s, cap: 2s, budget: 2, jitter: on}": "p.yaml:6:39: unknown field \"jitter\"",
		"retry: {base: -1s, cap: 2s, budget: 2}":            "p.yaml:6:15: duration \"-1s\" is negative",
	} {
		_, err := classify.Load("p.yaml", fmt.Appendf(nil, "%s  - {name: a, class: timeout, when: malformed}\n%s\n", header, retry))
		if err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", retry, err, want)
		}
	}
}
