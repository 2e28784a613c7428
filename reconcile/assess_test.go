package reconcile

import (
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

func TestStillAbout(t *testing.T) {
	t.Parallel()
	row := func(s ledger.State, attempt int, res ledger.Resolution) *ledger.Lookup {
		return &ledger.Lookup{Found: ledger.Present, Row: ledger.Row{
			State: s, Attempt: attempt, FencedAt: noon, Attempts: []ledger.Attempt{{Number: attempt, Resolution: res}},
		}}
	}
	no := Found{Attempt: 1, Verdict: NotAccepted, At: noon, Evidence: Evidence{FencedAt: noon}}
	refenced := no
	refenced.Evidence.FencedAt = noon.Add(-time.Hour)
	early := Found{Attempt: 1, Verdict: TooEarly, At: noon}
	noRow := Found{Verdict: ProvisionalNo, At: noon}
	later := job.Job{Message: broker.Message{SentAt: noon.Add(time.Second)}}
	claimed := row(ledger.Fenced, 1, "")
	claimed.Row.ClaimedAt = noon.Add(time.Second)
	asked := early
	asked.At, asked.Evidence.Looks = noon.Add(time.Minute), []provider.Evidence{{AskedAt: noon}}
	tests := []struct {
		name string
		f    Found
		row  *ledger.Lookup
		job  job.Job
		want bool
	}{
		{"acceptance, whatever came after", Found{Attempt: 1, Verdict: Accepted}, row(ledger.Failed, 3, ""), job.Job{}, true},
		{"fenced as it was", no, row(ledger.Fenced, 1, ""), job.Job{}, true},
		{"fenced anew", refenced, row(ledger.Fenced, 1, ""), job.Job{}, false},
		{"moved by the verdict", no, row(ledger.Failed, 1, ledger.ByVerdict), job.Job{}, true},
		{"claimed since", no, row(ledger.Sending, 1, ""), job.Job{}, false},
		{"another attempt", no, row(ledger.Failed, 2, ledger.ByVerdict), job.Job{}, false},
		{"too early, same attempt", early, row(ledger.Fenced, 1, ""), job.Job{}, true},
		{"claimed since it was found", early, claimed, job.Job{}, false},
		{"claimed since it was asked", asked, claimed, job.Job{}, false},
		{"no row", noRow, nil, job.Job{}, true},
		{"no row, a newer copy", noRow, nil, later, false},
		{"the row is gone", no, &ledger.Lookup{Found: ledger.Missing}, job.Job{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := stillAbout(tt.f, tt.row, tt.job); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestReplayUntil(t *testing.T) {
	t.Parallel()
	row := ledger.Row{Key: ledger.Key{JobKey: "k1"}, Attempts: []ledger.Attempt{
		{Number: 1, ClaimedAt: noon, Resolution: ledger.ByWorker},
		{Number: 2, ClaimedAt: noon.Add(time.Hour)},
		{Number: 3, ClaimedAt: noon.Add(2 * time.Hour)},
	}}
	caps := provider.Capabilities{KeyLife: 22 * time.Hour, KeyMaxBytes: 2}
	if got, want := ReplayUntil(row, caps, 5*time.Minute), noon.Add(23*time.Hour-5*time.Minute); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	caps.KeyMaxBytes = 1
	if got := ReplayUntil(row, caps, 0); !got.IsZero() {
		t.Errorf("a key longer than honoured: %s", got)
	}
	if got := ReplayUntil(row, provider.Capabilities{}, 0); !got.IsZero() {
		t.Errorf("no key life: %s", got)
	}
	if got := ReplayUntil(ledger.Row{}, provider.Capabilities{KeyLife: time.Hour}, 0); !got.IsZero() {
		t.Errorf("no claim on record: %s", got)
	}
}

func TestWithAppliesLifts(t *testing.T) {
	t.Parallel()
	a := Assessed{
		Class: classify.Result{Class: classify.Unknown},
		Input: Input{Disposition: classify.Hold, Effect: classify.EffectNone, Standing: StandsFailed},
	}
	if got := a.With(Lifts{As: classify.Retry}, NotDeclared); got.Action != Redrive || got.Lift != "as" {
		t.Errorf("claimed class: %+v", got)
	}
	a.Class.Class = classify.Auth
	if got := a.With(Lifts{As: classify.Retry}, NotDeclared); got.Action != Hold {
		t.Errorf("a class that is known is claimed: %+v", got)
	}
	a.Input.Effect, a.Input.Disposition = classify.EffectUnknown, classify.Retry
	if got := a.With(Lifts{}, ByFlag); got.Action != Redrive || got.Lift != "idempotent" {
		t.Errorf("effects by flag: %+v", got)
	}
}

func TestQuestionWithoutHistoryReachesBackToTheRow(t *testing.T) {
	t.Parallel()
	row := ledger.Row{State: ledger.Fenced, Attempt: 2, RequestID: "r2", CreatedAt: noon, FencedAt: noon.Add(time.Hour)}
	q := questionOf(row, time.Minute)
	if len(q.tries) != 2 || !q.earliest.Equal(noon) || !q.quiet.Equal(noon.Add(time.Hour)) || q.requestID != "r2" {
		t.Errorf("got %+v", q)
	}
}
