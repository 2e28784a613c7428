package reconcile

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// Classifier is the policy as this package needs it.
type Classifier interface {
	Classify(j job.Job, now time.Time) classify.Result
	// Of is the result for a class that something else than a rule decided.
	Of(c classify.Class, rule string) classify.Result
}

// Settings are the queue's and the reconciliation's, defaults filled in.
type Settings struct {
	Queue      string // as configured; verdicts are kept by it
	Consumer   string // the consumer whose rows these are
	Region     string // that the queue is bound to; empty: any
	LedgerName string // as configured; names the ledger in memory and records
	// SharedOrigin: the queue's origin has several consumers.
	SharedOrigin bool
	// SharedRows: rows of this consumer may be another queue's, which has another
	// provider or worker. What has no copy here cannot be told from theirs, and is
	// not asked about.
	SharedRows bool
	// ClaimLife bounds a claim where the ledger records no deadline. MaxPause is
	// how long a worker may stand still between its check and its send.
	ClaimLife, MaxPause          time.Duration
	ClockMargin, SecondLookAfter time.Duration
	// TransportRetries: the worker's transport sends again by itself.
	TransportRetries bool
	// Declared: the configuration says that a repeated effect is harmless.
	Declared Declared
}

// Reconciler finds out what became of a queue's jobs. Ledger and Provider may be
// nil; everything else must be set. It keeps no state between calls.
type Reconciler struct {
	Ledger   ledger.Ledger
	Provider provider.Provider
	Log      audit.Log
	Verdicts Verdicts
	Memory   Memory
	Holds    Holds
	RunLives RunLives
	Policy   Classifier
	Settings Settings

	Now func() time.Time
	// Sleep waits for d or until ctx ends, whichever is first.
	Sleep func(ctx context.Context, d time.Duration) error

	audit.Who
	// Customer is the keyed HMAC of a customer's ID; nil: records name none.
	Customer func(id string) string
	// Open lists the intents of fences and moves in a queue that have no outcome
	// yet, so that Run can close what a crash left; nil: they stay open.
	Open func(ctx context.Context, queue string) ([]audit.Record, error)
}

// With decides again under a plan's lifts. A claimed class replaces the
// disposition only where the class is unknown. effects is the declaration that
// the plan adds; it never takes back the configuration's. A manual hold is above
// all of them, and so is the region that the queue is bound to.
func (a Assessed) With(l Lifts, effects Declared) Decision {
	switch {
	case a.Hold != nil:
		return a.Hold.decision()
	case a.BoundTo != "":
		return regionDecision(a.BoundTo)
	}
	in := a.Input
	in.Lifts = l
	if a.Class.Class != classify.Unknown {
		in.Lifts.As = ""
	}
	if in.Declared == NotDeclared {
		in.Declared = effects
	}
	d := Decide(in)
	nameTime(&d, a.Verdict)
	if d.Why == string(BlockNotWhole) && a.Job.WhyNot != "" {
		d.Needs = needsWhole + ", since " + a.Job.WhyNot
	}
	return d
}

// nameTime puts the time into what a too early verdict needs.
func nameTime(d *Decision, f *Found) {
	if d.Why == string(TooEarly) && f != nil && !f.Until.IsZero() {
		d.Needs = "the provider's delay to pass: reconcile again after " + f.Until.UTC().Format(time.RFC3339)
	}
}

// LedgerRowName is how records name a row: ledger, consumer, job key.
func LedgerRowName(ledgerName string, k ledger.Key) string {
	return ledgerName + "/" + k.Consumer + "/" + k.JobKey
}
