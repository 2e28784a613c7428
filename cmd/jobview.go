package cmd

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// jobView is the JOB shape of docs/json-output.md. A value that is not known is
// null, never an empty guess.
type jobView struct {
	JobKey         *string    `json:"job_key"`
	MessageID      string     `json:"message_id"`
	CopyID         string     `json:"copy_id"`
	LedgerRow      *string    `json:"ledger_row"`
	RequestID      *string    `json:"request_id"`
	Queue          string     `json:"queue"`
	Origin         *string    `json:"origin"`
	QuarantinedBy  string     `json:"quarantined_by"`
	Class          string     `json:"class"`
	Rule           string     `json:"rule"`
	Effect         string     `json:"effect"`
	Disposition    string     `json:"disposition"`
	Owner          *string    `json:"owner"`
	Reason         reasonView `json:"reason"`
	Redrivable     bool       `json:"redrivable"`
	WhyNot         *string    `json:"why_not_redrivable"`
	Unwrap         bool       `json:"unwrap"`
	Attempt        *int       `json:"attempt"`
	Receives       int        `json:"receives"`
	CustomerID     *string    `json:"customer_id"`
	CustomerStatus *string    `json:"customer_status"`
	Kind           *string    `json:"kind"`
	Task           *string    `json:"task"`
	Subject        *string    `json:"subject"`
	Period         *string    `json:"period"`
	Region         *string    `json:"region"`
	SchemaVersion  *string    `json:"schema_version"`
	Version        *string    `json:"version"`
	Channel        *string    `json:"channel"`
	AttemptOnCopy  *int       `json:"attempt_on_copy"`
	DeploymentID   *string    `json:"deployment_id"`
	OrderKey       *string    `json:"order_key"`
	Format         string     `json:"format"`
	DecodeError    *string    `json:"decode_error"`
	PayloadSHA256  string     `json:"payload_sha256"`
	PayloadBytes   int        `json:"payload_bytes"`
	SentAt         *time.Time `json:"sent_at"`
	FailedAt       *time.Time `json:"failed_at"`
	LedgerState    *string    `json:"ledger_state"`
	Verdict        *string    `json:"verdict"`
	Action         string     `json:"action"`
	Why            string     `json:"why"`
	Needs          *string    `json:"needs"`
	Hold           *holdView  `json:"hold"`
}

type reasonView struct {
	Type    *string `json:"type"`
	Code    *string `json:"code"`
	Message *string `json:"message"`
}

// jobView is the one place where a job becomes the shape that is printed, so
// that secrets in free text are masked in every form.
func (a *app) jobView(x reconcile.Assessed) jobView {
	j := x.Job
	v := jobView{
		JobKey: text(j.JobKey), MessageID: j.Message.MessageID, CopyID: j.Message.Copy.String(),
		Queue: j.Queue, Origin: text(j.Origin), QuarantinedBy: string(j.QuarantinedBy),
		Class: string(x.Class.Class), Rule: x.Class.Rule, Effect: string(x.Effect),
		Disposition: string(x.Class.Disposition), Owner: text(x.Class.Owner),
		Reason: reasonView{
			Type: text(term.Mask(j.Failure.Type)), Code: text(term.Mask(j.Failure.Code)),
			Message: text(term.Mask(j.Failure.Message)),
		},
		Redrivable: j.Redrivable, WhyNot: text(j.WhyNot), Unwrap: j.Original != nil, Receives: j.Message.Receives,
		CustomerID: text(j.CustomerID), CustomerStatus: text(j.CustomerStatus),
		Kind: text(j.Kind), Task: text(term.Mask(j.Task)), Subject: text(j.Subject), Period: text(j.Period), Region: text(j.Region),
		SchemaVersion: text(j.SchemaVersion), Version: text(j.Version), Channel: text(j.Channel),
		AttemptOnCopy: j.AttemptOnCopy, DeploymentID: text(j.DeploymentID), OrderKey: text(j.Message.OrderKey),
		Format: j.Format, DecodeError: text(term.Mask(j.DecodeError)), PayloadSHA256: j.PayloadSHA256, PayloadBytes: j.PayloadBytes,
		SentAt: moment(j.Message.SentAt), FailedAt: moment(j.Failure.At),
		Action: string(x.Decision.Action), Why: x.Decision.Why, Needs: text(term.Mask(x.Decision.Needs)),
	}
	if x.Row != nil {
		v.fromLedger(*x.Row, a.cfg.Queues[j.Queue].Ledger)
	}
	if x.Decision.Action == reconcile.Discard && v.Needs == nil {
		v.Needs = text(redrive.NeedsDiscard)
	}
	if x.Hold != nil {
		h := a.holdView(*x.Hold)
		v.Hold = &h
	}
	if x.Verdict != nil {
		v.Verdict = text(string(x.Verdict.Verdict))
		if v.RequestID == nil {
			v.RequestID = text(x.Verdict.Evidence.RequestID)
		}
	}
	return v
}

func (v *jobView) fromLedger(l ledger.Lookup, name string) {
	if l.Found != ledger.Present {
		v.LedgerState = text(string(l.Found))
		return
	}
	row := l.Row
	v.LedgerRow = text(reconcile.LedgerRowName(name, row.Key))
	v.LedgerState = text(string(row.State))
	v.RequestID = text(row.RequestID)
	attempt := row.Attempt
	v.Attempt = &attempt
}

// jobTable is how jobs stand in a table: every column for a program, and for a
// person those that fit the terminal.
type jobTable struct {
	headers []string
	cells   func(jobView) []string
}

// roomy is the width from which a person gets more than the shortest table.
const roomy = 110

func (a *app) jobTable() jobTable {
	switch {
	case !a.forPeople():
		return jobTable{
			[]string{"job_key", "message_id", "class", "effect", "ledger", "verdict", "action", "needs", "reason"},
			func(v jobView) []string {
				return []string{or(v.JobKey), v.MessageID, v.Class, v.Effect, or(v.LedgerState), or(v.Verdict), v.Action, or(v.Needs), v.reason()}
			},
		}
	case a.terminal().Width < roomy:
		return jobTable{
			[]string{"job", "class", "action", "needs, or reason"},
			func(v jobView) []string { return []string{v.name(), v.Class, v.Action, v.next()} },
		}
	default:
		return jobTable{
			[]string{"job", "class", "effect", "ledger", "verdict", "action", "needs, or reason"},
			func(v jobView) []string {
				return []string{v.name(), v.Class, v.Effect, or(v.LedgerState), or(v.Verdict), v.Action, v.next()}
			},
		}
	}
}

// name is what the job can be asked for by.
func (v jobView) name() string { return firstText(or(v.JobKey), v.MessageID) }

// next is what a person reads first: what a held job needs, else why it stopped.
func (v jobView) next() string { return firstText(or(v.Needs), v.reason()) }

func (v jobView) reason() string {
	kind := firstText(or(v.Reason.Type), or(v.Reason.Code))
	if v.Reason.Message != nil {
		return kind + ": " + *v.Reason.Message
	}
	return kind
}
