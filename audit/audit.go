// Package audit is the record of what was done: one record per action and
// phase, chained by hash, durable before the action starts. Nothing acts unless
// its intent could be written here.
package audit

import (
	"context"
	"errors"
	"time"
)

// Errors that callers branch on.
var (
	// ErrNotWritable says that a record could not be made durable. Whoever gets
	// it must not start the action.
	ErrNotWritable = errors.New("audit log is not writable")
	// ErrFenced says that the lease under which the record was to be written is
	// another's now.
	ErrFenced = errors.New("lease was taken over")
	// ErrBroken says that the log does not verify.
	ErrBroken = errors.New("audit log fails verification")
)

// Phase says which side of an action a record stands on.
type Phase string

// An intent is durable before its action starts; an outcome says how it ended.
const (
	Intent  Phase = "intent"
	Outcome Phase = "outcome"
)

// Actions of a run on one job. A record's Action is one of these, or names what
// else was done ("run", "plan", "approve", "fence", "reveal").
const (
	ActionRedrive    = "redrive"
	ActionSettle     = "settle"
	ActionDiscard    = "discard"
	ActionCheckpoint = "checkpoint" // written by the log itself
)

// Steps that an outcome speaks of. In a run each copy (CopyID) has an intent.
// Its publish outcome leaves the intent open; an acknowledgement that was done,
// or a close outcome, ends it, and a close may stand without an intent (a skip).
// An outcome with no step ends the action as a whole. When a copy has several
// intents the newest counts.
const (
	StepPublish = "publish"
	StepAck     = "ack"
	StepLedger  = "ledger"
	StepClose   = "close"
)

// Results of a step. Held, skipped and failed stand in close outcomes, with
// their reason.
const (
	ResultDone    = "done"
	ResultRefused = "refused"
	ResultUnknown = "unknown"
	ResultHeld    = "held"
	ResultSkipped = "skipped"
	ResultFailed  = "failed"
)

// Keys of Details that the store itself reads or writes.
const (
	// DetailStatement is the SHA-256 of an approval's canonical bytes.
	DetailStatement = "statement_sha256"
	// DetailReplacedBy is the identity of the edited copy that goes in a job's
	// place: its job key, or "sha256:" and its payload's hash.
	DetailReplacedBy = "replaced_by"
	// DetailBreakGlass says why something was done without the approvals that it
	// needs; of single jobs that it was.
	DetailBreakGlass = "break_glass"
	// DetailSeq and DetailHash are a checkpoint's place in the chain.
	DetailSeq  = "seq"
	DetailHash = "hash"
)

// Person is who acted and how that is known.
type Person struct {
	Name string `json:"name"`
	// Known is "account", "declared" or "signed".
	Known string `json:"known"`
	Key   string `json:"key,omitempty"`
}

// Who acts, as every record names it.
type Who struct {
	Actor       Person
	Host        string
	ToolVersion string
}

// Record begins a record of what was done.
func (w Who) Record(action string) Record {
	return Record{Actor: w.Actor, Host: w.Host, ToolVersion: w.ToolVersion, Action: action}
}

// Record is one entry of the log. 64-bit numbers are strings in its canonical
// form (RFC 8785 numbers are doubles). Payloads, addresses and customer names
// never enter it: Customer is a keyed HMAC.
type Record struct {
	Seq   int64     `json:"seq,string"`
	Time  time.Time `json:"time"`
	Store string    `json:"store"`

	Actor       Person `json:"actor"`
	Host        string `json:"host,omitempty"`
	ToolVersion string `json:"tool_version,omitempty"`

	Run   string `json:"run,omitempty"`
	Plan  string `json:"plan,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Action is what is done: "redrive", "settle", "run", "plan", "approve",
	// "fence", "reconcile", "reveal", …
	Action string `json:"action"`
	// Step is the part of the action that an outcome speaks of: "publish",
	// "ack", "ledger", "close"; empty for the action as a whole.
	Step       string `json:"step,omitempty"`
	Phase      Phase  `json:"phase"`
	Result     string `json:"result,omitempty"` // "done", "refused", "unknown", "skipped", …
	Transition string `json:"transition,omitempty"`
	Reason     string `json:"reason,omitempty"`

	JobKey    string `json:"job_key,omitempty"`
	LedgerRow string `json:"ledger_row,omitempty"`
	MessageID string `json:"message_id,omitempty"`
	CopyID    string `json:"copy_id,omitempty"`
	RequestID string `json:"request_id,omitempty"`

	Attempt        *int   `json:"attempt,omitempty"`
	Customer       string `json:"customer,omitempty"`
	Period         string `json:"period,omitempty"`
	Region         string `json:"region,omitempty"`
	SchemaVersion  string `json:"schema_version,omitempty"`
	PayloadSHA256  string `json:"payload_sha256,omitempty"`
	DeploymentID   string `json:"deployment_id,omitempty"`
	EvidenceSHA256 string `json:"evidence_sha256,omitempty"`
	// Details holds what a kind of record adds (an approval's statement, a
	// checkpoint); values are strings so that they hash alike everywhere.
	Details map[string]string `json:"details,omitempty"`

	Previous string `json:"previous"` // hash of the record before; 64 zeros for the first
}

// Head is the newest record's place in the chain.
type Head struct {
	Store string `json:"store"`
	Seq   int64  `json:"seq,string"`
	Hash  string `json:"hash"` // lower-case hex SHA-256
}

// Log takes records. Append returns only when all of them are durable, in
// order, in one transaction; otherwise none is, and the error wraps
// ErrNotWritable or ErrFenced, or context.Canceled where ctx ended before the
// records were taken. Whatever it is, the action must not start. It fills in Seq,
// Time, Store and Previous.
type Log interface {
	Append(ctx context.Context, rs ...Record) (Head, error)
}
