package redrive

import (
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// rowMissing is Item.LedgerState where the ledger has no row for the job.
const rowMissing = "missing"

// changeOf is the ledger's move for one item; ok is false where step 4 has
// nothing to write. From is always what was planned, so that a row that moved
// since loses the compare-and-set.
//
//	action   planned as          becomes             attempt
//	redrive  failed n            queued by this run  n+1
//	redrive  fenced n            queued by this run  n+1
//	redrive  queued n by run r   queued by this run  n    (never claimed: no try was made)
//	redrive  missing             nothing: the worker writes the row with its claim
//	settle   queued … failed n   reconciled          n    (the verdict covers up to n)
//	settle   sent, reconciled, replaced, missing     nothing
//	discard  queued, fenced n      failed             n
//	discard  failed n              failed             n+1  (so that a re-queue planned before loses)
//	discard  missing               nothing
//
// A discarded row is not retryable, so that nobody claims it, and carries the
// run's ID.
//
// A row that is sending is never moved here: only its fence, set past the send
// deadline, makes it certain that the sender has stopped.
func changeOf(it *Item, run RunID, a reconcile.Action) (ledger.Change, bool) {
	if it.LedgerState == "" || it.LedgerState == rowMissing || it.LedgerAttempt == nil {
		return ledger.Change{}, false
	}
	c := ledger.Change{
		Key:         ledger.Key{JobKey: it.JobKey, Consumer: it.Consumer},
		From:        ledger.State(it.LedgerState),
		FromAttempt: *it.LedgerAttempt,
		FromRun:     it.LedgerRun,
		Attempt:     *it.LedgerAttempt,
		Run:         string(run),
		Reason:      it.Why,
	}
	switch {
	case a == reconcile.Settle:
		return settled(c, it)
	case a == reconcile.Discard:
		return discarded(c, it)
	case it.Edit != nil:
		return it.editChange(c)
	default:
		return queued(c, it)
	}
}

func queued(c ledger.Change, it *Item) (ledger.Change, bool) {
	switch c.From {
	case ledger.Failed, ledger.Fenced:
		c.Attempt++
	case ledger.Queued:
	default:
		return ledger.Change{}, false
	}
	c.To, c.SendBefore = ledger.Queued, it.SendBefore
	return c, true
}

func settled(c ledger.Change, it *Item) (ledger.Change, bool) {
	switch c.From {
	case ledger.Queued, ledger.Sending, ledger.Fenced, ledger.Failed:
		c.To, c.Resolve, c.RequestID = ledger.Reconciled, ledger.ByVerdict, it.RequestID
		return c, true
	default:
		return ledger.Change{}, false
	}
}

// discarded: what a verdict covers, or a proven failure, had no effect; only what
// nobody could be asked about stays unknown.
func discarded(c ledger.Change, it *Item) (ledger.Change, bool) {
	switch c.From {
	case ledger.Queued:
	case ledger.Fenced:
		c.Resolve = ledger.ByVerdict
	case ledger.Failed:
		c.Attempt++
	default:
		return ledger.Change{}, false
	}
	c.To, c.Reason = ledger.Failed, reasonDiscarded
	c.ErrorClass, c.Effect = string(it.Class), ledger.EffectNone
	if it.Why == reconcile.WhyNobodyToAsk {
		c.Effect, c.Resolve = ledger.EffectUnknown, ledger.Unresolved
	}
	return c, true
}

// reasonDiscarded is why a discarded row is failed.
const reasonDiscarded = "discarded"

// asPlanned reports that the row still is what the plan froze: state, attempt,
// and, of a queued row, its run.
func (it *Item) asPlanned(l ledger.Lookup) bool {
	switch {
	case l.Found == ledger.Missing:
		return it.LedgerState == rowMissing
	case l.Found != ledger.Present || it.LedgerAttempt == nil:
		return false
	case string(l.Row.State) != it.LedgerState || l.Row.Attempt != *it.LedgerAttempt:
		return false
	default:
		return l.Row.State != ledger.Queued || l.Row.Run == it.LedgerRun
	}
}

// achieved reports that the row is what c makes of it: the reply was lost, but
// the change was won. A row of this run is its own proof, since no other
// process can write under the run's ID while its lease holds.
func achieved(c ledger.Change, r ledger.Row) bool {
	if c.Replace != nil {
		return r.State == c.To && r.ReplacedBy == c.Replace.Key.JobKey
	}
	if c.To == ledger.Reconciled {
		return r.State.Committed()
	}
	return r.State == c.To && r.Run == c.Run && r.Attempt == c.Attempt
}
