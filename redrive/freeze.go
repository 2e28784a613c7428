package redrive

import (
	"time"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// frozen is what a plan keeps of an assessed job. The planner stores it and the
// run's re-check compares against it, so both see a job in the same way.
func frozen(a reconcile.Assessed, j job.Job) Item {
	it := Item{
		Copy: j.Message.Copy, MessageID: j.Message.MessageID, JobKey: j.JobKey,
		Origin: j.Message.Origin, OrderKey: j.Message.OrderKey,
		PayloadSHA256: j.PayloadSHA256, BodySHA256: j.BodySHA256, MessageSHA256: j.MessageSHA256,
		Unwrap: j.Original != nil, SentSHA256: j.SentSHA256,
		Class: a.Class.Class, Rule: a.Class.Rule, Effect: a.Effect, Disposition: a.Class.Disposition,
		Action: a.Decision.Action, Row: a.Decision.Row, Why: a.Decision.Why, Lift: a.Decision.Lift,
		Subject: j.Subject, Version: j.Version, Period: j.Period, Region: j.Region,
		SchemaVersion: j.SchemaVersion, DeploymentID: j.DeploymentID, Receives: j.Message.Receives,
	}
	if a.Verdict != nil {
		it.Verdict, it.EvidenceSHA256, it.RequestID = a.Verdict.Verdict, a.Verdict.EvidenceSHA256, a.Verdict.Evidence.RequestID
	}
	if a.Row != nil {
		it.freezeRow(*a.Row)
	}
	return it
}

func (it *Item) freezeRow(l ledger.Lookup) {
	if l.Found != ledger.Present {
		it.LedgerState = string(l.Found)
		return
	}
	it.LedgerState, it.LedgerAttempt = string(l.Row.State), &l.Row.Attempt
	if l.Row.State == ledger.Queued {
		it.LedgerRun = l.Row.Run
	}
	if it.RequestID == "" {
		it.RequestID = l.Row.RequestID
	}
}

// isText reports that everything by which an item is recognised survives JSON.
func (it *Item) isText() bool {
	for _, s := range []string{
		it.Copy.Entity, it.Copy.ID, it.MessageID, it.JobKey, it.Consumer, it.Origin, it.OrderKey,
		it.Destination, it.Rule, it.LedgerRun, it.RequestID, it.Subject, it.Version,
	} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// sendBefore bounds the claim of a new attempt while an earlier one is
// unresolved, or the redrive rests on the provider's key: the provider must
// still honour the job key, and the job must not be too old. Zero where neither
// holds or nothing bounds it.
func sendBefore(a reconcile.Assessed, q QueueFacts) time.Time {
	if a.Row == nil || a.Row.Found != ledger.Present || !q.LedgerSendBefore {
		return time.Time{}
	}
	_, open := a.Row.Row.EarliestUnresolved()
	if !open && !a.Input.Unresolved && a.Decision.Row != rowReplaySafe {
		return time.Time{}
	}
	var bound time.Time
	if q.Provider != nil {
		bound = reconcile.ReplayUntil(a.Row.Row, *q.Provider, q.MaxPause)
	}
	for _, age := range []time.Duration{q.MaxAge, a.Class.MaxAge} {
		if age <= 0 || a.Job.Message.SentAt.IsZero() {
			continue
		}
		if t := a.Job.Message.SentAt.Add(age); bound.IsZero() || t.Before(bound) {
			bound = t
		}
	}
	if bound.IsZero() {
		return time.Time{}
	}
	return bound.UTC()
}
