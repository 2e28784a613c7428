package audit

import "strconv"

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
