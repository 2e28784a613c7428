package redrive

import (
	"errors"
	"strconv"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// JobRecord begins a record about one copy of a job, outside a run. customer makes
// the keyed HMAC that stands for a customer.
func JobRecord(by audit.Who, action string, j job.Job, customer func(id string) string) audit.Record {
	r := by.Record(action)
	r.Queue, r.JobKey, r.MessageID, r.CopyID = j.Queue, j.JobKey, j.Message.MessageID, j.Message.Copy.String()
	r.Customer, r.Period, r.Region = customer(j.CustomerID), j.Period, j.Region
	r.SchemaVersion, r.DeploymentID, r.PayloadSHA256 = j.SchemaVersion, j.DeploymentID, j.PayloadSHA256
	return r
}

// runRecord begins a record of a run.
func (r *Runner) runRecord(action string, run RunID, id PlanID, queue string) audit.Record {
	rec := r.Record(action)
	rec.Run, rec.Plan, rec.Queue = string(run), string(id), queue
	rec.Details = map[string]string{}
	return rec
}

// stepRecord says that the run as a whole has come to a step.
func (s *session) stepRecord(step, reason string) audit.Record {
	rec := s.runRecord(actionRun, s.run, s.id, s.plan.Queue)
	rec.Phase, rec.Step, rec.Result, rec.Reason = audit.Outcome, step, audit.ResultDone, reason
	return rec
}

// itemRecord is what every record about one item of a run says.
func (s *session) itemRecord(w *work) audit.Record {
	it := w.item
	r := s.runRecord(string(w.action), s.run, s.id, s.plan.Queue)
	r.JobKey, r.MessageID, r.CopyID, r.RequestID = it.JobKey, it.MessageID, it.Copy.String(), it.RequestID
	if it.LedgerState != "" && it.LedgerState != rowMissing {
		r.LedgerRow = reconcile.LedgerRowName(s.LedgerName, ledger.Key{JobKey: it.JobKey, Consumer: it.Consumer})
	}
	r.Attempt = w.attempt
	r.Customer, r.Period, r.Region = it.Customer, it.Period, it.Region
	r.SchemaVersion, r.DeploymentID = it.SchemaVersion, it.DeploymentID
	r.PayloadSHA256, r.EvidenceSHA256 = it.PayloadSHA256, it.EvidenceSHA256
	if it.Lift != "" {
		r.Details["lift"] = it.Lift
	}
	if s.glass != "" {
		r.Details[audit.DetailBreakGlass] = "true"
	}
	if it.Republish {
		r.Details["republish"] = "duplicates"
	}
	if it.Unwrap {
		r.Details["unwrap"] = "true"
		r.Details["message_sha256"], r.Details["sent_body_sha256"], r.Details["sent_sha256"] = it.MessageSHA256, it.BodySHA256, it.SentSHA256
	}
	if it.Edit != nil {
		it.Edit.describe(r, s.plan.Lifts.Edit)
	}
	return r
}

func (s *session) intentRecord(w *work) audit.Record {
	r := s.itemRecord(w)
	r.Phase = audit.Intent
	r.Transition, r.Reason = s.transition(w), w.item.Why
	if w.item.Destination != "" {
		r.Details["destination"] = w.item.Destination
	}
	r.Details["class"], r.Details["decision_row"] = string(w.item.Class), strconv.Itoa(w.item.Row)
	return r
}

// outcomeRecord tells how one step of an item ended.
func (s *session) outcomeRecord(w *work, step string, r broker.Result) audit.Record {
	rec := s.itemRecord(w)
	rec.Phase, rec.Step, rec.Result = audit.Outcome, step, r.Outcome.String()
	if r.Err != nil {
		rec.Reason = reasonOf(r.Err)
	}
	if r.NewMessageID != "" {
		rec.Details["new_message_id"] = r.NewMessageID
	}
	return rec
}

// closeRecords end an item that did not go through all its steps. A publish that
// may have happened before a crash is recorded first, so that no later plan
// takes the job for one that was never sent.
func (s *session) closeRecords(w *work, e ItemEnd) []audit.Record {
	rec := s.itemRecord(w)
	rec.Phase, rec.Step, rec.Result, rec.Reason = audit.Outcome, audit.StepClose, e.Result, e.Reason
	if !w.doubt {
		return []audit.Record{rec}
	}
	return []audit.Record{s.outcomeRecord(w, audit.StepPublish, broker.Result{Err: errCrashed}), rec}
}

// errCrashed is why the outcome of a publish is not known.
var errCrashed = errors.New("the process ended between intent and outcome")

// transition words the ledger's move that an intent covers.
func (s *session) transition(w *work) string {
	c, ok := changeOf(w.item, s.run, w.action)
	if !ok || !s.writable() {
		return ""
	}
	return string(c.From) + " -> " + string(c.To)
}

// endOf is how an item ended whose last step succeeded.
func endOf(a reconcile.Action) ItemEnd {
	switch a {
	case reconcile.Settle:
		return ItemEnd{Result: endSettled}
	case reconcile.Discard:
		return ItemEnd{Result: endDiscarded}
	default:
		return ItemEnd{Result: endRedriven}
	}
}
