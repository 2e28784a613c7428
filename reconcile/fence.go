package reconcile

import (
	"context"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

const (
	actionFence     = "fence"
	actionReconcile = "reconcile"
	actor           = "redrivectl reconcile"
)

// fence takes the rows from their workers, each under an intent of its own, so
// that nobody can send or complete while the provider is asked.
func (w *work) fence(ctx context.Context) error {
	var open []*subject
	for _, s := range w.subjects {
		if s.fenceable() {
			open = append(open, s)
		}
	}
	return inBatches(open, func(batch []*subject, done int) error {
		defer w.progress(Progress{Step: "fence", Done: done, Total: len(open)})
		return w.fenceBatch(ctx, batch)
	})
}

// fenceable: an assessed row that is not in flight, in a state that can be
// fenced. A row in doubt stays as it is.
func (s *subject) fenceable() bool {
	switch s.standing {
	case SendingPast, QueuedClaimed, NeverClaimed, StandsFailed:
		return s.row != nil && !s.fenced
	default:
		return false
	}
}

func (w *work) fenceBatch(ctx context.Context, batch []*subject) error {
	intents := make([]audit.Record, len(batch))
	changes := make([]ledger.Change, len(batch))
	for i, s := range batch {
		intents[i] = w.auditRecord(actionFence, audit.Intent, s)
		intents[i].Transition = transition(s.row.State, ledger.Fenced)
		changes[i] = ledger.Change{
			Key: s.key, From: s.row.State, FromAttempt: s.row.Attempt, FromRun: s.row.Run,
			To: ledger.Fenced, Attempt: s.row.Attempt, Actor: actor, Reason: "outcome unknown: reconcile",
		}
	}
	if _, err := w.Log.Append(ctx, intents...); err != nil {
		return err
	}
	crash.At("reconcile.fence.intent")
	results := w.Ledger.Apply(ctx, changes)
	crash.At("reconcile.fence.ledger")
	return w.fenced(context.WithoutCancel(ctx), batch, intents, results)
}

// fenced records what became of the fences. The rows are read again with their
// history; only a row that is seen to be fenced counts as such.
func (w *work) fenced(ctx context.Context, batch []*subject, intents []audit.Record, results []ledger.Result) error {
	now := w.reread(ctx, batch)
	outcomes := make([]audit.Record, len(batch))
	for i, s := range batch {
		outcomes[i] = intents[i]
		outcomes[i].Phase = audit.Outcome
		lk := now[i]
		same := lk.Found == ledger.Present && lk.Row.Attempt == s.row.Attempt
		switch {
		case same && lk.Row.State == ledger.Fenced:
			outcomes[i].Result = audit.ResultDone
			s.setRow(lk.Row, w.Settings.ClaimLife)
			s.standing = StandsFenced
		case lk.Found == ledger.Present:
			outcomes[i].Result, outcomes[i].Reason = audit.ResultRefused, "row is "+string(lk.Row.State)
			s.lost = !same || lk.Row.State != s.row.State
		default:
			outcomes[i].Result, s.lost = audit.ResultUnknown, true
			outcomes[i].Reason = reasonOf(results[i].Err, lk.Err)
		}
	}
	if _, err := w.Log.Append(ctx, outcomes...); err != nil {
		return err
	}
	crash.At("reconcile.fence.outcome")
	return nil
}

func (w *work) reread(ctx context.Context, batch []*subject) []ledger.Lookup {
	keys := make([]ledger.Key, len(batch))
	for i, s := range batch {
		keys[i] = s.key
	}
	return w.Ledger.Get(ctx, keys)
}

func reasonOf(errs ...error) string {
	for _, err := range errs {
		if err != nil {
			return err.Error()
		}
	}
	return "the ledger did not say"
}

const arrow = "→"

func transition(from, to ledger.State) string { return string(from) + arrow + string(to) }

func targetOf(transition string) ledger.State {
	_, to, _ := strings.Cut(transition, arrow)
	return ledger.State(to)
}
