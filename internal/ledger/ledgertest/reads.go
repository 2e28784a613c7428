package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// testAttempts: a worker's word covers its own attempt, a verdict's all so far.
func testAttempts(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.at(ledger.Fenced)
	w.win(w.from(k, ledger.Queued))
	w.win(w.from(k, ledger.Sending))
	fail := w.from(k, ledger.Failed)
	fail.Resolve, fail.RequestID = ledger.ByWorker, "req-2"
	row := w.win(fail)
	resolutions := func(as []ledger.Attempt) (rs []ledger.Resolution) {
		for _, a := range as {
			rs = append(rs, a.Resolution)
		}
		return rs
	}
	if d := cmp.Diff([]ledger.Resolution{ledger.Unresolved, ledger.ByWorker}, resolutions(row.Attempts)); d != "" {
		t.Errorf("after the second attempt's proven failure:\n%s", d)
	}
	if a, ok := row.EarliestUnresolved(); !ok || a.Number != 1 || !row.LatestDeadline().Equal(a.SendDeadline) || a.SendDeadline.IsZero() {
		t.Errorf("earliest unresolved is %+v, %t; latest deadline %s", a, ok, row.LatestDeadline())
	}
	second := row.Attempts[1]
	if second.ErrorClass != "throttled" || second.Effect != ledger.EffectNone || second.RequestID != "req-2" {
		t.Errorf("the second attempt is %+v", second)
	}

	w.win(w.from(k, ledger.Fenced))
	verdict := w.from(k, ledger.Failed)
	verdict.Resolve = ledger.ByVerdict
	row = w.win(verdict)
	if d := cmp.Diff([]ledger.Resolution{ledger.ByVerdict, ledger.ByWorker}, resolutions(row.Attempts)); d != "" {
		t.Errorf("after the verdict:\n%s", d)
	}
	row = w.win(w.from(k, ledger.Sending))
	if a, ok := row.EarliestUnresolved(); !ok || a.Number != 3 {
		t.Errorf("a verdict does not cover what is claimed after it: %+v, %t", a, ok)
	}
	wrong := w.from(k, ledger.Failed)
	wrong.Effect, wrong.Resolve = ledger.EffectUnknown, ledger.ByWorker
	w.lose(wrong)
}

func testHistory(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.fresh()
	start, err := f.Ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.win(w.from(k, ledger.Sending))
	w.lose(w.from(k, ledger.Queued))
	f.Advance(time.Second)
	c := w.from(k, ledger.Failed)
	c.Reason, c.RequestID, c.ErrorClass = "asked to slow down", "req-1", "throttled"
	w.win(c)
	c = w.from(k, ledger.Queued)
	c.Run = "run-1"
	w.win(c)
	row, ok, err := f.Ledger.History(t.Context(), k)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	later := start.Add(time.Second)
	want := []ledger.Event{
		{At: start, Actor: "app", To: ledger.Queued, Attempt: 1},
		{At: start, Actor: "test", From: ledger.Queued, To: ledger.Sending, Attempt: 1},
		{At: later, Actor: "test", From: ledger.Sending, To: ledger.Failed, Attempt: 1, Reason: "asked to slow down", RequestID: "req-1", ErrorClass: "throttled"},
		{At: later, Actor: "test", From: ledger.Failed, To: ledger.Queued, Attempt: 2, Run: "run-1"},
	}
	if d := cmp.Diff(want, row.Events); d != "" {
		t.Error(d)
	}
	if _, ok, err := f.Ledger.History(t.Context(), key("none")); ok || err != nil {
		t.Errorf("history of a missing row: %t, %v", ok, err)
	}
}

func testReplace(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k, taken := w.at(ledger.Failed), w.fresh()
	c := w.from(k, ledger.Replaced)
	c.Run, c.Replace = "run-1", &ledger.NewRow{Key: taken}
	w.lose(c)
	if s := w.row(k).State; s != ledger.Failed {
		t.Fatalf("the edit's key is taken, yet the row is %s", s)
	}
	c.Replace = &ledger.NewRow{Key: key("edited"), Subject: "s"}
	if row := w.win(c); row.ReplacedBy != "edited" {
		t.Errorf("replaced by %q", row.ReplacedBy)
	}
	if row := w.row(key("edited")); row.State != ledger.Queued || row.Run != "run-1" || row.Attempt != 1 || row.Subject != "s" {
		t.Errorf("the edited copy's row is %+v", row)
	}
	c.Replace = &ledger.NewRow{Key: key("again")}
	w.lose(c)
	if lk := f.Ledger.Get(t.Context(), []ledger.Key{key("again")})[0]; lk.Found != ledger.Missing {
		t.Errorf("a lost change left a row: %+v", lk)
	}
	if !f.Ledger.Capabilities().Replaces {
		t.Error("a ledger that replaces does not say so")
	}
}

// testSecondSend: a committed row stays as it is, and names the corrected copy
// that is queued besides.
func testSecondSend(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for _, s := range []ledger.State{ledger.Sent, ledger.Reconciled} {
		k, corrected := w.at(s), key("corrected-"+string(s))
		before := w.row(k)
		w.lose(w.from(k, s))
		c := w.from(k, s)
		c.Run, c.Replace = "run-1", &ledger.NewRow{Key: corrected}
		row := w.win(c)
		before.ReplacedBy, before.UpdatedAt = corrected.JobKey, row.UpdatedAt
		if d := cmp.Diff(before, row); d != "" {
			t.Errorf("%s: %s", s, d)
		}
		if row := w.row(corrected); row.State != ledger.Queued || row.Run != "run-1" || row.Attempt != 1 {
			t.Errorf("the corrected copy's row is %+v", row)
		}
		w.lose(c)
	}
}

func testBatch(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	good, bad, also := w.fresh(), w.at(ledger.Sent), w.fresh()
	missing := ledger.Change{Key: key("none"), From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: life}
	rs := f.Ledger.Apply(t.Context(), []ledger.Change{
		w.from(good, ledger.Sending), w.from(bad, ledger.Queued), missing, w.from(also, ledger.Sending),
	})
	var got []ledger.Outcome
	for _, r := range rs {
		got = append(got, r.Outcome)
	}
	if d := cmp.Diff([]ledger.Outcome{ledger.Won, ledger.Lost, ledger.Lost, ledger.Won}, got); d != "" {
		t.Error(d)
	}
	if rs[0].Row.Key != good || rs[3].Row.State != ledger.Sending {
		t.Errorf("rows are not read back in order: %+v", rs)
	}
}

func testOneQuery(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	n := min(f.Ledger.Capabilities().MaxBatch, 200)
	keys := make([]ledger.Key, n)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("absent-%d", i))
		if i%3 == 0 {
			keys[i] = w.at(ledger.Failed)
		}
	}
	before := f.Statements()
	ls := f.Ledger.Get(t.Context(), keys)
	if got := f.Statements() - before; got != 1 {
		t.Errorf("%d keys took %d statements", n, got)
	}
	for i, lk := range ls {
		present := i%3 == 0
		if present && (lk.Row.Key != keys[i] || len(lk.Row.Attempts) != 1) || present == (lk.Found == ledger.Missing) {
			t.Fatalf("key %d: %s, %+v", i, lk.Found, lk.Row)
		}
	}
}

func testNewer(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	add := func(k ledger.Key, subject, version string) {
		if err := f.Insert(ledger.NewRow{Key: k, Subject: subject, Version: version}); err != nil {
			t.Fatal(err)
		}
	}
	add(key("v9"), "ship", "9")
	add(key("v10"), "ship", "10")
	add(key("other"), "boat", "9")
	add(ledger.Key{JobKey: "v9", Consumer: "pager"}, "ship", "9")
	if w.row(key("v9")).NewerSent {
		t.Error("a newer version that was not sent counts")
	}
	w.win(w.from(key("v10"), ledger.Sending))
	w.win(w.from(key("v10"), ledger.Sent))
	for _, c := range []struct {
		k    ledger.Key
		want bool
	}{{key("v9"), true}, {key("v10"), false}, {key("other"), false}, {ledger.Key{JobKey: "v9", Consumer: "pager"}, false}} {
		if got := w.row(c.k).NewerSent; got != c.want {
			t.Errorf("%v: newer sent %t, want %t", c.k, got, c.want)
		}
	}
}

func testScan(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	var sending []string
	for range 3 {
		k := w.fresh()
		w.win(w.from(k, ledger.Sending))
		f.Advance(time.Second)
		sending = append(sending, k.JobKey)
	}
	w.at(ledger.Sent)
	now, err := f.Ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scan := func(win ledger.Window) (got []string) {
		err := f.Ledger.Scan(t.Context(), win, func(r ledger.Row) error {
			got = append(got, r.JobKey)
			return nil
		})
		if err != nil {
			t.Errorf("scan %+v: %v", win, err)
		}
		return got
	}
	states := []ledger.State{ledger.Sending}
	reversed := slices.Clone(sending)
	slices.Reverse(reversed)
	for _, c := range []struct {
		window ledger.Window
		want   []string
	}{
		{ledger.Window{States: states}, sending},
		{ledger.Window{States: states, NewestFirst: true, Limit: 2}, reversed[:2]},
		{ledger.Window{States: states, Consumer: "pager"}, nil},
		{ledger.Window{States: states, DeadlineBefore: now.Add(life - 2*time.Second)}, sending[:1]},
		{ledger.Window{States: states, UpdatedAfter: now.Add(-2 * time.Second)}, sending[2:]},
	} {
		if d := cmp.Diff(c.want, scan(c.window)); d != "" {
			t.Errorf("%+v:\n%s", c.window, d)
		}
	}
	stop := errors.New("enough")
	if err := f.Ledger.Scan(t.Context(), ledger.Window{}, func(ledger.Row) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a callback's error ends the scan: %v", err)
	}
}

func testRace(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	for range 5 {
		c := w.from(w.fresh(), ledger.Sending)
		outcomes := make([]ledger.Outcome, 16)
		var wg sync.WaitGroup
		for i := range outcomes {
			l := []ledger.Ledger{f.Ledger, f.Second}[i%2]
			wg.Go(func() { outcomes[i] = l.Apply(t.Context(), []ledger.Change{c})[0].Outcome })
		}
		wg.Wait()
		won, lost := 0, 0
		for _, o := range outcomes {
			won, lost = won+bit(o == ledger.Won), lost+bit(o == ledger.Lost)
		}
		if won != 1 || lost != len(outcomes)-1 {
			t.Errorf("%d claims won and %d lost of %d", won, lost, len(outcomes))
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func testReadOnly(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	k := w.at(ledger.Failed)
	before := f.Dump()
	if f.ReadOnly.Capabilities().Writable {
		t.Error("says it is writable")
	}
	r := f.ReadOnly.Apply(t.Context(), []ledger.Change{w.from(k, ledger.Queued)})[0]
	if r.Outcome != ledger.Lost || !errors.Is(r.Err, ledger.ErrReadOnly) {
		t.Errorf("a change: outcome %d, %v", r.Outcome, r.Err)
	}
	if lk := f.ReadOnly.Get(t.Context(), []ledger.Key{k})[0]; lk.Found != ledger.Present || lk.Row.State != ledger.Failed {
		t.Errorf("a read: %+v", lk)
	}
	if d := cmp.Diff(before, f.Dump()); d != "" {
		t.Errorf("the content changed:\n%s", d)
	}
}

func testUnreadable(t *testing.T, f Fixture) {
	w := &world{Fixture: f, t: t}
	good, spoilt := w.fresh(), w.fresh()
	f.Spoil(spoilt)
	keys := []ledger.Key{good, spoilt, key("none"), key("a\x00b"), key("\xff"), key("")}
	var got []ledger.Found
	for _, lk := range f.Ledger.Get(t.Context(), keys) {
		got = append(got, lk.Found)
		if (lk.Err != nil) != (lk.Found == ledger.Unreadable) {
			t.Errorf("%s with error %v", lk.Found, lk.Err)
		}
	}
	want := []ledger.Found{ledger.Present, ledger.Unreadable, ledger.Missing, ledger.Unreadable, ledger.Unreadable, ledger.Unreadable}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	ended := w.Ledger.Scan(t.Context(), ledger.Window{}, func(ledger.Row) error { return nil })
	if ended == nil {
		t.Error("a scan passes over an unreadable row")
	}
}
