package reconcile

import (
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// EffectInput is what is known of the tries at one job.
type EffectInput struct {
	// Message is the effect that the copy's failure class proves.
	Message classify.Effect
	// Silent: the message tells no reason, so it cannot disagree with the row.
	Silent   bool
	Receives int
	// TriedBefore: it was received before, which its queue has forgotten.
	TriedBefore bool
	// Row is nil where there is no row, or no ledger.
	Row *ledger.Row
	// History: the ledger keeps a history, so Row.Attempts are all tries.
	History bool
	// TransportRetries: the worker's transport sends again by itself.
	TransportRetries bool
}

// EffectOf is the worst effect over all attempts that are not individually
// resolved. Where message and row disagree the worse counts; without a history
// more than one receive means unknown; and none also needs a transport that
// does not retry. A verdict that covers every attempt makes it none.
func EffectOf(in EffectInput) classify.Effect {
	switch {
	case in.Row != nil && (in.Row.State.Committed() || in.Row.LateAccept):
		return classify.EffectUnknown // it happened; no failure proves that nothing was sent
	case in.History && coveredByVerdict(in.Row):
		return classify.EffectNone
	case in.TransportRetries:
		return classify.EffectUnknown
	case in.History && in.Row != nil:
		return effectWithHistory(in)
	case in.Receives > 1 || in.TriedBefore:
		return classify.EffectUnknown
	case in.Row != nil && rowWasTried(*in.Row):
		return known(in.Message).Worse(classify.Effect(in.Row.Effect))
	default:
		return known(in.Message)
	}
}

func effectWithHistory(in EffectInput) classify.Effect {
	if AttemptUnresolved(*in.Row) {
		return classify.EffectUnknown
	}
	if in.Silent && len(in.Row.Attempts) > 0 {
		return classify.EffectNone
	}
	return known(in.Message)
}

// known turns anything but a proven none into unknown.
func known(e classify.Effect) classify.Effect { return e.Worse(classify.EffectNone) }

func rowWasTried(r ledger.Row) bool {
	return r.State != ledger.Queued || !r.ClaimedAt.IsZero() || r.ErrorClass != ""
}

// AttemptUnresolved reports that some try of the row has neither a proven
// outcome nor a verdict. A row that is sending or fenced always has one, and so
// has a failed row whose own effect is unknown and not covered by its history.
func AttemptUnresolved(r ledger.Row) bool {
	if r.State == ledger.Sending || r.State == ledger.Fenced {
		return true
	}
	if _, open := r.EarliestUnresolved(); open {
		return true
	}
	return r.State == ledger.Failed && len(r.Attempts) == 0 && r.Effect != string(classify.EffectNone)
}

// coveredByVerdict reports that reconciliation resolved every attempt. A row
// that was claimed after that has an attempt of its own again.
func coveredByVerdict(r *ledger.Row) bool {
	if r == nil || len(r.Attempts) == 0 || r.State == ledger.Sending || r.State == ledger.Fenced {
		return false
	}
	for _, a := range r.Attempts {
		if a.Resolution != ledger.ByVerdict {
			return false
		}
	}
	return true
}
