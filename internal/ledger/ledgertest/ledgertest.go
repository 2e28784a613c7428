// Package ledgertest is the conformance suite of a ledger. Every implementation
// passes it; its own test only opens one.
package ledgertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Fixture is a fresh, empty, writable and scoped ledger with a history.
type Fixture struct {
	Ledger ledger.Ledger
	// Second is the same ledger over a connection of its own.
	Second ledger.Ledger
	// ReadOnly is the same ledger, opened for reading alone.
	ReadOnly ledger.Ledger
	Insert   func(ledger.NewRow) error
	// Advance moves the ledger's clock, which stands still otherwise.
	Advance func(time.Duration)
	// Spoil makes the row of a key undecodable, behind the ledger's back.
	Spoil func(ledger.Key)
	// Statements counts the statements that Ledger has run so far.
	Statements func() int
	// Dump is the whole stored content, so that a change of it shows.
	Dump func() string
}

// Run runs the suite; open makes one fixture per test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"insert", testInsert},
		{"transitions", testTransitions},
		{"compare", testCompare},
		{"claim", testClaim},
		{"claim of a failed row", testClaimFailed},
		{"failed by a run", testFailedByRun},
		{"unread", testUnread},
		{"fence", testFence},
		{"late accept", testLateAccept},
		{"late failure", testLateFailure},
		{"attempts", testAttempts},
		{"history", testHistory},
		{"replace", testReplace},
		{"second send", testSecondSend},
		{"batch", testBatch},
		{"one query per batch", testOneQuery},
		{"newer version", testNewer},
		{"scan", testScan},
		{"race", testRace},
		{"read-only", testReadOnly},
		{"unreadable", testUnreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// world is a fixture with the steps that the tests share.
type world struct {
	Fixture
	t *testing.T
	n int
}

const life = 30 * time.Second

func key(s string) ledger.Key { return ledger.Key{JobKey: s, Consumer: "mailer"} }

func (w *world) insert(k ledger.Key) {
	w.t.Helper()
	if err := w.Insert(ledger.NewRow{Key: k, Actor: "app"}); err != nil {
		w.t.Fatalf("insert %v: %v", k, err)
	}
}

func (w *world) fresh() ledger.Key {
	w.n++
	k := key(fmt.Sprintf("job-%d", w.n))
	w.insert(k)
	return k
}

func (w *world) row(k ledger.Key) ledger.Row {
	w.t.Helper()
	lk := w.Ledger.Get(w.t.Context(), []ledger.Key{k})[0]
	if lk.Found != ledger.Present {
		w.t.Fatalf("get %v: %s, %v", k, lk.Found, lk.Err)
	}
	return lk.Row
}

func (w *world) apply(c ledger.Change) ledger.Result {
	w.t.Helper()
	rs := w.Ledger.Apply(w.t.Context(), []ledger.Change{c})
	if len(rs) != 1 {
		w.t.Fatalf("apply gave %d results", len(rs))
	}
	return rs[0]
}

func (w *world) win(c ledger.Change) ledger.Row {
	w.t.Helper()
	r := w.apply(c)
	if r.Outcome != ledger.Won || r.Err != nil {
		w.t.Fatalf("%s → %s: outcome %d, %v", c.From, c.To, r.Outcome, r.Err)
	}
	return r.Row
}

func (w *world) lose(c ledger.Change) {
	w.t.Helper()
	if r := w.apply(c); r.Outcome != ledger.Lost {
		w.t.Fatalf("%s → %s at attempt %d: outcome %d, want lost", c.From, c.To, c.FromAttempt, r.Outcome)
	}
}

// from is a change of the row as it stands.
func (w *world) from(k ledger.Key, to ledger.State) ledger.Change {
	w.t.Helper()
	r := w.row(k)
	c := ledger.Change{Key: k, From: r.State, FromAttempt: r.Attempt, FromRun: r.Run, To: to, Actor: "test"}
	switch to {
	case ledger.Sending:
		c.ClaimLife = life
	case ledger.Failed:
		c.ErrorClass, c.Effect, c.Retryable = "throttled", ledger.EffectNone, true
	case ledger.Replaced:
		w.n++
		c.Replace = &ledger.NewRow{Key: key(fmt.Sprintf("edit-%d", w.n))}
	}
	return c
}

// path leads from a new row to a state by legal moves.
var path = map[ledger.State][]ledger.State{
	ledger.Queued:     {},
	ledger.Sending:    {ledger.Sending},
	ledger.Sent:       {ledger.Sending, ledger.Sent},
	ledger.Failed:     {ledger.Sending, ledger.Failed},
	ledger.Fenced:     {ledger.Sending, ledger.Fenced},
	ledger.Reconciled: {ledger.Sending, ledger.Fenced, ledger.Reconciled},
	ledger.Replaced:   {ledger.Sending, ledger.Failed, ledger.Replaced},
}

// at makes a row in a state. Deadlines on the way have passed.
func (w *world) at(s ledger.State) ledger.Key {
	w.t.Helper()
	k := w.fresh()
	for _, to := range path[s] {
		if to == ledger.Fenced {
			w.Advance(life)
		}
		w.win(w.from(k, to))
	}
	if s == ledger.Sending {
		w.Advance(life)
	}
	return k
}
