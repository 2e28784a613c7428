package redrive_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/redrive"
)

// accountOf is the account of a plan of copies a to f, of two classes, after
// records that are told by second, copy, step and result.
func accountOf(steps ...recorded) *redrive.Account {
	var p redrive.Plan
	for _, s := range steps {
		if s.step == redrive.StepVerdict {
			p.Canary = 1
		}
	}
	for i, id := range []string{"a", "b", "c", "d", "e", "f"} {
		class := classify.Throttled
		if i > 3 {
			class = classify.Timeout
		}
		p.Items = append(p.Items, redrive.Item{Copy: broker.CopyID{Entity: "q", ID: id}, Class: class})
	}
	a := redrive.NewAccount(p)
	for i, s := range steps {
		r := audit.Record{Seq: int64(10 + i), Time: at(s.at), Plan: "p", Run: "r", Action: audit.ActionRedrive, Phase: audit.Outcome, Step: s.step, Result: s.result, Reason: s.reason}
		switch {
		case s.copy == "run":
			r.Action = "run"
		case s.copy == "settle":
			r.Action, r.CopyID = audit.ActionSettle, "q/c"
		case s.copy != "":
			r.CopyID = "q/" + s.copy
		default:
			r.Action, r.Run = "approve", ""
		}
		if s.step == "" && s.copy != "" {
			r.Phase = audit.Intent
		}
		a.See(r)
	}
	return a
}

type recorded struct {
	at                         float64 // seconds
	copy, step, result, reason string
}

func at(seconds float64) time.Time {
	return time.Unix(0, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}

// killedRun was approved at 1, ran from 10 to about 11.9, where it was killed with
// b's intent open, and was resumed from 100 to 102.
func killedRun() []recorded {
	return []recorded{
		{at: 1},
		{10, "run", "start", "done", ""},
		{10.5, "a", "", "", ""},
		{10.9, "a", "publish", "done", ""},
		{11, "a", "ack", "done", ""},
		{11, "settle", "", "", ""},
		{11.2, "settle", "ack", "done", ""},
		{11.3, "b", "", "", ""},
		{11.9, "b", "publish", "unknown", ""},
		{50, "run", "pause", "done", "asked when it was dead"},
		{100, "run", "resume", "done", ""},
		{101, "b", "ack", "done", ""},
		{101, "d", "close", "skipped", "already_sent"},
		{101, "e", "", "", ""},
		{101.2, "e", "publish", "refused", "no"},
		{101.2, "e", "close", "failed", "publish_refused"},
		{102, "run", "end", "interrupted", ""},
	}
}

func TestAccountOfARunThatWasResumed(t *testing.T) {
	t.Parallel()
	a := accountOf(killedRun()...)
	a.Stop(at(500), false)
	got, classes := a.Reports(false)
	want := redrive.Report{Planned: 6, Redriven: 2, Settled: 1, Failed: 1, Remaining: 1, Skipped: map[string]int{"already_sent": 1}}
	if d := cmp.Diff(want, got); d != "" || !got.Adds() {
		t.Errorf("adds up: %v; %s", got.Adds(), d)
	}
	wantClasses := map[classify.Class]*redrive.Report{
		classify.Throttled: {Planned: 4, Redriven: 2, Settled: 1, Skipped: map[string]int{"already_sent": 1}},
		classify.Timeout:   {Planned: 2, Failed: 1, Remaining: 1, Skipped: map[string]int{}},
	}
	if d := cmp.Diff(wantClasses, classes); d != "" {
		t.Error(d)
	}
	wantAccount := &redrive.Account{
		Approved: at(1), Publishes: 2, Peak: 1, First: 10, Last: 26, Records: 17,
		Sessions: []redrive.RunSession{{From: at(10), To: at(11.9)}, {From: at(100), To: at(102), Resumed: true, Ended: redrive.RunInterrupted}},
	}
	if d := cmp.Diff(wantAccount, a, cmpopts.IgnoreUnexported(redrive.Account{})); d != "" {
		t.Error(d)
	}
	if a.Running() != 3900*time.Millisecond {
		t.Errorf("ran for %s", a.Running())
	}
}

// TestAccountOfARunUnderWay: what is open of a run that lives remains, and of one
// that was killed it is unknown.
func TestAccountOfARunUnderWay(t *testing.T) {
	t.Parallel()
	steps := killedRun()[:9]
	for _, tt := range []struct {
		lives bool
		want  redrive.Report
		ran   time.Duration
	}{
		{true, redrive.Report{Planned: 6, Redriven: 1, Settled: 1, Remaining: 4, Skipped: map[string]int{}}, 10 * time.Second},
		{false, redrive.Report{Planned: 6, Redriven: 1, Settled: 1, Unknown: 1, Remaining: 3, Skipped: map[string]int{}}, 1900 * time.Millisecond},
	} {
		a := accountOf(steps...)
		a.Stop(at(20), tt.lives)
		got, _ := a.Reports(tt.lives)
		if d := cmp.Diff(tt.want, got); d != "" || a.Running() != tt.ran {
			t.Errorf("lives %v: ran for %s; %s", tt.lives, a.Running(), d)
		}
	}
}

// TestAccountPeak: the window is one second, and slides.
func TestAccountPeak(t *testing.T) {
	t.Parallel()
	var steps []recorded
	for _, s := range []float64{0, 0.5, 1, 1.4, 1.9, 1.95, 5} {
		steps = append(steps, recorded{s, "a", "publish", "done", ""})
	}
	if a := accountOf(steps...); a.Peak != 4 || a.Publishes != 7 {
		t.Errorf("at most %d of %d in a second", a.Peak, a.Publishes)
	}
}

// TestPrevented: a settled effect, and a job that was sent since, would have been
// a second effect each.
func TestPrevented(t *testing.T) {
	t.Parallel()
	for end, want := range map[redrive.ItemEnd]bool{
		{Result: "settled"}:                           true,
		{Result: "skipped", Reason: "already_sent"}:   true,
		{Result: "skipped", Reason: "changed_ledger"}: false,
		{Result: "redriven"}:                          false,
		{}:                                            false,
	} {
		if end.Prevented() != want {
			t.Errorf("%+v prevented one: %v", end, !want)
		}
	}
}

// TestAccountUnsure: a publish of which nobody knew stays named, whatever became of
// the job later; one that a session began and finished itself is none.
func TestAccountUnsure(t *testing.T) {
	t.Parallel()
	a := accountOf(
		recorded{10, "run", "start", "done", ""},
		recorded{11, "a", "", "", ""},
		recorded{11, "a", "publish", "done", ""},
		recorded{11, "a", "ack", "unknown", ""},
		recorded{11, "b", "", "", ""},
		recorded{12, "b", "publish", "unknown", "reply lost"},
		recorded{11, "c", "", "", ""}, // killed here
		recorded{11, "d", "", "", ""}, // and here, before its ledger row moved
		recorded{11, "f", "", "", ""},
		recorded{11, "f", "publish", "refused", "throttled"},
		recorded{100, "run", "resume", "done", ""},
		recorded{101, "a", "ack", "done", ""},
		recorded{101, "b", "publish", "done", ""},
		recorded{101, "b", "ack", "done", ""},
		recorded{101, "c", "publish", "done", ""},
		recorded{101, "c", "ack", "done", ""},
		recorded{101, "d", "", "", ""}, // begun anew
		recorded{101, "d", "publish", "done", ""},
		recorded{101, "e", "", "", ""},
		recorded{101, "e", "publish", "done", ""},
		recorded{101, "f", "publish", "done", ""},
	)
	var got [6]bool
	for i := range got {
		got[i] = a.Unsure(i)
	}
	if want := [6]bool{1: true, 2: true}; got != want {
		t.Errorf("unsure %v, want %v", got, want)
	}
}

// TestAccountIdle: what the run observed its canary, waited for a person or was
// paused is known apart, so that its rate is of the time in which it worked.
func TestAccountIdle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps         []recorded
		running, idle time.Duration
	}{
		"no canary": {[]recorded{{10, "run", "start", "", ""}, {11, "a", "ack", "done", ""}, {12, "run", "end", "finished", ""}}, 2 * time.Second, 0},
		"observed": {[]recorded{
			{10, "run", "start", "", ""},
			{11, "a", "publish", "done", ""},
			{12, "a", "ack", "done", ""},
			{300, "run", "gate", "done", ""},
			{301, "b", "publish", "done", ""},
			{302, "run", "end", "finished", ""},
		}, 292 * time.Second, 288 * time.Second},
		"paused while it observed, and then for a person": {[]recorded{
			{10, "run", "start", "", ""},
			{12, "a", "ack", "done", ""},
			{20, "run", "paused", "", ""},
			{50, "run", "continued", "", ""},
			{112, "run", "gate", "done", ""},
			{112, "run", "paused", "", ""},
			{212, "run", "continued", "", ""},
			{213, "b", "ack", "done", ""},
			{214, "run", "end", "finished", ""},
		}, 204 * time.Second, 200 * time.Second},
		"paused in its bulk": {[]recorded{
			{10, "run", "start", "", ""},
			{11, "a", "ack", "done", ""},
			{11, "run", "gate", "done", ""},
			{12, "b", "ack", "done", ""},
			{13, "run", "paused", "", ""},
			{23, "run", "end", "interrupted", ""},
		}, 13 * time.Second, 10 * time.Second},
		"killed while it observed, and again": {[]recorded{
			{10, "run", "start", "", ""},
			{12, "a", "ack", "done", ""},
			{100, "run", "resume", "", ""},
			{120, "run", "end", "interrupted", ""},
			{200, "run", "resume", "", ""},
			{220, "run", "gate", "done", ""},
			{222, "b", "ack", "done", ""},
			{222, "run", "end", "finished", ""},
		}, 44 * time.Second, 40 * time.Second},
	} {
		a := accountOf(c.steps...)
		if a.Stop(at(1000), false); a.Running() != c.running || a.Idle() != c.idle {
			t.Errorf("%s: %s, of them idle %s; want %s, %s", name, a.Running(), a.Idle(), c.running, c.idle)
		}
	}
}
