package redrive

import (
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
)

// TestSendBefore: what rests on the provider's key is bounded by it, whether
// the history, the row alone, or the message says that something is open.
func TestSendBefore(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	open := []ledger.Attempt{{Number: 1, ClaimedAt: noon.Add(time.Minute)}}
	closed := []ledger.Attempt{{Number: 1, ClaimedAt: noon.Add(time.Minute), Resolution: ledger.ByWorker}}
	facts := QueueFacts{LedgerSendBefore: true, MaxPause: 5 * time.Minute, Provider: &provider.Capabilities{KeyLife: time.Hour}}
	with := func(f func(*QueueFacts)) QueueFacts { q := facts; f(&q); return q }
	byKey := noon.Add(time.Hour + time.Minute - 5*time.Minute)
	tests := []struct {
		name       string
		attempts   []ledger.Attempt
		unresolved bool
		row        int
		q          QueueFacts
		want       time.Time
	}{
		{"an open attempt", open, true, rowReplaySafe, facts, byKey},
		{"an open attempt under a lift", open, true, 14, facts, byKey},
		{"no attempt open", closed, false, rowNoEffect, facts, time.Time{}},
		{"row and message disagree", closed, false, rowReplaySafe, facts, byKey},
		{"no history: from the row's beginning", nil, true, rowReplaySafe, facts, noon.Add(55 * time.Minute)},
		{"no history under a lift", nil, true, 14, facts, noon.Add(55 * time.Minute)},
		{"the ledger cannot store it", open, true, 14, with(func(q *QueueFacts) { q.LedgerSendBefore = false }), time.Time{}},
		{"the queue's maximum age comes first", open, true, rowReplaySafe, with(func(q *QueueFacts) { q.MaxAge = time.Minute }), noon.Add(time.Minute)},
		{"no key is honoured", open, true, 14, with(func(q *QueueFacts) { q.Provider = nil }), time.Time{}},
	}
	for _, tt := range tests {
		a := reconcile.Assessed{
			Job: job.Job{Message: broker.Message{SentAt: noon}}, Class: classify.Result{},
			Row: &ledger.Lookup{Found: ledger.Present, Row: ledger.Row{
				State: ledger.Failed, Attempt: 1, CreatedAt: noon, Attempts: tt.attempts,
			}},
			Input: reconcile.Input{Unresolved: tt.unresolved}, Decision: reconcile.Decision{Row: tt.row},
		}
		if got := sendBefore(a, tt.q); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
