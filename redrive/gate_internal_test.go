package redrive

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// ending is how one redrive can end.
type ending struct{ sent, returned, throttled, slow bool }

// endings are all of them: only what was sent can have been slow.
func endings() []ending {
	var es []ending
	for k := range 16 {
		e := ending{k&1 != 0, k&2 != 0, k&4 != 0, k&8 != 0}
		if !e.slow || e.sent {
			es = append(es, e)
		}
	}
	return es
}

// meets judges a canary all of whose redrives have ended, as the words of the
// thresholds say it: by shares, and by the 95th of 100 in rank.
func meets(f Figures, t Thresholds) bool {
	n := float64(f.Redrives)
	if t.MaxP95Seconds > 0 && f.Sent > 0 {
		took := make([]float64, f.Sent)
		for i := range f.Slow {
			took[i] = t.MaxP95Seconds + 1
		}
		slices.Sort(took)
		if took[int(math.Ceil(0.95*float64(f.Sent)))-1] > t.MaxP95Seconds {
			return false
		}
	}
	return float64(f.Sent)/n >= t.MinSuccess && float64(f.Returned)/n <= t.MaxReturned && float64(f.Throttled)/n <= t.MaxThrottled
}

// outcomesOf are whether the thresholds hold, over every way in which what is
// pending can end.
func outcomesOf(f Figures, t Thresholds) (some, all bool) {
	if f.Pending == 0 {
		ok := f.Throttled <= f.Redrives && f.Returned <= f.Redrives && meets(f, t)
		return ok, ok
	}
	some, all = false, true
	for _, e := range endings() {
		g := f
		g.Pending--
		for to, yes := range map[*int]bool{&g.Sent: e.sent, &g.Failed: !e.sent, &g.Returned: e.returned, &g.Throttled: e.throttled, &g.Slow: e.slow} {
			if yes {
				*to++
			}
		}
		if g.Returned > g.Redrives || g.Throttled > g.Redrives {
			continue // a pending one that had been throttled before
		}
		s, a := outcomesOf(g, t)
		some, all = some || s, all && a
	}
	return some, all
}

// TestJudge holds the gate, for every canary of up to four, against the plain
// reading: it fails if and only if the thresholds cannot be met any more, it passes
// if and only if they will be met whatever comes, once nothing more is waited for,
// and only else it is inconclusive.
func TestJudge(t *testing.T) {
	t.Parallel()
	thresholds := []Thresholds{
		{MinSuccess: 1},
		{MinSuccess: 0.75, MaxReturned: 0.25, MaxThrottled: 0.5},
		{MinSuccess: 0.5, MaxReturned: 1, MaxThrottled: 1, MaxP95Seconds: 1},
		{MaxReturned: 0.5, MaxThrottled: 0, MaxP95Seconds: 1},
		{MaxReturned: 1, MaxThrottled: 1},
	}
	tried := 0
	for n := 1; n <= 4; n++ {
		for sent := range n + 1 {
			for failed := range n - sent + 1 {
				for returned := range n + 1 {
					for throttled := range n + 1 {
						for slow := range sent + 1 {
							f := Figures{Canary: n, Redrives: n, Sent: sent, Failed: failed, Pending: n - sent - failed, Returned: returned, Throttled: throttled, Slow: slow}
							for _, th := range thresholds {
								tried += checkJudge(t, f, th)
							}
						}
					}
				}
			}
		}
	}
	t.Log(tried, "cases")
}

func checkJudge(t *testing.T, f Figures, th Thresholds) int {
	t.Helper()
	some, all := outcomesOf(f, th)
	for _, over := range []bool{false, true} {
		want := Verdict("")
		switch {
		case !some:
			want = VerdictFail
		case f.Pending > 0 && !over:
		case all:
			want = VerdictPass
		default:
			want = VerdictInconclusive
		}
		if got, why := judge(f, th, GateLedger, over); got != want || (why == "") != (got == "") {
			t.Errorf("%+v under %+v, over %t: %q (%s), want %q", f, th, over, got, why, want)
		}
	}
	return 2
}

// Many, so that shares meet their thresholds exactly.
func TestJudgeAtTheThreshold(t *testing.T) {
	t.Parallel()
	th := Thresholds{MinSuccess: 0.95, MaxReturned: 0.05, MaxThrottled: 0.1, MaxP95Seconds: 1}
	for _, tt := range []struct {
		name string
		f    Figures
		over bool
		want Verdict
	}{
		{"all well", Figures{Redrives: 20, Sent: 20}, false, VerdictPass},
		{"95 of 100", Figures{Redrives: 100, Sent: 95, Failed: 5, Returned: 5, Throttled: 10, Slow: 4}, false, VerdictPass},
		{"94 of 100", Figures{Redrives: 100, Sent: 94, Failed: 6}, false, VerdictFail},
		{"6 came back", Figures{Redrives: 100, Sent: 100, Returned: 6}, false, VerdictFail},
		{"11 throttled", Figures{Redrives: 100, Sent: 100, Throttled: 11}, false, VerdictFail},
		{"5 slow of 100", Figures{Redrives: 100, Sent: 100, Slow: 5}, false, VerdictPass},
		{"6 slow of 100", Figures{Redrives: 100, Sent: 100, Slow: 6}, false, VerdictFail},
		{"fails before all have ended", Figures{Redrives: 20, Failed: 2, Pending: 18}, false, VerdictFail},
		{"waits", Figures{Redrives: 20, Sent: 19, Pending: 1}, false, ""},
		{"one is open, and may be", Figures{Redrives: 20, Sent: 19, Pending: 1}, true, VerdictPass},
		{"two are open", Figures{Redrives: 20, Sent: 18, Pending: 2}, true, VerdictInconclusive},
		{"nothing moved", Figures{Redrives: 20, Pending: 20}, true, VerdictInconclusive},
		{"nothing was sent", Figures{Canary: 20}, false, VerdictInconclusive},
		{"nobody saw what came back", Figures{Redrives: 20, Sent: 19, Failed: 1, Blind: "denied"}, false, VerdictPass},
		{"nobody saw, and it matters", Figures{Redrives: 30, Sent: 29, Failed: 1, Returned: 1, Blind: "denied"}, false, VerdictInconclusive},
		{"sent, and nobody knows how fast", Figures{Redrives: 20, Sent: 20, Untimed: 2}, false, VerdictInconclusive},
	} {
		if got, why := judge(tt.f, th, GateLedger, tt.over); got != tt.want {
			t.Errorf("%s: %q (%s), want %q", tt.name, got, why, tt.want)
		}
	}
}

// TestJudgeWordsAnEarlyFail: a fail that does not wait for what is pending says what
// has failed, and not that nothing was sent.
func TestJudgeWordsAnEarlyFail(t *testing.T) {
	t.Parallel()
	th := Thresholds{MinSuccess: 0.95, MaxReturned: 0.05, MaxThrottled: 0.1}
	for want, f := range map[string]Figures{
		"1 of 5 failed, so no more than 4 can be sent (at least 95%)":                                {Redrives: 5, Failed: 1, Pending: 4},
		"1 of 5 failed, so no more than 4 can be sent (at least 95%); 1 of 5 came back (at most 5%)": {Redrives: 5, Sent: 2, Failed: 1, Returned: 1, Pending: 2},
		"0 of 5 sent (at least 95%)": {Redrives: 5, Failed: 5},
		"3 of 5 sent (at least 95%); 2 of 5 came back (at most 5%); 1 of 5 throttled (at most 10%)": {Redrives: 5, Sent: 3, Failed: 2, Returned: 2, Throttled: 1},
	} {
		if v, why := judge(f, th, GateLedger, false); v != VerdictFail || why != want {
			t.Errorf("%q: %s, want %s", v, why, want)
		}
	}
}

// Without a ledger nothing but what came back is known.
func TestJudgeDLQOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    Figures
		max  float64
		over bool
		want Verdict
	}{
		{Figures{Redrives: 4, Pending: 4}, 0.25, false, ""},
		{Figures{Redrives: 4, Pending: 4}, 0.25, true, VerdictPass},
		{Figures{Redrives: 4, Pending: 3, Failed: 1, Returned: 1}, 0.25, false, ""},
		{Figures{Redrives: 4, Pending: 3, Failed: 1, Returned: 1}, 0.25, true, VerdictInconclusive},
		{Figures{Redrives: 4, Pending: 2, Failed: 2, Returned: 2}, 0.25, false, VerdictFail},
		{Figures{Redrives: 4, Pending: 4, Blind: "denied"}, 0.25, true, VerdictInconclusive},
		{Figures{}, 1, true, VerdictInconclusive},
	} {
		got, why := judge(tt.f, Thresholds{MinSuccess: 1, MaxReturned: tt.max}, GateDLQOnly, tt.over)
		if got != tt.want {
			t.Errorf("%+v at most %v, over %t: %q (%s), want %q", tt.f, tt.max, tt.over, got, why, tt.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var values []float64
	for i := 1; i <= 20; i++ {
		values = append(values, float64(i))
	}
	got := fmt.Sprint(*percentile(values, 0.5), *percentile(values, 0.95), *percentile(values[:1], 0.95), percentile(nil, 0.5))
	if got != "10 19 1 <nil>" {
		t.Error(got)
	}
}
