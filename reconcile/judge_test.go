package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redrivectl/redrivectl/internal/provider"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const (
	testDelay  = 15 * time.Minute
	testMargin = 5 * time.Minute
	testPause  = 5 * time.Minute
)

// conclusive is evidence that proves that nothing was accepted. Each test case
// takes one thing away.
func conclusive() JudgeInput {
	quiet := noon
	first := quiet.Add(testPause + testDelay + testMargin)
	second := first.Add(time.Minute)
	return JudgeInput{
		JobKey: "k1",
		Capabilities: provider.Capabilities{
			Delay: testDelay, LookBack: 30 * 24 * time.Hour, Binds: true,
			Proves: []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted, provider.ProvesRejected},
		},
		Fenced: true, Attempts: []Try{{Number: 1, RequestID: "r1"}},
		Quiet: quiet, Earliest: quiet.Add(-time.Minute),
		First: no(quiet, first), Second: no(quiet, second),
		Control:  &Control{JobKey: "later", SeenAt: first.Add(time.Second)},
		MaxPause: testPause, ClockMargin: testMargin, SecondLookAfter: time.Minute,
	}
}

func no(quiet, at time.Time) *Look {
	return &Look{At: at, Answer: provider.Answer{NotFound: true, Complete: true, Evidence: provider.Evidence{
		From: quiet.Add(-time.Hour), To: at.Add(time.Hour), AskedAt: at,
	}}}
}

func found(in *JudgeInput, hs ...provider.Hit) {
	for _, l := range []*Look{in.First, in.Second} {
		l.Answer.NotFound, l.Answer.Hits = false, hs
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	accepted := provider.Hit{JobKey: "k1", RequestID: "r1", Status: provider.Accepted, Detail: "delivered"}
	unbound := provider.Hit{RequestID: "r7", Status: provider.Accepted}
	rejected := provider.Hit{JobKey: "k1", RequestID: "r1", Status: provider.Rejected}
	tests := []struct {
		name   string
		change func(*JudgeInput)
		want   Judgement
	}{
		{"every condition holds", func(*JudgeInput) {}, Judgement{Verdict: NotAccepted, Why: "every_condition_holds"}},
		{"not asked", func(in *JudgeInput) { in.First, in.Second = nil, nil }, Judgement{Verdict: Unavailable, Why: "not_asked"}},
		{"not fenced", func(in *JudgeInput) { in.Fenced = false }, Judgement{Verdict: ProvisionalNo, Why: "not_fenced"}},
		{"no control", func(in *JudgeInput) { in.Control = nil }, Judgement{Verdict: ProvisionalNo, Why: WhyNoControl}},
		{
			"control seen only after the last look", func(in *JudgeInput) { in.Control.SeenAt = in.Second.At.Add(time.Second) },
			Judgement{Verdict: ProvisionalNo, Why: WhyNoControl},
		},
		{"no second look", func(in *JudgeInput) { in.Second = nil }, Judgement{Verdict: ProvisionalNo, Why: WhySecondLook}},
		{
			"second look too soon", func(in *JudgeInput) { in.Second.At = in.First.At.Add(59 * time.Second) },
			Judgement{Verdict: ProvisionalNo, Why: WhySecondLook},
		},
		{"second look finds it", func(in *JudgeInput) {
			in.Second.Answer.NotFound, in.Second.Answer.Hits = false, []provider.Hit{accepted}
		}, Judgement{Verdict: Accepted, Why: "found", Detail: "delivered", RequestID: "r1"}},
		{
			"second look fails", func(in *JudgeInput) { in.Second.Answer = provider.Answer{Err: errors.New("status 503")} },
			Judgement{Verdict: Unavailable, Why: "look_up_failed", Detail: "status 503"},
		},
		{"a page at its limit", func(in *JudgeInput) { in.First.Answer.Complete = false }, Judgement{Verdict: Ambiguous, Why: "answer_incomplete"}},
		{
			"neither found nor not found", func(in *JudgeInput) { in.First.Answer.NotFound = false },
			Judgement{Verdict: Ambiguous, Why: "neither_found_nor_not_found"},
		},
		{
			"a moment inside the delay", func(in *JudgeInput) { in.Quiet = in.Quiet.Add(time.Second) },
			Judgement{Verdict: TooEarly, Why: "inside_delay", Until: noon.Add(25*time.Minute + time.Second)},
		},
		{
			"inside the delay by the provider's clock", func(in *JudgeInput) { in.First.Answer.ClockOffset = -2 * time.Second },
			Judgement{Verdict: TooEarly, Why: "inside_delay", Until: noon.Add(25*time.Minute + 2*time.Second)},
		},
		{
			"outside the look-back less a day", func(in *JudgeInput) { in.Earliest = noon.Add(-29 * 24 * time.Hour) },
			Judgement{Verdict: TooOld, Why: "outside_look_back"},
		},
		{
			"delay not documented", func(in *JudgeInput) { in.Capabilities.Delay = -1 },
			Judgement{Verdict: ProvisionalNo, Why: "delay_not_documented"},
		},
		{
			"look-back not documented", func(in *JudgeInput) { in.Capabilities.LookBack = 0 },
			Judgement{Verdict: ProvisionalNo, Why: "look_back_not_documented"},
		},
		{
			"attempts not dated", func(in *JudgeInput) { in.Earliest = time.Time{} },
			Judgement{Verdict: ProvisionalNo, Why: "attempts_not_dated"},
		},
		{
			"window begins too late", func(in *JudgeInput) { in.Second.Answer.Evidence.From = in.Earliest },
			Judgement{Verdict: ProvisionalNo, Why: "window_not_read"},
		},
		{
			"absence is not provable", func(in *JudgeInput) { in.Capabilities.Proves = in.Capabilities.Proves[:1] },
			Judgement{Verdict: Ambiguous, Why: "absence_not_provable"},
		},
		{
			"asked by request, the one that there was", func(in *JudgeInput) { in.Capabilities.ByRequest = true },
			Judgement{Verdict: NotAccepted, Why: "every_condition_holds"},
		},
		{"asked by request, another attempt has none", func(in *JudgeInput) {
			in.Capabilities.ByRequest, in.Attempts = true, append(in.Attempts, Try{Number: 2})
		}, Judgement{Verdict: Ambiguous, Why: "other_requests_not_asked"}},
		{"asked by request, and the transport retries", func(in *JudgeInput) {
			in.Capabilities.ByRequest, in.TransportRetries = true, true
		}, Judgement{Verdict: Ambiguous, Why: "other_requests_not_asked"}},
		{"unbound candidate", func(in *JudgeInput) { found(in, unbound) }, Judgement{Verdict: Ambiguous, Why: "unbound_candidates"}},
		{
			"unbound but unique", func(in *JudgeInput) { found(in, unbound); in.Unique = true },
			Judgement{Verdict: Accepted, Why: "found", RequestID: "r7"},
		},
		{"another job's record", func(in *JudgeInput) {
			found(in, provider.Hit{JobKey: "k2", Status: provider.Accepted})
			in.First.Answer.NotFound, in.Second.Answer.NotFound = true, true
		}, Judgement{Verdict: NotAccepted, Why: "every_condition_holds"}},
		{
			"a record that says neither", func(in *JudgeInput) { found(in, provider.Hit{JobKey: "k1", Status: provider.Unclear}) },
			Judgement{Verdict: Ambiguous, Why: "unbound_candidates"},
		},
		{
			"acceptance is not provable", func(in *JudgeInput) { found(in, accepted); in.Capabilities.Proves = nil },
			Judgement{Verdict: Ambiguous, Why: "acceptance_not_provable", RequestID: "r1"},
		},
		{
			"accepted wins over rejected", func(in *JudgeInput) { found(in, rejected, accepted) },
			Judgement{Verdict: Accepted, Why: "found", Detail: "delivered", RequestID: "r1"},
		},
		{
			"the one attempt was rejected", func(in *JudgeInput) { found(in, rejected); in.Control, in.Second = nil, nil },
			Judgement{Verdict: Rejected, Why: "each_attempt_rejected", RequestID: "r1"},
		},
		{"the refusal is a known attempt's", func(in *JudgeInput) {
			found(in, rejected)
			in.Known, in.Attempts, in.Control = []Try{{Number: 1, RequestID: "r1"}}, []Try{{Number: 2}}, nil
		}, Judgement{Verdict: ProvisionalNo, Why: WhyNoControl, RequestID: "r1"}},
		{"the refusal may be a known attempt's", func(in *JudgeInput) {
			found(in, rejected)
			in.Known, in.Attempts, in.Control = []Try{{Number: 1}}, []Try{{Number: 2}}, nil
		}, Judgement{Verdict: ProvisionalNo, Why: WhyNoControl, RequestID: "r1"}},
		{"a known attempt was refused before there was a record", func(in *JudgeInput) {
			found(in, rejected)
			in.Known, in.Attempts, in.Control = []Try{{Number: 1, RequestID: "r0"}}, []Try{{Number: 2}}, nil
		}, Judgement{Verdict: Rejected, Why: "each_attempt_rejected", RequestID: "r1"}},
		{"another attempt is open", func(in *JudgeInput) {
			found(in, rejected)
			in.Attempts = append(in.Attempts, Try{Number: 2})
			in.Control = nil
		}, Judgement{Verdict: ProvisionalNo, Why: WhyNoControl, RequestID: "r1"}},
		{"another attempt was not accepted", func(in *JudgeInput) {
			found(in, rejected)
			in.Attempts = append(in.Attempts, Try{Number: 2})
		}, Judgement{Verdict: Rejected, Why: "every_condition_holds", RequestID: "r1"}},
		{
			"rejected, but the transport retries", func(in *JudgeInput) { found(in, rejected); in.TransportRetries, in.Control = true, nil },
			Judgement{Verdict: ProvisionalNo, Why: WhyNoControl, RequestID: "r1"},
		},
		{
			"rejected, not fenced", func(in *JudgeInput) { found(in, rejected); in.Fenced = false },
			Judgement{Verdict: ProvisionalNo, Why: "not_fenced", RequestID: "r1"},
		},
		{
			"rejection is not provable", func(in *JudgeInput) { found(in, rejected); in.Capabilities.Proves = in.Capabilities.Proves[:2] },
			Judgement{Verdict: Ambiguous, Why: "rejection_not_provable"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := conclusive()
			tt.change(&in)
			if diff := cmp.Diff(tt.want, Judge(in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestJudgeConclusiveNoHoldsEveryCondition draws evidence at random and states
// the rule apart from the code.
func TestJudgeConclusiveNoHoldsEveryCondition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		got := Judge(in)
		if got.Verdict != NotAccepted && got.Verdict != Rejected {
			return
		}
		if !in.Fenced || in.First == nil || in.First.Answer.Err != nil || !in.First.Answer.Complete {
			t.Fatalf("%s without fence or a whole answer: %+v", got.Verdict, in)
		}
		if got.Why == "each_attempt_rejected" {
			return
		}
		wait := in.First.At.Sub(in.Quiet)
		switch {
		case in.Second == nil, in.Control == nil:
			t.Fatal("no second look or no control")
		case in.Second.Answer.Err != nil || !in.Second.Answer.Complete:
			t.Fatal("second look is no answer")
		case in.Second.At.Sub(in.First.At) < in.SecondLookAfter, in.Control.SeenAt.After(in.Second.At):
			t.Fatal("second look too soon")
		case wait < in.MaxPause+in.Capabilities.Delay+in.ClockMargin+in.First.Answer.ClockOffset.Abs():
			t.Fatalf("waited %s only", wait)
		case in.Second.At.Sub(in.Earliest) > in.Capabilities.LookBack-24*time.Hour:
			t.Fatal("outside the look-back")
		}
	})
}

func draw(t *rapid.T) JudgeInput {
	in := conclusive()
	pick := func(name string) bool { return rapid.IntRange(0, 9).Draw(t, name) == 0 }
	minutes := func(name string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Minute
	}
	in.Fenced = !pick("unfenced")
	in.Quiet = in.Quiet.Add(minutes("quiet", -30, 3))
	in.Earliest = in.Quiet.Add(-minutes("earliest", 0, 32*24*60))
	in.First.At = in.First.At.Add(minutes("first", -3, 30))
	in.Second.At = in.First.At.Add(minutes("second", 0, 5))
	for _, l := range []*Look{in.First, in.Second} {
		l.Answer.Complete = !pick("incomplete")
		l.Answer.NotFound = !pick("not said")
		l.Answer.ClockOffset = minutes("offset", -3, 3)
		l.Answer.Evidence.From = in.Earliest.Add(-time.Hour)
		if pick("error") {
			l.Answer.Err = errors.New("failed")
		}
		if pick("hit") {
			l.Answer.Hits = []provider.Hit{{
				JobKey:    rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key"),
				RequestID: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "id"),
				Status:    rapid.SampledFrom([]provider.Status{provider.Accepted, provider.Rejected, provider.Unclear}).Draw(t, "status"),
			}}
		}
	}
	in.Control.SeenAt = in.First.At.Add(minutes("control", 0, 5))
	if pick("no control") {
		in.Control = nil
	}
	if pick("no second") {
		in.Second = nil
	}
	return in
}

func TestLookBackMargin(t *testing.T) {
	t.Parallel()
	for lookBack, want := range map[time.Duration]time.Duration{
		30 * 24 * time.Hour: 24 * time.Hour,
		4 * 24 * time.Hour:  24 * time.Hour,
		24 * time.Hour:      6 * time.Hour,
	} {
		if got := LookBackMargin(lookBack); got != want {
			t.Errorf("LookBackMargin(%s) = %s, want %s", lookBack, got, want)
		}
	}
}
