package reconcile

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// StandingInput is what StandingOf looks at.
type StandingInput struct {
	// Row is nil where the queue has no ledger.
	Row          *ledger.Lookup
	Capabilities ledger.Capabilities
	Now          time.Time     // the ledger's clock
	ClaimLife    time.Duration // bounds a claim where the ledger records no deadline
	// Seen is the newest that the store has seen of the row; nil: nothing.
	Seen *SeenRow
	// JobAt is when the job was sent, as far as its message tells.
	JobAt time.Time
	// RunLives: the run that queued the row lives.
	RunLives bool
	// ReplacementSent: the row that replaced this one is sent or reconciled.
	ReplacementSent bool
	// SharedOrigin: several consumers take from the queue's origin.
	SharedOrigin bool
}

// StandingOf says where a job stands in the ledger. It keeps the order of the
// decision table: a proven effect first, then what is in flight, then doubt
// about the row itself, then its state.
func StandingOf(in StandingInput) Standing {
	switch {
	case in.Row == nil:
		return NoLedger
	case in.Row.Found == ledger.Missing:
		return standingMissing(in)
	case in.Row.Found != ledger.Present:
		return RowUnreadable
	case in.SharedOrigin && !in.Capabilities.Scoped:
		return Unscoped
	default:
		return standingPresent(in, in.Row.Row)
	}
}

// standingMissing: a row that was seen once is missing whatever else is said of
// it, and one beyond the retention may have been purged after a success.
func standingMissing(in StandingInput) Standing {
	switch {
	case in.SharedOrigin && !in.Capabilities.Scoped:
		return Unscoped
	case in.Capabilities.Retention > 0 && !in.JobAt.IsZero() && in.Now.Sub(in.JobAt) > in.Capabilities.Retention:
		return Purged
	case in.Seen != nil || in.Capabilities.RowWritten != ledger.AtClaim:
		return RowMissing
	default:
		return NotWritten
	}
}

func standingPresent(in StandingInput, r ledger.Row) Standing {
	switch {
	case r.State.Committed() || r.LateAccept:
		return Committed
	case r.State == ledger.Replaced && in.ReplacementSent:
		return ReplacementSent
	case r.State == ledger.Replaced:
		return StandsReplaced
	case r.State == ledger.Queued && in.RunLives,
		r.State == ledger.Sending && in.Now.Before(sendDeadline(r, in.ClaimLife)):
		return InFlight
	case older(r, in.Seen):
		return RowOlder
	default:
		return standingByState(r)
	}
}

func standingByState(r ledger.Row) Standing {
	switch r.State {
	case ledger.Queued:
		if claimed(r) {
			return QueuedClaimed
		}
		return NeverClaimed
	case ledger.Sending:
		return SendingPast
	case ledger.Fenced:
		return StandsFenced
	case ledger.Failed:
		return StandsFailed
	default:
		return RowUnreadable
	}
}

// claimed reports that a worker has claimed the attempt at which the row is
// queued. Without a history any sign of a claim counts.
func claimed(r ledger.Row) bool {
	if r.Attempts == nil {
		return !r.ClaimedAt.IsZero()
	}
	for _, a := range r.Attempts {
		if a.Number >= r.Attempt {
			return true
		}
	}
	return false
}

// older reports that the row lies before what was already seen of it: it was
// restored from a backup, or read from a lagging replica.
func older(r ledger.Row, seen *SeenRow) bool {
	return seen != nil && (r.Attempt < seen.Attempt || r.UpdatedAt.Before(seen.UpdatedAt))
}

// teaches reports that the row tells more than was seen, and is not older.
func (s SeenRow) teaches(r ledger.Row) bool {
	return !older(r, &s) && (r.State != s.State || r.Attempt != s.Attempt || !r.UpdatedAt.Equal(s.UpdatedAt))
}

// sendDeadline is when a claim of the row ends at the latest. A ledger that
// records no deadline is given claimLife from the claim, or from the row's last
// change where it records no claim either.
func sendDeadline(r ledger.Row, claimLife time.Duration) time.Time {
	switch {
	case !r.SendDeadline.IsZero():
		return r.SendDeadline
	case !r.ClaimedAt.IsZero():
		return r.ClaimedAt.Add(claimLife)
	default:
		return r.UpdatedAt.Add(claimLife)
	}
}

// Abandoned reports that nobody would finish a row as of a moment: it was fenced,
// or sending past its deadline. With no copy in its queue it is an orphan.
func Abandoned(r ledger.Row, at time.Time, claimLife time.Duration) bool {
	switch {
	case r.LateAccept:
		return false
	case r.State == ledger.Sending:
		return !at.Before(sendDeadline(r, claimLife))
	default:
		return r.State == ledger.Fenced
	}
}
