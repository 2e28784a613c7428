package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

func testInsert(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	n := ledger.NewRow{
		Key: key("a"), Subject: "ship-1", Version: "7", PayloadSHA256: "ab", Region: "eu", Account: "acc",
		CustomerID: "c-1", Actor: "app",
	}
	if err := f.Insert(n); err != nil {
		t.Fatal(err)
	}
	if err := f.Insert(n); err == nil {
		t.Error("a second insert of the same key succeeded")
	}
	now, err := f.Ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ledger.Row{
		Key: n.Key, State: ledger.Queued, Attempt: 1, Subject: "ship-1", Version: "7", PayloadSHA256: "ab",
		Region: "eu", Account: "acc", CustomerID: "c-1", CreatedAt: now, UpdatedAt: now, Attempts: []ledger.Attempt{},
	}
	if d := cmp.Diff(want, w.row(n.Key)); d != "" {
		t.Error(d)
	}
}

// testTransitions tries every pair of states, with and without late_accept.
func testTransitions(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for _, from := range ledger.States {
		for _, to := range ledger.States {
			for _, late := range []bool{false, true} {
				k := w.at(from)
				if late {
					w.win(ledger.Change{Key: k, LateAccept: true, Actor: "worker"})
				}
				before := w.row(k)
				r := w.apply(w.from(k, to))
				want := wins(from, to, late)
				if got := r.Outcome == ledger.Won; got != want {
					t.Errorf("%s → %s, late accept %t: won %t, want %t (%v)", from, to, late, got, want, r.Err)
				}
				if want {
					checkMoved(t, before, r.Row, to)
				} else if d := cmp.Diff(before, w.row(k)); d != "" {
					t.Errorf("%s → %s lost, but the row changed:\n%s", from, to, d)
				}
			}
		}
	}
}

// wins is the table of docs/state-machine.md, written a second time on purpose.
func wins(from, to ledger.State, late bool) bool {
	legal := map[ledger.State][]ledger.State{
		ledger.Queued:  {ledger.Queued, ledger.Sending, ledger.Fenced, ledger.Reconciled, ledger.Failed, ledger.Replaced},
		ledger.Sending: {ledger.Sent, ledger.Failed, ledger.Fenced, ledger.Reconciled},
		ledger.Fenced:  {ledger.Queued, ledger.Reconciled, ledger.Failed},
		ledger.Failed:  {ledger.Queued, ledger.Sending, ledger.Fenced, ledger.Reconciled, ledger.Failed, ledger.Replaced},
	}
	if late {
		if to == ledger.Reconciled {
			return from != ledger.Reconciled
		}
		if to == ledger.Sending || to == ledger.Replaced {
			return false
		}
	}
	for _, s := range legal[from] {
		if s == to {
			return true
		}
	}
	return false
}

func checkMoved(t *testing.T, before, after ledger.Row, to ledger.State) {
	t.Helper()
	attempt := before.Attempt
	grows := map[ledger.State][]ledger.State{
		ledger.Failed: {ledger.Queued, ledger.Sending, ledger.Failed}, ledger.Fenced: {ledger.Queued},
	}
	for _, s := range grows[before.State] {
		if s == to {
			attempt++
		}
	}
	if after.State != to || after.Attempt != attempt {
		t.Errorf("%s → %s: the row is %s at attempt %d, want attempt %d", before.State, to, after.State, after.Attempt, attempt)
	}
}

func testCompare(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.at(ledger.Failed)
	c := w.from(k, ledger.Queued)
	c.Run = "run-1"
	w.win(c)

	claim := w.from(k, ledger.Sending)
	for name, spoil := range map[string]func(*ledger.Change){
		"state":   func(c *ledger.Change) { c.From, c.Attempt = ledger.Failed, 0 },
		"attempt": func(c *ledger.Change) { c.FromAttempt-- },
		"run":     func(c *ledger.Change) { c.FromRun = "run-2" },
		"no run":  func(c *ledger.Change) { c.FromRun = "" },
		"key":     func(c *ledger.Change) { c.Key.Consumer = "other" },
	} {
		c := claim
		spoil(&c)
		if r := w.apply(c); r.Outcome != ledger.Lost {
			t.Errorf("a wrong %s: outcome %d", name, r.Outcome)
		}
	}
	requeue := w.from(k, ledger.Queued)
	requeue.Run = "run-2"
	if row := w.win(requeue); row.Run != "run-2" || row.Attempt != 2 {
		t.Errorf("re-queue: run %s, attempt %d", row.Run, row.Attempt)
	}
	w.lose(claim)
	w.win(w.from(k, ledger.Sending))
	if r := w.apply(ledger.Change{Key: key("none"), From: ledger.Queued, FromAttempt: 1, To: ledger.Fenced}); r.Outcome != ledger.Lost || !errors.Is(r.Err, ledger.ErrMissing) {
		t.Errorf("a missing row: outcome %d, %v", r.Outcome, r.Err)
	}
}

func testClaim(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	now, err := f.Ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := w.fresh()
	if row := w.win(w.from(k, ledger.Sending)); !row.ClaimedAt.Equal(now) || !row.SendDeadline.Equal(now.Add(life)) {
		t.Errorf("claimed at %s until %s", row.ClaimedAt, row.SendDeadline)
	}

	bounded := func(before time.Duration) ledger.Key {
		k := w.fresh()
		c := w.from(k, ledger.Queued)
		c.Run, c.SendBefore = "r", now.Add(before)
		w.win(c)
		return k
	}
	k = bounded(life / 2)
	if row := w.win(w.from(k, ledger.Sending)); !row.SendDeadline.Equal(now.Add(life / 2)) {
		t.Errorf("send_before bounds the deadline: got %s", row.SendDeadline)
	}
	k = bounded(time.Minute)
	f.Advance(time.Minute)
	w.lose(w.from(k, ledger.Sending))
	c := w.from(k, ledger.Queued)
	w.win(c)
	if row := w.win(w.from(k, ledger.Sending)); !row.SendBefore.IsZero() {
		t.Error("a zero send_before does not clear the old one")
	}
	k = w.fresh()
	w.win(ledger.Change{Key: k, LateAccept: true})
	w.lose(w.from(k, ledger.Sending))
	c = w.from(w.fresh(), ledger.Sending)
	c.ClaimLife = 0
	if r := w.apply(c); !errors.Is(r.Err, ledger.ErrIllegal) {
		t.Errorf("a claim for ever: %v", r.Err)
	}
}

func testClaimFailed(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for _, c := range []struct {
		effect    string
		retryable bool
		wins      bool
	}{
		{ledger.EffectNone, true, true},
		{ledger.EffectNone, false, false},
		{ledger.EffectUnknown, true, false},
		{"", true, false},
	} {
		k := w.at(ledger.Sending)
		fail := w.from(k, ledger.Failed)
		fail.Effect, fail.Retryable = c.effect, c.retryable
		w.win(fail)
		r := w.apply(w.from(k, ledger.Sending))
		if got := r.Outcome == ledger.Won; got != c.wins {
			t.Errorf("claim of failed, effect %q, retryable %t: won %t", c.effect, c.retryable, got)
		}
		if c.wins && r.Row.Attempt != 2 {
			t.Errorf("claimed as attempt %d", r.Row.Attempt)
		}
	}
}

// testUnread: a change that is not read back makes the same of the row, and one
// that loses tells of it all the same.
func testUnread(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.at(ledger.Sending)
	fail := w.from(k, ledger.Failed)
	fail.Unread = true
	rs := f.Ledger.Apply(t.Context(), []ledger.Change{fail, fail})
	if rs[0].Outcome != ledger.Won || rs[0].Row.State != "" || w.row(k).State != ledger.Failed {
		t.Errorf("the change gave %+v, and the row is %+v", rs[0], w.row(k))
	}
	if rs[1].Outcome != ledger.Lost || rs[1].Row.State != ledger.Failed {
		t.Errorf("the same once more gave %+v", rs[1])
	}
}

// testFailedByRun: a run that discards leaves a row that nobody claims, by which
// it knows its own change again; a worker's failure names no run of its own.
func testFailedByRun(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for _, from := range []ledger.State{ledger.Queued, ledger.Fenced, ledger.Failed} {
		k := w.at(from)
		c := w.from(k, ledger.Failed)
		c.Run, c.Retryable, c.Reason = "run-9", false, "discarded"
		row := w.win(c)
		if row.Run != "run-9" || row.Reason != "discarded" || row.Retryable {
			t.Errorf("from %s: %+v", from, row)
		}
		w.lose(w.from(k, ledger.Sending))
		w.win(w.from(k, ledger.Queued))
	}
	k := w.fresh()
	queued := w.from(k, ledger.Queued)
	queued.Run = "run-1"
	w.win(queued)
	w.win(w.from(k, ledger.Sending))
	if row := w.win(w.from(k, ledger.Failed)); row.Run != "run-1" {
		t.Errorf("a worker's failure leaves run %q", row.Run)
	}
}

func testFence(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.fresh()
	w.win(w.from(k, ledger.Sending))
	f.Advance(life - time.Second)
	w.lose(w.from(k, ledger.Fenced))
	f.Advance(time.Second)
	first := w.win(w.from(k, ledger.Fenced)).FencedAt
	if first.IsZero() {
		t.Fatal("a fence has no time")
	}
	w.lose(ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 1, To: ledger.Sent})

	f.Advance(time.Minute)
	w.win(w.from(k, ledger.Queued))
	if got := w.win(w.from(k, ledger.Fenced)).FencedAt; !got.Equal(first) {
		t.Errorf("a second fence without a claim in between: %s, want the first, %s", got, first)
	}
	w.win(w.from(k, ledger.Queued))
	if got := w.win(w.from(k, ledger.Sending)).FencedAt; !got.IsZero() {
		t.Errorf("a new claim keeps the fence of %s", got)
	}
	f.Advance(life)
	if got := w.win(w.from(k, ledger.Fenced)).FencedAt; !got.After(first) {
		t.Errorf("the fence of the new claim is of %s", got)
	}
}

func testLateAccept(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for _, s := range ledger.States {
		k := w.at(s)
		before := w.row(k)
		row := w.win(ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 1, LateAccept: true, RequestID: "req-9"})
		if !row.LateAccept || row.State != before.State || row.Attempt != before.Attempt || row.RequestID != "req-9" {
			t.Errorf("late accept in %s: %+v", s, row)
		}
		if s != ledger.Reconciled {
			w.win(w.from(k, ledger.Reconciled))
		}
	}
}

func testLateFailure(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.at(ledger.Fenced)
	late := ledger.Change{
		Key: k, From: ledger.Sending, FromAttempt: 1, ErrorClass: "throttled", Effect: ledger.EffectNone, Resolve: ledger.ByWorker,
	}
	row := w.win(late)
	if _, open := row.EarliestUnresolved(); open || row.State != ledger.Fenced {
		t.Errorf("a proven failure after the fence: %+v", row)
	}
	late.Effect = ledger.EffectUnknown
	w.lose(late)
	late.Effect, late.Resolve = ledger.EffectNone, ledger.Unresolved
	w.lose(late)
}
