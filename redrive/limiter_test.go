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
// many are under way, how long they take, where the process died and began anew,
// where it paused and who asked it to slow down, no one-second window (or, below
// one per second, no window of one start) holds more than the rate, counted by when
// the calls began. A start may be applied at any moment of its call: counted so, no
// window that is a fiftieth shorter does.
func TestLimiterEveryWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := Rate(rapid.SampledFrom([]float64{0.1, 0.5, 1, 1.5, 2.5, 7, 50}).Draw(t, "rate"))
		p := &paced{now: time.Unix(0, 0)}
		var last float64
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			p.limiter = newLimiter(rate, last, p.clock, p.sleep)
			p.underWay = nil // what died with its process may have been applied
			for range rapid.IntRange(0, 20).Draw(t, "steps") {
				p.step(t)
			}
			p.die(t)
			last = p.limiter.rate()
		}
		limit, window := int(math.Floor(float64(rate))), time.Second
		if rate < 1 {
			limit, window = 1, time.Duration(float64(time.Second)/float64(rate))
		}
		for _, c := range []struct {
			what   string
			at     []time.Time
			window time.Duration
		}{{"begun", p.begun, window}, {"applied", p.applied, window - window/tolerance}} {
			slices.SortFunc(c.at, time.Time.Compare)
			for i := range c.at {
				if j := i + limit; j < len(c.at) && c.at[j].Sub(c.at[i]) <= c.window {
					t.Fatalf("%d %s within %s at rate %s", limit+1, c.what, c.at[j].Sub(c.at[i]), rate)
				}
			}
		}
	})
}

// paced is a run as its limiter sees it, on a clock of its own.
type paced struct {
	limiter  *limiter
	now      time.Time
	underWay []begun
	begun    []time.Time
	applied  []time.Time
}

type begun struct {
	at     time.Time
	places int
}

func (p *paced) clock() time.Time { return p.now }

func (p *paced) sleep(_ context.Context, d time.Duration) error {
	p.now = p.now.Add(d)
	return nil
}

// spans are about the edges of the window, where an error of one would show.
var spans = []time.Duration{
	0, 1, time.Microsecond, time.Millisecond, 333 * time.Millisecond, time.Second - time.Millisecond,
	time.Second - time.Microsecond, time.Second - 1, time.Second, time.Second + 1, 3 * time.Second,
}

func (p *paced) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{"begin", "begin", "begin", "end", "end", "wait", "pause", "slow"}).Draw(t, "step") {
	case "begin":
		want := rapid.IntRange(1, 20).Draw(t, "size")
		if k, _ := p.limiter.try(want); k > 0 {
			p.underWay = append(p.underWay, begun{p.now, k})
		} else if len(p.underWay) == 0 { // else it would wait for what the test has to end
			k, err := p.limiter.take(context.Background(), want, goOn)
			if err != nil {
				t.Fatal(err)
			}
			p.underWay = append(p.underWay, begun{p.now, k})
		}
	case "end":
		p.end(t)
	case "wait":
		p.now = p.now.Add(rapid.SampledFrom(spans).Draw(t, "wait"))
	case "pause":
		for len(p.underWay) > 0 {
			p.end(t)
		}
		p.now = p.now.Add(rapid.SampledFrom(spans).Draw(t, "pause"))
		p.limiter.drain()
	case "slow":
		p.limiter.slow()
	}
}

// end ends one of the batches under way, any of them first.
func (p *paced) end(t *rapid.T) {
	if len(p.underWay) == 0 {
		return
	}
	i := rapid.IntRange(0, len(p.underWay)-1).Draw(t, "which")
	b := p.underWay[i]
	p.underWay = slices.Delete(p.underWay, i, i+1)
	used := p.apply(t, b)
	if p.limiter.done(b.places, used, b.at); used > 0 {
		p.limiter.raise()
	}
}

// apply has some of a batch's starts, all at the moment of its call that is drawn.
func (p *paced) apply(t *rapid.T, b begun) int {
	used := rapid.IntRange(0, b.places).Draw(t, "used")
	at := b.at.Add(time.Duration(rapid.Int64Range(0, int64(p.now.Sub(b.at))).Draw(t, "at")))
	for range used {
		p.begun, p.applied = append(p.begun, b.at), append(p.applied, at)
	}
	return used
}

// die is the end of a process, whose batches may have been applied.
func (p *paced) die(t *rapid.T) {
	for _, b := range p.underWay {
		p.apply(t, b)
	}
}

// TestLimiterFollows: each time that somebody asks, the rate halves, once in a
// window however many batches heard it, down to a floor; work that comes through
// raises it by steps up to the plan's rate, and never above.
func TestLimiterFollows(t *testing.T) {
	t.Parallel()
	p := &paced{now: time.Unix(0, 0)}
	l := newLimiter(64, 0, p.clock, p.sleep)
	for _, want := range []float64{32, 16, 8, 4, 2, 1} {
		if !l.slow() || l.slow() || l.rate() != want {
			t.Fatalf("rate %v, want %v", l.rate(), want)
		}
		p.now = p.now.Add(2 * time.Second)
	}
	if l.slow() || l.rate() != 1 {
		t.Fatalf("rate %v is below the floor", l.rate())
	}
	work := func() float64 {
		k, err := l.take(t.Context(), 64, goOn)
		if err != nil {
			t.Fatal(err)
		}
		l.done(k, k, p.now)
		l.raise()
		return l.rate()
	}
	before, began := l.rate(), p.now
	for l.rate() < 64 {
		if r := work(); r > 64 || r < before || r-before > 64.0/raiseParts+1 {
			t.Fatalf("from %v to %v", before, r)
		}
		before = l.rate()
	}
	if took := p.now.Sub(began); took < 18*time.Second || took > 40*time.Second {
		t.Errorf("recovered within %s", took)
	}
	for range 100 {
		if r := work(); r != 64 {
			t.Fatalf("rate %v", r)
		}
	}
}

// TestLimiterLowered: the rate in force holds in every window as the plan's does.
func TestLimiterLowered(t *testing.T) {
	t.Parallel()
	p := &paced{now: time.Unix(0, 0)}
	l := newLimiter(50, 5, p.clock, p.sleep)
	var starts []time.Time
	for range 4 {
		k, err := l.take(t.Context(), 50, goOn)
		if err != nil || k != 5 {
			t.Fatal(k, err)
		}
		for range k {
			starts = append(starts, p.now)
		}
		l.moved = p.now // it is not raised
		l.done(k, k, p.now)
	}
	for i := 5; i < len(starts); i++ {
		if d := starts[i].Sub(starts[i-5]); d <= time.Second {
			t.Errorf("six within %s", d)
		}
	}
}

func goOn(context.Context) error { return nil }

// TestLimiterUsesTheRate: the bound is not bought with half the speed.
func TestLimiterUsesTheRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(50, 0, func() time.Time { return now }, func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil })
	for range 100 {
		k, err := l.take(t.Context(), 10, goOn)
		if err != nil || k != 10 {
			t.Fatal(k, err)
		}
		began := now
		now = now.Add(20 * time.Millisecond)
		l.done(k, k, began)
	}
	if took := now.Sub(time.Unix(0, 0)); took > 24*time.Second {
		t.Errorf("1000 at 50/s took %s", took)
	}
}

// TestLimiterCalls: what every call takes costs none of the rate once that is known,
// up to a fiftieth of a window; what one takes longer costs all of it.
func TestLimiterCalls(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		took []time.Duration
		last time.Duration // after which the last one's place is free, from its begin
	}{
		{[]time.Duration{20 * ms}, 1020 * ms}, // the first
		{[]time.Duration{20 * ms, 20 * ms}, 1002 * ms},
		{[]time.Duration{20 * ms, 20 * ms, 50 * ms}, 1032 * ms},
		{[]time.Duration{20 * ms, 50 * ms, 5 * ms}, 1002 * ms},
		{[]time.Duration{20 * ms, ms, 20 * ms}, 1020 * ms},
		{[]time.Duration{0, 0}, 1000 * ms},
		{[]time.Duration{time.Minute, time.Minute}, time.Minute + 980*ms},
	} {
		p := &paced{now: time.Unix(0, 0)}
		l := newLimiter(1, 0, p.clock, p.sleep)
		var began time.Time
		for _, took := range tt.took {
			if _, err := l.take(t.Context(), 1, goOn); err != nil {
				t.Fatal(err)
			}
			began = p.now
			p.now = began.Add(took)
			l.done(1, 1, began)
		}
		if _, err := l.take(t.Context(), 1, goOn); err != nil {
			t.Fatal(err)
		}
		if got := p.now.Sub(began); got != tt.last+1 {
			t.Errorf("calls of %s: the last place is free after %s, want %s", tt.took, got, tt.last)
		}
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
	l := newLimiter(2, 0, func() time.Time { return now }, nil)
	now = now.Add(2 * time.Second)
	if k, _ := l.try(1); k != 1 {
		t.Fatal("no place")
	}
	used := now
	l.done(1, 1, used)
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

// TestTurn: batches are received half a second before their places are free and no
// earlier, one behind the other, and begin when they are.
func TestTurn(t *testing.T) {
	t.Parallel()
	p := &paced{now: time.Unix(0, 0)}
	l := newLimiter(10, 0, p.clock, p.sleep)
	var got []time.Duration
	at := func() { got = append(got, p.now.Sub(time.Unix(0, 0)).Round(time.Millisecond)) }
	next := func() *turn {
		t.Helper()
		turn, err := l.turn(t.Context(), 10, goOn)
		if err != nil || turn.ahead != 10 {
			t.Fatal(turn, err)
		}
		at()
		return turn
	}
	begin := func(turn *turn) {
		t.Helper()
		n, over, err := turn.begin(t.Context(), 20)
		if err != nil || n != 10 || turn.ahead != 0 {
			t.Fatal(n, turn, err)
		}
		at()
		over()
		over() // counts once
		turn.leave()
	}
	first := next()
	begin(first)
	second := next()
	second.leave() // it found nothing
	begin(next())
	want := []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond, 2 * time.Second}
	if !slices.Equal(got, want) || l.ahead != 0 || l.inFlight != 0 {
		t.Errorf("%v, want %v; %d ahead, %d in flight", got, want, l.ahead, l.inFlight)
	}
}
