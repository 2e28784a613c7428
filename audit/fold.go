package audit

import "strconv"

func formatSeq(n int64) string { return strconv.FormatInt(n, 10) }

// Closes reports whether the record ends the intent of its job: an outcome of
// any step but publish, and inside a run but ledger too, since a run's intent
// covers the ledger's move and what follows it.
func (r Record) Closes() bool {
	if r.Phase != Outcome || r.Action == ActionCheckpoint {
		return false
	}
	return r.Step != StepPublish && (r.Step != StepLedger || r.Run == "")
}

// Ended is how a closing record ended its job: "redriven", "settled" or
// "discarded" for an acknowledgement that was done, "failed" for one that was
// refused, else the record's own result.
func (r Record) Ended() string {
	if r.Step != StepAck {
		return r.Result
	}
	switch r.Result {
	case ResultDone:
		return pastOf(r.Action)
	case ResultRefused:
		return ResultFailed
	default:
		return r.Result
	}
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
