package reconcile

import (
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

func tried(state ledger.State, effect string, rs ...ledger.Resolution) *ledger.Row {
	r := &ledger.Row{State: state, Attempt: len(rs), Effect: effect, Attempts: []ledger.Attempt{}}
	for i, res := range rs {
		r.Attempts = append(r.Attempts, ledger.Attempt{Number: i + 1, Resolution: res})
	}
	return r
}

func TestEffectOf(t *testing.T) {
	t.Parallel()
	const none, unknown = classify.EffectNone, classify.EffectUnknown
	tests := []struct {
		name string
		in   EffectInput
		want classify.Effect
	}{
		{"one receive, no ledger", EffectInput{Message: none, Receives: 1}, none},
		{"two receives, no ledger", EffectInput{Message: none, Receives: 2}, unknown},
		{"tried before, which the queue forgot", EffectInput{Message: none, Receives: 1, TriedBefore: true}, unknown},
		{"class that proves nothing", EffectInput{Message: unknown, Receives: 1}, unknown},
		{"class that says nothing", EffectInput{Receives: 1}, unknown},
		{"transport retries", EffectInput{Message: none, Receives: 1, TransportRetries: true}, unknown},
		{"all attempts proven", EffectInput{
			Message: none, Receives: 5, History: true,
			Row: tried(ledger.Failed, "none", ledger.ByWorker, ledger.ByWorker),
		}, none},
		{"one attempt open", EffectInput{
			Message: none, History: true,
			Row: tried(ledger.Failed, "none", ledger.Unresolved, ledger.ByWorker),
		}, unknown},
		{"sending", EffectInput{Message: none, History: true, Row: tried(ledger.Sending, "", ledger.Unresolved)}, unknown},
		{"fenced, though all are proven", EffectInput{Message: none, History: true, Row: tried(ledger.Fenced, "", ledger.ByWorker)}, unknown},
		{"message and row disagree", EffectInput{Message: unknown, History: true, Row: tried(ledger.Failed, "none", ledger.ByWorker)}, unknown},
		{"message tells no reason", EffectInput{
			Message: unknown, Silent: true, History: true,
			Row: tried(ledger.Failed, "none", ledger.ByWorker),
		}, none},
		{"covered by a verdict", EffectInput{
			Message: unknown, History: true, TransportRetries: true,
			Row: tried(ledger.Failed, "none", ledger.ByVerdict, ledger.ByVerdict),
		}, none},
		{"proven to have happened", EffectInput{Message: none, History: true, Row: tried(ledger.Reconciled, "", ledger.ByVerdict)}, unknown},
		{"accepted late", EffectInput{Message: none, History: true, Row: lateRow()}, unknown},
		{"claimed after the verdict", EffectInput{
			Message: none, History: true,
			Row: tried(ledger.Sending, "", ledger.ByVerdict, ledger.Unresolved),
		}, unknown},
		{"row without history says unknown", EffectInput{Message: none, Receives: 1, Row: &ledger.Row{State: ledger.Failed, Effect: "unknown"}}, unknown},
		{"row without history agrees", EffectInput{Message: none, Receives: 1, Row: &ledger.Row{State: ledger.Failed, Effect: "none"}}, none},
		{"row without history sending", EffectInput{Message: none, Receives: 1, Row: &ledger.Row{State: ledger.Sending}}, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := EffectOf(tt.in); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStandingOf(t *testing.T) {
	t.Parallel()
	present := func(r ledger.Row) *ledger.Lookup { return &ledger.Lookup{Found: ledger.Present, Row: r} }
	missing := &ledger.Lookup{Found: ledger.Missing}
	scoped := ledger.Capabilities{Scoped: true, RowWritten: ledger.AtEnqueue, Retention: time.Hour}
	atClaim := ledger.Capabilities{Scoped: true, RowWritten: ledger.AtClaim}
	queued := ledger.Row{State: ledger.Queued, Attempt: 2, Attempts: []ledger.Attempt{{Number: 1}}}
	again := ledger.Row{State: ledger.Queued, Attempt: 1, Attempts: []ledger.Attempt{{Number: 1}}}
	sending := ledger.Row{State: ledger.Sending, SendDeadline: noon}
	tests := []struct {
		name string
		in   StandingInput
		want Standing
	}{
		{"no ledger", StandingInput{}, NoLedger},
		{"unreadable", StandingInput{Row: &ledger.Lookup{Found: ledger.Unreadable}}, RowUnreadable},
		{"nobody said", StandingInput{Row: &ledger.Lookup{}}, RowUnreadable},
		{"missing", StandingInput{Row: missing}, RowMissing},
		{"beyond the retention", StandingInput{Row: missing, JobAt: noon.Add(-2 * time.Hour)}, Purged},
		{"not claimed yet", StandingInput{Row: missing, Capabilities: atClaim}, NotWritten},
		{"seen once, missing now", StandingInput{Row: missing, Capabilities: atClaim, Seen: &SeenRow{}}, RowMissing},
		{"several consumers", StandingInput{Row: present(queued), SharedOrigin: true, Capabilities: ledger.Capabilities{History: true}}, Unscoped},
		{"never claimed", StandingInput{Row: present(queued)}, NeverClaimed},
		{"run lives", StandingInput{Row: present(queued), RunLives: true}, InFlight},
		{"queued after its claim", StandingInput{Row: present(again)}, QueuedClaimed},
		{"no history, but a claim", StandingInput{Row: present(ledger.Row{State: ledger.Queued, ClaimedAt: noon})}, QueuedClaimed},
		{"before the deadline", StandingInput{Row: present(sending), Now: noon.Add(-1)}, InFlight},
		{"at the deadline", StandingInput{Row: present(sending), Now: noon}, SendingPast},
		{"no deadline on record", StandingInput{Row: present(ledger.Row{State: ledger.Sending, ClaimedAt: noon}), Now: noon, ClaimLife: 1}, InFlight},
		{"older", StandingInput{Row: present(ledger.Row{State: ledger.Failed, UpdatedAt: noon}), Seen: &SeenRow{UpdatedAt: noon.Add(1)}}, RowOlder},
		{"older attempt", StandingInput{Row: present(ledger.Row{State: ledger.Failed, Attempt: 1}), Seen: &SeenRow{Attempt: 2}}, RowOlder},
		{"sent, though older", StandingInput{Row: present(ledger.Row{State: ledger.Sent, UpdatedAt: noon}), Seen: &SeenRow{UpdatedAt: noon.Add(1)}}, Committed},
		{"late acceptance", StandingInput{Row: present(ledger.Row{State: ledger.Failed, LateAccept: true})}, Committed},
		{"fenced", StandingInput{Row: present(ledger.Row{State: ledger.Fenced})}, StandsFenced},
		{"failed", StandingInput{Row: present(ledger.Row{State: ledger.Failed})}, StandsFailed},
		{"replaced", StandingInput{Row: present(ledger.Row{State: ledger.Replaced})}, StandsReplaced},
		{"replacement sent", StandingInput{Row: present(ledger.Row{State: ledger.Replaced}), ReplacementSent: true}, ReplacementSent},
		{"a state nobody knows", StandingInput{Row: present(ledger.Row{State: "odd"})}, RowUnreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.in.Now.IsZero() {
				tt.in.Now = noon
			}
			if tt.in.Capabilities == (ledger.Capabilities{}) {
				tt.in.Capabilities = scoped
			}
			if got := StandingOf(tt.in); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// lateRow is a row that failed by all records, and was accepted after that.
func lateRow() *ledger.Row {
	r := tried(ledger.Failed, "none", ledger.ByWorker)
	r.LateAccept = true
	return r
}
