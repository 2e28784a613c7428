package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/itchyny/gojq"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// ItemEdit is the edited copy that is sent in the place of an item's message: by
// its hashes, never by its content.
type ItemEdit struct {
	// JobKey is the edited copy's own; empty where the job has none.
	JobKey        string `json:"job_key,omitempty"`
	PayloadSHA256 string `json:"payload_sha256"`
	BodySHA256    string `json:"body_sha256"`
	MessageSHA256 string `json:"message_sha256"`
	// SecondSend: the original was sent, and the operator corrects it on purpose
	// by sending the edited copy as well.
	SecondSend bool `json:"second_send,omitempty"`
	// The row of an edited copy that an earlier run queued in the original's place
	// and that was never sent: the same edit is published again. Empty for an edit
	// that is new.
	RowState   string `json:"ledger_state,omitempty"`
	RowAttempt *int   `json:"ledger_attempt,omitempty"`
	RowRun     string `json:"ledger_run,omitempty"`
}

// again reports that an earlier run has replaced the original's row already.
func (e *ItemEdit) again() bool { return e.RowState != "" }

// identity is how records name the edited copy: by key, else by payload.
func (e *ItemEdit) identity() string {
	if e.JobKey != "" {
		return e.JobKey
	}
	return PayloadIdentity(e.PayloadSHA256)
}

// PayloadIdentity is how records name an edited copy that has no job key.
func PayloadIdentity(payloadSHA256 string) string { return "sha256:" + payloadSHA256 }

// judged is the action that the decision table gives the job as it is. An edit
// that is sent besides a job that was sent, or once more in the place of one that
// was replaced, makes another action of it.
func (it *Item) judged() reconcile.Action {
	switch {
	case it.Edit != nil && it.Edit.SecondSend:
		return reconcile.Settle
	case it.Edit != nil && it.Edit.again():
		return reconcile.Hold
	default:
		return it.Action
	}
}

// inPlace reports that the original's row names the item's edited copy, so that
// the copy's own row tells what became of it.
func (it *Item) inPlace(row *ledger.Lookup) bool {
	return it.Edit != nil && row != nil && row.Found == ledger.Present && row.Row.ReplacedBy != "" && row.Row.ReplacedBy == it.Edit.JobKey
}

// edited is the item with the edited copy's key and row for the original's.
func (it *Item) edited() *Item {
	e := *it
	e.JobKey, e.LedgerState, e.LedgerAttempt, e.LedgerRun = it.Edit.JobKey, it.Edit.RowState, it.Edit.RowAttempt, it.Edit.RowRun
	return &e
}

// editChange is the ledger's move for an edit; c is of the row as planned.
//
//	planned as          the original becomes   the edited copy's row
//	queued, failed n    replaced n             queued by this run, attempt 1
//	sent, reconciled n  what it was            queued by this run, attempt 1 (a second send)
//	replaced            stays                  queued by this run again, as for any redrive
func (it *Item) editChange(c ledger.Change) (ledger.Change, bool) {
	e := it.Edit
	switch {
	case e.again():
		c.Key.JobKey, c.From, c.FromRun = e.JobKey, ledger.State(e.RowState), e.RowRun
		c.FromAttempt, c.Attempt = *e.RowAttempt, *e.RowAttempt
		return queued(c, it)
	case e.SecondSend && c.From.Committed():
		c.To = c.From
	case !e.SecondSend && (c.From == ledger.Queued || c.From == ledger.Failed):
		c.To = ledger.Replaced
	default:
		return ledger.Change{}, false
	}
	c.Replace = &ledger.NewRow{Key: ledger.Key{JobKey: e.JobKey, Consumer: it.Consumer}, PayloadSHA256: e.PayloadSHA256}
	return c, true
}

// maxSlow is how many payloads may be too slow before the rule is not tried on
// any more.
const maxSlow = 3

// Editor applies an edit rule to jobs.
type Editor struct {
	rule   *EditRule
	code   *gojq.Code
	decode func(broker.Message) job.Job
	slow   atomic.Int32
}

// NewEditor compiles a rule as it stands in a plan. decode reads the edited
// message as the planner reads messages.
func NewEditor(rule *EditRule, decode func(broker.Message) job.Job) (*Editor, error) {
	code, err := rule.compile()
	if err != nil {
		return nil, err
	}
	return &Editor{rule: rule, code: code, decode: decode}, nil
}

// Edit is the job under the rule, with its message as it would be sent. The job
// must have its content. EditWhy words the error.
func (e *Editor) Edit(ctx context.Context, j job.Job) (job.Job, error) {
	if e.slow.Load() >= maxSlow {
		return job.Job{}, &editError{"edit_timeout", errors.New("it took too long on others")}
	}
	payload, err := apply(ctx, e.code, j.Payload)
	if err != nil {
		if editWhy(err) == "edit_timeout" {
			e.slow.Add(1)
		}
		return job.Job{}, err
	}
	now, err := job.Rewrite(j, e.decode, payload, e.rule.key(j.JobKey))
	if err != nil {
		return job.Job{}, &editError{"edit_unsupported", err}
	}
	return now, nil
}

// editWhy is the word that outputs count an error of Edit by.
func editWhy(err error) string {
	var e *editError
	if errors.As(err, &e) {
		return e.why
	}
	return "edit_failed"
}

// Edited is what the planner must know of one job's edited copy.
type Edited struct {
	ItemEdit
	Bytes int // of the message, for the broker's limit
	// Why and Needs say why there is no edited copy; empty: there is one.
	Why, Needs string
}

// Edited is the edited copy of a job as the planner needs it, without content.
func (e *Editor) Edited(ctx context.Context, j job.Job) Edited {
	now, err := e.Edit(ctx, j)
	if err != nil {
		return Edited{Why: editWhy(err), Needs: editNeeds(err)}
	}
	return Edited{
		ItemEdit: ItemEdit{JobKey: now.JobKey, PayloadSHA256: now.PayloadSHA256, BodySHA256: now.BodySHA256, MessageSHA256: now.MessageSHA256},
		Bytes:    messageBytes(now.Outgoing()),
	}
}

// editNeeds never repeats what jq says: its errors quote the payload.
func editNeeds(err error) string {
	switch editWhy(err) {
	case "edit_not_json":
		return "a payload that is exact JSON: correct it where it is made"
	case "edit_no_change":
		return "an edit that changes it: this one leaves its payload as it is"
	case "edit_timeout":
		return fmt.Sprintf("an edit that takes no longer than %s", editTime)
	case "edit_too_large":
		return fmt.Sprintf("an edit that yields no more than %d bytes", editBytes)
	case "edit_unsupported":
		return "another way than --edit: " + err.Error()
	default:
		return "an edit that yields exactly one JSON value for it"
	}
}
