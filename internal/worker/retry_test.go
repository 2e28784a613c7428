package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redrivectl/redrivectl/internal/classify"
)

func TestDelayWithoutJitter(t *testing.T) {
	t.Parallel()
	r := classify.RetryPolicy{Base: time.Second, Cap: 10 * time.Second}
	var got []time.Duration
	for n := 1; n <= 6; n++ {
		got = append(got, Delay(r, n, nil)/time.Second)
	}
	if d := cmp.Diff([]time.Duration{1, 2, 4, 8, 10, 10}, got); d != "" {
		t.Error(d)
	}
}

func TestDelayStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := classify.RetryPolicy{
			Base: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base")),
			Cap:  time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "cap")),
		}
		n, seed := rapid.IntRange(1, 1000).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		most := Delay(r, n, nil)
		r.FullJitter = true
		got := Delay(r, n, rand.New(rand.NewPCG(seed, 0)))
		if got < 0 || got > most || r.Cap > 0 && most > r.Cap {
			t.Fatalf("delay %s of at most %s, cap %s", got, most, r.Cap)
		}
		if again := Delay(r, n, rand.New(rand.NewPCG(seed, 0))); again != got {
			t.Fatalf("the same source gave %s and %s", got, again)
		}
	})
}
