package cmd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// Whose clock an entry is by. Entries of different clocks can stand in an order
// in which they did not happen, as far as the clocks disagree.
const (
	clockBroker   = "broker"
	clockMessage  = "message" // whoever wrote the message says so
	clockLedger   = "ledger"
	clockProvider = "provider"
	clockOperator = "operator" // the machine on which redrivectl ran
)

// traceEntry is one thing that happened to a job.
type traceEntry struct {
	At        time.Time `json:"at"`
	Clock     string    `json:"clock"`
	Source    string    `json:"source"`
	What      string    `json:"what"`
	Who       *string   `json:"who"`
	JobKey    *string   `json:"job_key"`
	LedgerRow *string   `json:"ledger_row"`
	MessageID *string   `json:"message_id"`
	RequestID *string   `json:"request_id"`
	CopyID    *string   `json:"copy_id"`
	Queue     *string   `json:"queue"`
	Attempt   *int      `json:"attempt"`
	Plan      *string   `json:"plan"`
	Run       *string   `json:"run"`
	Digest    *string   `json:"evidence_sha256"`
	Record    *string   `json:"audit_seq"`
}

// sortEntries puts entries in the order of their times. One that a copy and its
// capture both tell is kept once, from the copy.
func sortEntries(es []traceEntry) []traceEntry {
	type same struct{ at, what, copyID string }
	seen := map[same]bool{}
	kept := es[:0:0]
	for _, e := range es {
		k := same{e.At.Format(time.RFC3339Nano), e.What, or(e.CopyID)}
		if e.CopyID != nil && e.Record == nil && seen[k] {
			continue
		}
		seen[k] = true
		kept = append(kept, e)
	}
	slices.SortStableFunc(kept, func(x, y traceEntry) int { return x.At.Compare(y.At) })
	return kept
}

// copyEntries are what a copy itself tells of its past.
func copyEntries(source string, j job.Job) []traceEntry {
	m := j.Message
	var es []traceEntry
	add := func(at time.Time, clock, what string) {
		if at.IsZero() {
			return
		}
		es = append(es, traceEntry{
			At: at.UTC(), Clock: clock, Source: source, What: what, JobKey: text(j.JobKey),
			MessageID: text(m.MessageID), CopyID: text(m.Copy.String()), Queue: text(j.Queue),
		})
	}
	sent := "sent"
	if m.Origin != "" {
		sent += " to " + m.Origin
	}
	add(m.SentAt, clockBroker, sent)
	add(m.FirstReceivedAt, clockBroker, "first received")
	add(j.Failure.At, clockMessage, "failed: "+failureText(j.Failure))
	return es
}

func failureText(f job.Failure) string {
	kind := cmp.Or(f.Type, f.Code, "no reason told")
	if f.Message != "" {
		kind += ": " + f.Message
	}
	return term.Mask(kind)
}

func rowEntries(ledgerName string, r ledger.Row) []traceEntry {
	base := traceEntry{
		Clock: clockLedger, Source: "ledger", JobKey: text(r.JobKey),
		LedgerRow: text(reconcile.LedgerRowName(ledgerName, r.Key)),
	}
	if len(r.Events) == 0 {
		e := base
		e.At, e.Attempt, e.RequestID, e.Run = r.UpdatedAt.UTC(), &r.Attempt, text(r.RequestID), text(r.Run)
		e.What = "last changed: " + string(r.State)
		return []traceEntry{e}
	}
	es := make([]traceEntry, len(r.Events))
	for i, ev := range r.Events {
		e := base
		e.At, e.Who, e.Attempt, e.RequestID, e.Run = ev.At.UTC(), text(ev.Actor), &ev.Attempt, text(ev.RequestID), text(ev.Run)
		e.What = newEventView(ev).move() + replacement(r, i)
		for _, s := range []string{ev.ErrorClass, ev.Reason} {
			if s != "" {
				e.What += ", " + term.Mask(s)
			}
		}
		es[i] = e
	}
	return es
}

// replacement names the edited job that goes in the place of this one since the
// event, for the trace to go on with. Of several edits the row keeps the latest.
func replacement(r ledger.Row, event int) string {
	toReplaced := func(e ledger.Event) bool { return e.To == ledger.Replaced }
	if r.ReplacedBy == "" || !toReplaced(r.Events[event]) || slices.ContainsFunc(r.Events[event+1:], toReplaced) {
		return ""
	}
	return " by " + r.ReplacedBy
}

func verdictEntry(f reconcile.Found) traceEntry {
	e := traceEntry{
		At: f.At.UTC(), Clock: clockLedger, Source: "verdict", What: "verdict " + string(f.Verdict), JobKey: text(f.JobKey),
		RequestID: text(f.Evidence.RequestID), Queue: text(f.Queue), Digest: text(f.EvidenceSHA256),
	}
	if f.Attempt > 0 {
		e.Attempt = &f.Attempt
	} else {
		e.Clock = clockOperator // there was no row, and so no ledger to ask for the time
	}
	if f.Evidence.Why != "" {
		e.What += ": " + term.Mask(f.Evidence.Why)
	}
	return e
}

func planEntry(p redrive.StoredPlan, it redrive.Item) traceEntry {
	return traceEntry{
		At: p.Plan.CreatedAt.UTC(), Clock: clockOperator, Source: "plan", Who: text(p.Plan.Requester),
		What:   "planned: " + string(it.Action) + ", " + it.Why + "; the plan is " + string(p.State),
		JobKey: text(it.JobKey), MessageID: text(it.MessageID), RequestID: text(it.RequestID), CopyID: text(it.Copy.String()),
		Queue: text(p.Plan.Queue), Attempt: it.LedgerAttempt, Plan: text(string(p.ID)), Digest: text(it.EvidenceSHA256),
	}
}

func approvalEntry(queue string, ap redrive.Approval) traceEntry {
	return traceEntry{
		At: ap.NotBefore.UTC(), Clock: clockOperator, Source: "approval", Who: text(ap.Approver), Queue: text(queue),
		What: ap.Decision + ": " + term.Mask(ap.Reason), Plan: text(string(ap.Plan)),
	}
}

func runEntries(r redrive.RunRecord) []traceEntry {
	e := traceEntry{
		At: r.StartedAt.UTC(), Clock: clockOperator, Source: "run", What: "run began", Who: text(r.Holder),
		Queue: text(r.Queue), Plan: text(string(r.Plan)), Run: text(string(r.ID)),
	}
	if r.EndedAt.IsZero() {
		return []traceEntry{e}
	}
	end := e
	end.At, end.What = r.EndedAt.UTC(), "run ended: "+string(r.State)
	return []traceEntry{e, end}
}

func archiveEntry(k store.Kept) traceEntry {
	m := k.Job.Message
	return traceEntry{
		At: k.At.UTC(), Clock: clockOperator, Source: "archive", What: "archived whole, to " + string(k.Action),
		JobKey: text(k.Job.JobKey), MessageID: text(m.MessageID), CopyID: text(m.Copy.String()),
		Queue: text(k.Queue), Plan: text(string(k.Plan)), Run: text(string(k.Run)),
	}
}

func auditEntry(r audit.Record) traceEntry {
	parts := []string{r.Action}
	for _, s := range []string{string(r.Phase), r.Step, r.Result, r.Transition} {
		if s != "" && s != string(audit.Outcome) {
			parts = append(parts, s)
		}
	}
	what := strings.Join(parts, " ")
	if r.Reason != "" {
		what += ": " + term.Mask(r.Reason)
	}
	return traceEntry{
		At: r.Time.UTC(), Clock: clockOperator, Source: "audit", What: what, Who: text(r.Actor.Name),
		JobKey: text(r.JobKey), LedgerRow: text(r.LedgerRow), MessageID: text(r.MessageID), RequestID: text(r.RequestID),
		CopyID: text(r.CopyID), Queue: text(r.Queue), Attempt: r.Attempt, Plan: text(r.Plan), Run: text(r.Run),
		Digest: text(r.EvidenceSHA256), Record: text(strconv.FormatInt(r.Seq, 10)),
	}
}
