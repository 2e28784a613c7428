package audit

import (
	"slices"
	"strconv"
	"time"
)

func formatSeq(n int64) string { return strconv.FormatInt(n, 10) }

// Closes reports whether the record ends the intent of its job. A publish never
// does, nor does an acknowledgement that was not done, for the copy may still be
// there and resume acknowledges it again. Inside a run a ledger outcome does not
// either: a run's intent covers the ledger's move and what follows it.
func (r Record) Closes() bool {
	switch {
	case r.Phase != Outcome || r.Action == ActionCheckpoint || r.Step == StepPublish:
		return false
	case r.Step == StepAck:
		return r.Result == ResultDone
	case r.Step == StepLedger:
		return r.Run == ""
	default:
		return true
	}
}

// Ended is how a closing record ended its job: "redriven", "settled" or
// "discarded" for an acknowledgement, else the record's own result.
func (r Record) Ended() string {
	if r.Step == StepAck {
		return pastOf(r.Action)
	}
	return r.Result
}

func pastOf(action string) string {
	switch action {
	case ActionRedrive:
		return "redriven"
	case ActionSettle:
		return "settled"
	case ActionDiscard:
		return "discarded"
	default:
		return ResultDone
	}
}

// subject is what an intent and its outcomes have in common: in a run the
// copy, elsewhere the action on a job.
type subject struct{ run, copyID, action, jobKey, plan string }

func (r Record) subject() subject {
	if r.Run != "" && r.CopyID != "" {
		return subject{run: r.Run, copyID: r.CopyID}
	}
	return subject{run: r.Run, copyID: r.CopyID, action: r.Action, jobKey: r.JobKey, plan: r.Plan}
}

// openIntents holds the intents that have no closing outcome yet; it grows with
// what is open, not with the log.
type openIntents map[subject]struct{}

func (o openIntents) see(r Record) {
	switch {
	case r.Phase == Intent:
		o[r.subject()] = struct{}{}
	case r.Closes():
		delete(o, r.subject())
	}
}

// CopyState is what the records of one copy in one run add up to. The zero value
// is that of a copy of which nothing is recorded.
type CopyState struct {
	Intent  int64  // sequence of the newest intent that is open; 0: none
	Publish string // the publish result that binds most since the last close
	// How the copy was closed, why, and when; empty while it is not.
	Ended, Reason string
	ClosedAt      time.Time
}

// See takes the copy's next record, in the order of the log. A publish that may
// have happened stays known over later intents until one closes.
func (c *CopyState) See(r Record) {
	switch {
	case r.Phase == Intent:
		*c = CopyState{Intent: r.Seq, Publish: c.Publish}
	case r.Step == StepPublish:
		c.Publish = stronger(c.Publish, r.Result)
	case r.Closes():
		*c = CopyState{Ended: r.Ended(), Reason: r.Reason, ClosedAt: r.Time}
	}
}

// stronger keeps the publish result that binds more: done, then unknown.
func stronger(a, b string) string {
	rank := []string{ResultRefused, ResultUnknown, ResultDone}
	if slices.Index(rank, b) >= slices.Index(rank, a) {
		return b
	}
	return a
}
