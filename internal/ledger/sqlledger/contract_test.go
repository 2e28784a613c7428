package sqlledger

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// documented reads the statements of docs/worker-contract.md by their names.
func documented(t *testing.T) map[string]string {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/worker-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, block := range strings.Split(string(doc), "```sql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, s := range strings.Split(block, "-- ")[1:] {
			name, sql, _ := strings.Cut(s, "\n")
			found[name] = sql
		}
	}
	return found
}

// TestDocumentedSQL runs the contract's own statements as a worker would, and
// compares the rows with those that this package makes of the same story.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := made(t, Config{Now: func() time.Time { return now }}, "")
	sql := documented(t)
	run := func(k ledger.Key, attempt int, name string) int64 {
		t.Helper()
		p := &changeParams{l: l, now: now, row: &ledger.NewRow{}, Change: ledger.Change{
			Key: k, Attempt: attempt, Actor: "worker", ClaimLife: time.Minute, RequestID: "req", ErrorClass: "throttled", Reason: "slow down", Retryable: true,
		}}
		n, err := l.exec(t.Context(), l.db, l.sql.bound(sql[name]), p)
		if err != nil || sql[name] == "" {
			t.Fatalf("%s: %v", name, err)
		}
		if n > 0 && !strings.Contains(name, "history") && sql[name+": history"] != "" {
			if h, err := l.exec(t.Context(), l.db, l.sql.bound(sql[name+": history"]), p); err != nil || h != 1 {
				t.Fatalf("%s: history: %d lines, %v", name, h, err)
			}
		}
		return n
	}
	apply := func(c ledger.Change) {
		t.Helper()
		c.Actor = "worker"
		if r := l.Apply(t.Context(), []ledger.Change{c})[0]; r.Outcome != ledger.Won {
			t.Fatalf("%s → %s: %v", c.From, c.To, r.Err)
		}
	}
	doc, own := ledger.Key{JobKey: "doc"}, ledger.Key{JobKey: "own"}
	if err := l.Insert(t.Context(), ledger.NewRow{Key: own, Actor: "worker"}); err != nil {
		t.Fatal(err)
	}
	none := ledger.EffectNone
	moves := []ledger.Change{
		{Key: own, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute},
		{Key: own, From: ledger.Sending, FromAttempt: 1, To: ledger.Failed, ErrorClass: "throttled", Effect: none, Reason: "slow down", Retryable: true, Resolve: ledger.ByWorker},
		{Key: own, From: ledger.Failed, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute},
		{Key: own, FromAttempt: 2, ErrorClass: "throttled", Effect: none, Reason: "slow down", Resolve: ledger.ByWorker},
		{Key: own, FromAttempt: 2, LateAccept: true, RequestID: "req", Resolve: ledger.ByWorker},
	}
	steps := []struct {
		attempt int
		name    string
	}{{1, "claim"}, {1, "failed"}, {1, "claim again"}, {2, "late failure: history"}, {2, "late accept"}}
	run(doc, 1, "enqueue")
	for i, s := range steps {
		if run(doc, s.attempt, s.name) != 1 {
			t.Fatalf("%s lost", s.name)
		}
		apply(moves[i])
	}
	if run(doc, 1, "claim") != 0 || run(doc, 1, "sent") != 0 || run(doc, 1, "failed") != 0 {
		t.Error("a statement wins against another attempt")
	}
	if run(doc, 2, "sent") != 1 {
		t.Error("sent lost")
	}
	apply(ledger.Change{Key: own, From: ledger.Sending, FromAttempt: 2, To: ledger.Sent, RequestID: "req", Resolve: ledger.ByWorker})
	want, _, err := l.History(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := l.History(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	want.Key = doc
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := l.db.Exec(sql["now"]); err != nil {
		t.Error(err)
	}
}
