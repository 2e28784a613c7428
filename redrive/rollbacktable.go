package redrive

import (
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Back is what a rollback makes of an item, or finds.
type Back string

// The words for items in a rollback.
const (
	BackTaken   Back = "rolled_back"        // its row is failed now: nobody can claim it
	BackBefore  Back = "rolled_back_before" // so it is since an earlier rollback of the run
	BackClaimed Back = "claimed"            // a worker was faster; what it does is done
	BackLeft    Back = "left"               // its row is not the run's to take back
	BackUnknown Back = "unknown"            // nobody can tell now
	BackNotOut  Back = "not_begun"          // the run has done nothing with it
	BackSettled Back = "settled"            // its effect had happened before
	BackDropped Back = "discarded"          // it is in the archive
)

// whyRolledBack is why a row is failed, or an item skipped, that was taken back.
const whyRolledBack = "rolled_back"

// RolledBack reports that the row stands as a rollback of the run has left it.
func RolledBack(r ledger.Row, run RunID) bool {
	return r.State == ledger.Failed && r.Reason == whyRolledBack && r.Run == string(run)
}

// found is what the rollback table says of one item.
type found struct {
	back Back
	why  string // for what is claimed, left or unknown
	// move is the change that takes it back; nil: there is none to make.
	move *ledger.Change
}

// backOf is the rollback table. Its order is its meaning; it and row are those of
// the edited copy, where that is in its original's place. begun says that the run
// has recorded an intent.
//
//	the plan settles or discards it     nothing: its copy is settled, or archived
//	without an intent                   nothing was done
//	the row is missing                  left: the worker writes it with its claim
//	unreadable                          unknown
//	queued by this run                  failed, same attempt
//	failed by a rollback of this run    nothing more
//	sent, reconciled, or late_accept    claimed; of a second send: nothing was done
//	as planned                          failed, next attempt: a late step 4 loses
//	sending                             claimed
//	failed otherwise                    claimed, where this run queued it; else left
//	fenced, replaced, queued by another left
func backOf(it *Item, run RunID, begun bool, row ledger.Lookup) found {
	switch {
	case it.Action == reconcile.Discard:
		return found{back: BackDropped}
	case it.Action != reconcile.Redrive:
		return found{back: BackSettled}
	case !begun:
		return found{back: BackNotOut}
	case row.Found == ledger.Missing:
		return found{back: BackLeft, why: "row_missing"}
	case row.Found != ledger.Present:
		return found{back: BackUnknown, why: "ledger_unreadable"}
	}
	return backOfRow(it, run, row)
}

func backOfRow(it *Item, run RunID, l ledger.Lookup) found {
	r := l.Row
	switch {
	case r.State.Committed() || r.LateAccept:
		if it.Edit != nil && it.Edit.SecondSend && it.asPlanned(l) {
			return found{back: BackNotOut} // the original's row: the corrected copy has none
		}
		return found{back: BackClaimed, why: "row_" + string(committedAs(r))}
	case r.State == ledger.Queued && r.Run == string(run):
		return found{back: BackTaken, move: it.takenBack(run, r, r.Attempt)}
	case RolledBack(r, run):
		return found{back: BackBefore}
	case r.State != ledger.Sending && r.State != ledger.Replaced && it.asPlanned(l):
		return found{back: BackTaken, move: it.takenBack(run, r, r.Attempt+1)}
	case r.State == ledger.Sending, r.State == ledger.Failed && r.Run == string(run):
		return found{back: BackClaimed, why: "row_" + string(r.State)}
	default:
		return found{back: BackLeft, why: "row_" + string(r.State)}
	}
}

// committedAs is the state of a row whose effect happened; late_accept outweighs
// what the state says.
func committedAs(r ledger.Row) ledger.State {
	if r.State.Committed() {
		return r.State
	}
	return "late_accept"
}

// takenBack is the move of a rollback. The new attempt, or the one that was
// queued, was never claimed, so it proves nothing new of the earlier ones: their
// effect is none only where the plan had that from the row or from a verdict.
func (it *Item) takenBack(run RunID, r ledger.Row, attempt int) *ledger.Change {
	c := &ledger.Change{
		From: r.State, FromAttempt: r.Attempt, FromRun: r.Run,
		To: ledger.Failed, Attempt: attempt, Run: string(run), Reason: whyRolledBack, ErrorClass: string(it.Class),
		Effect: ledger.EffectUnknown,
	}
	switch {
	case it.Row == rowNotAccepted, it.Row == rowRejected:
		c.Effect, c.Resolve = ledger.EffectNone, ledger.ByVerdict
	case it.Row == rowNoEffect, it.Edit != nil: // an edit needs that proof
		c.Effect = string(classify.EffectNone)
	}
	return c
}
