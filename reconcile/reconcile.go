// Package reconcile decides what may be done with a quarantined job. It turns
// the provider's evidence into a verdict, and ledger, verdict and policy into
// an action. The rule it keeps: nothing unknown ever becomes a redrive.
package reconcile

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// Verdict is what the provider's records prove.
type Verdict string

// The verdicts. None means that the provider was not asked.
const (
	None          Verdict = ""
	Accepted      Verdict = "accepted"
	Rejected      Verdict = "rejected"
	NotAccepted   Verdict = "not_accepted"
	ProvisionalNo Verdict = "provisional_no"
	TooEarly      Verdict = "too_early"
	TooOld        Verdict = "too_old"
	Ambiguous     Verdict = "ambiguous"
	Unavailable   Verdict = "unavailable"
)

// AllVerdicts are all but None.
func AllVerdicts() []Verdict {
	return []Verdict{Accepted, Rejected, NotAccepted, ProvisionalNo, TooEarly, TooOld, Ambiguous, Unavailable}
}

// Action is what may be done with a job now.
type Action string

// The four actions.
const (
	Redrive Action = "redrive"
	Settle  Action = "settle"
	Discard Action = "discard"
	Hold    Action = "hold"
)

// Evidence is what a verdict rests on. Its digest is what plans and audit
// records carry.
type Evidence struct {
	Looks       []provider.Evidence `json:"looks"`             // first look, second look
	Control     string              `json:"control,omitempty"` // the job key of the positive control that was visible
	Fenced      bool                `json:"fenced"`
	FencedAt    time.Time           `json:"fenced_at,omitzero"`
	ClockOffset float64             `json:"clock_offset_seconds"`
	RequestID   string              `json:"request_id,omitempty"`
	Why         string              `json:"why"`
}

// Found is a verdict on one job with its evidence, as kept in the store.
type Found struct {
	Queue   string
	JobKey  string
	Attempt int // the verdict covers all attempts up to this one
	Verdict Verdict
	At      time.Time
	// Until is when a TooEarly look-up may be tried again.
	Until          time.Time
	Evidence       Evidence
	EvidenceSHA256 string
}

// Assessed is one job with everything that is known of it.
type Assessed struct {
	Job   job.Job
	Class classify.Result
	// Effect is the worst over all attempts that are not resolved.
	Effect classify.Effect
	// Row is nil where the queue has no ledger.
	Row     *ledger.Lookup
	Verdict *Found      // nil: none on record for the row's attempt
	Hold    *ManualHold // nil: nobody reviews the job
	// BoundTo is the queue's region where the message names another; else empty.
	BoundTo string
	// Input is what the decision rests on. With decides again under a plan's
	// lifts.
	Input    Input
	Decision Decision
}

// Decision is the action for one job and the reason for it.
type Decision struct {
	Action Action
	// Row is the row of the decision table that matched, from 1; 0: a manual hold
	// or another region, which stand before the table.
	Row   int
	Why   string // short, stable, snake_case: what outputs count by
	Needs string // for hold: what would lift it, in words a person can act on
	// Lift names the plan option whose risk this action accepted: "provisional",
	// "duplicates", "fixed", "as", "idempotent"; empty when it is proven.
	Lift string
}
