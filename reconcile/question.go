package reconcile

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// question is what is asked about a row: the tries whose outcome is not known,
// and the time in which they can have sent.
type question struct {
	tries     []Try
	known     []Try // the other attempts, whose outcome is known
	requestID string
	earliest  time.Time // zero: not known
	quiet     time.Time // after that none of them can send; zero: not known
}

// questionOf asks about the unresolved attempts, or, where message and row
// disagree and none is, about all that no verdict covers. claimLife stands in
// for a deadline that an unfenced row does not record.
func questionOf(row ledger.Row, claimLife time.Duration) question {
	as, known := openAttempts(row)
	if len(as) == 0 {
		return questionWithoutHistory(row, claimLife)
	}
	q := question{tries: triesOf(as), known: triesOf(known), earliest: as[0].ClaimedAt}
	undated := false
	for _, a := range as {
		if a.RequestID != "" {
			q.requestID = a.RequestID
		}
		if a.ClaimedAt.Before(q.earliest) {
			q.earliest = a.ClaimedAt
		}
		q.quiet = latest(q.quiet, a.SendDeadline)
		undated = undated || a.SendDeadline.IsZero()
	}
	if undated {
		q.quiet = latest(q.quiet, quietWithoutDeadline(row, claimLife))
	}
	return q
}

// openAttempts are those in question, and the others.
func openAttempts(row ledger.Row) (open, known []ledger.Attempt) {
	inQuestion := func(a ledger.Attempt) bool { return a.Resolution != ledger.ByVerdict }
	if _, unresolved := row.EarliestUnresolved(); unresolved {
		inQuestion = func(a ledger.Attempt) bool { return a.Resolution == ledger.Unresolved }
	}
	for _, a := range row.Attempts {
		if inQuestion(a) {
			open = append(open, a)
		} else {
			known = append(known, a)
		}
	}
	return open, known
}

func triesOf(as []ledger.Attempt) []Try {
	var ts []Try
	for _, a := range as {
		ts = append(ts, Try{Number: a.Number, RequestID: a.RequestID})
	}
	return ts
}

// questionWithoutHistory goes by the row alone: the attempts before its last
// can lie as far back as the row itself.
func questionWithoutHistory(row ledger.Row, claimLife time.Duration) question {
	q := question{
		tries: []Try{{Number: row.Attempt, RequestID: row.RequestID}}, requestID: row.RequestID,
		earliest: row.CreatedAt, quiet: row.SendDeadline,
	}
	for n := 1; n < row.Attempt; n++ {
		q.tries = append(q.tries, Try{Number: n})
	}
	if q.quiet.IsZero() {
		q.quiet = quietWithoutDeadline(row, claimLife)
	}
	return q
}

// quietWithoutDeadline: the fence's time where there is one, else the end of
// the claim as the worker's settings have it.
func quietWithoutDeadline(row ledger.Row, claimLife time.Duration) time.Time {
	if row.State == ledger.Fenced {
		return row.FencedAt
	}
	return sendDeadline(row, claimLife)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
