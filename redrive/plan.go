// Package redrive puts quarantined jobs back to work: a frozen plan, the
// approvals it needs, and the one run that carries it out, step by step, in an
// order that makes a crash at any point safe.
package redrive

import (
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/reconcile"
)

// PlanID is the lower-case hex SHA-256 of the plan's RFC 8785 bytes.
type PlanID string

// PlanState is where a plan stands.
type PlanState string

// The states of a plan; docs/state-machine.md draws them. Rejected, expired, dropped, revoked and finished plans
// free their jobs.
const (
	PlanWaiting  PlanState = "waiting"
	PlanApproved PlanState = "approved"
	PlanRunning  PlanState = "running"
	PlanFinished PlanState = "finished"
	PlanRejected PlanState = "rejected"
	PlanRevoked  PlanState = "revoked"
	PlanExpired  PlanState = "expired"
	PlanDropped  PlanState = "dropped"
)

// PlanStates are all states, in the order in which a plan can reach them.
func PlanStates() []PlanState {
	return []PlanState{PlanWaiting, PlanApproved, PlanRunning, PlanFinished, PlanRejected, PlanRevoked, PlanExpired, PlanDropped}
}

// Live reports whether the plan still holds its jobs.
func (s PlanState) Live() bool { return s.Open() || s == PlanRunning }

// Open reports whether the plan's run may still begin.
func (s PlanState) Open() bool { return s == PlanWaiting || s == PlanApproved }

// Tier is who must approve.
type Tier string

// Self: the requester with a reason. One: one other person. Two: two others.
const (
	TierSelf Tier = "self"
	TierOne  Tier = "one"
	TierTwo  Tier = "two"
)

// Needed is how many approvals by others the tier asks for.
func (t Tier) Needed() int {
	switch t {
	case TierSelf:
		return 0
	case TierTwo:
		return 2
	default:
		return 1
	}
}

// Item is one job of a plan, frozen. It holds no payload, address or receipt.
type Item struct {
	Copy          broker.CopyID `json:"copy"`
	MessageID     string        `json:"message_id"`
	JobKey        string        `json:"job_key,omitempty"`
	Consumer      string        `json:"consumer,omitempty"`
	Origin        string        `json:"origin,omitempty"`
	OrderKey      string        `json:"order_key,omitempty"`
	Destination   string        `json:"destination,omitempty"` // redrive only
	PayloadSHA256 string        `json:"payload_sha256"`
	BodySHA256    string        `json:"body_sha256"`
	MessageSHA256 string        `json:"message_sha256"`
	// Unwrap: the message only wraps its original, and the original alone is sent.
	// SentSHA256 is then the hash of that message; BodySHA256 is its body's anyway.
	Unwrap      bool                 `json:"unwrap,omitempty"`
	SentSHA256  string               `json:"sent_sha256,omitempty"`
	Class       classify.Class       `json:"class"`
	Rule        string               `json:"rule"`
	Effect      classify.Effect      `json:"effect"`
	Disposition classify.Disposition `json:"disposition"`
	// LedgerState is empty without a ledger, "missing" where no row exists.
	LedgerState    string            `json:"ledger_state,omitempty"`
	LedgerAttempt  *int              `json:"ledger_attempt,omitempty"`
	LedgerRun      string            `json:"ledger_run,omitempty"`
	Verdict        reconcile.Verdict `json:"verdict,omitempty"`
	EvidenceSHA256 string            `json:"evidence_sha256,omitempty"`
	RequestID      string            `json:"request_id,omitempty"`
	Action         reconcile.Action  `json:"action"`
	Row            int               `json:"decision_row"`
	Why            string            `json:"why"`
	Lift           string            `json:"lift,omitempty"`
	// Republish: this store has published the job before and nothing proves that
	// a second send is harmless, so the duplicate risk was accepted.
	Republish     bool   `json:"republish,omitempty"`
	Subject       string `json:"subject,omitempty"`
	Version       string `json:"version,omitempty"`
	Period        string `json:"period,omitempty"`
	Region        string `json:"region,omitempty"`
	SchemaVersion string `json:"schema_version,omitempty"`
	DeploymentID  string `json:"deployment_id,omitempty"`
	// Receives is the copy's count when the plan was made. The run judges by it:
	// the receives of the run itself are no attempts at the effect.
	Receives int    `json:"receives"`
	Customer string `json:"customer,omitempty"` // keyed HMAC
	// Edit is the edited copy that goes out instead; nil: the message as it is.
	Edit *ItemEdit `json:"edit,omitempty"`
	// SendBefore bounds the new attempt's claim; zero where nothing is unresolved.
	SendBefore time.Time `json:"send_before,omitzero"`
}

// Lifts are the declared exceptions of a plan, each with its stated reason.
type Lifts struct {
	Fixed             string         `json:"fixed,omitempty"`
	As                classify.Class `json:"as,omitempty"`
	AcceptProvisional string         `json:"accept_provisional,omitempty"`
	AcceptDuplicates  string         `json:"accept_duplicates,omitempty"`
	EffectsByFlag     bool           `json:"effects_idempotent,omitempty"`
	FanOut            bool           `json:"fan_out,omitempty"`
	BreakOrder        bool           `json:"break_order,omitempty"`
	To                string         `json:"to,omitempty"`
	Edit              *EditRule      `json:"edit,omitempty"`
	// Discard: the plan drops what it selects. It comes with no other lift.
	Discard bool `json:"discard,omitempty"`
}

// Plan is a frozen, content-addressed list of jobs. Everything in it is hashed,
// so nothing in it may change after it was made.
type Plan struct {
	Terms
	Items []Item `json:"items"`
	Held  []Held `json:"held"`
}

// Terms are all that a plan says but its jobs: a plan may name a whole queue, and
// not everyone who must know its terms must know each of them.
type Terms struct {
	Format         string    `json:"format"` // "redrivectl/plan/v1"
	Store          string    `json:"store"`
	Queue          string    `json:"queue"`  // as configured or typed
	Entity         string    `json:"entity"` // the dead-letter queue's own name
	Broker         string    `json:"broker"`
	CreatedAt      time.Time `json:"created_at"`
	ExpiresAt      time.Time `json:"expires_at"`
	Requester      string    `json:"requester"`
	RequesterKnown string    `json:"requester_known"`
	Reason         string    `json:"reason"`
	Query          string    `json:"query"` // the selection as typed, canonical
	Max            int       `json:"max"`
	RatePerSecond  string    `json:"rate_per_second"` // decimal, as a string
	Canary         int       `json:"canary"`          // redrives that go first; 0: none
	Gate           string    `json:"gate"`            // what judges them; "none" without a canary
	// Thresholds are what the plan's redrives must meet; nil: nothing is judged.
	Thresholds *Thresholds `json:"thresholds,omitempty"`
	// ArchiveSeconds is how long a copy that the plan settles or discards is kept.
	ArchiveSeconds int64          `json:"archive_retention_seconds"`
	Tier           Tier           `json:"tier"`
	TierWhy        []string       `json:"tier_why"`
	Lifts          Lifts          `json:"lifts"`
	PolicySHA256   string         `json:"policy_sha256"`
	SettingsSHA256 string         `json:"settings_sha256"`
	LeftOut        map[string]int `json:"left_out"`
	Nonce          string         `json:"nonce"`
}

// ArchiveRetention is how long a copy that the plan settles or discards is kept.
func (t Terms) ArchiveRetention() time.Duration { return time.Duration(t.ArchiveSeconds) * time.Second }

// Discards counts the items that the plan destroys: their copies leave the queue
// and go nowhere but into the archive.
func (p Plan) Discards() (n int) {
	for _, it := range p.Items {
		if it.Action == reconcile.Discard {
			n++
		}
	}
	return n
}

// Held is a selected job that may not be acted upon, and what would change that.
type Held struct {
	Copy      broker.CopyID  `json:"copy"`
	MessageID string         `json:"message_id"`
	JobKey    string         `json:"job_key,omitempty"`
	Class     classify.Class `json:"class"`
	Why       string         `json:"why"`
	Needs     string         `json:"needs"`
}

// Approval is a statement by a person over exactly one plan.
type Approval struct {
	Plan      PlanID    `json:"plan"`
	Items     int       `json:"items"`
	Store     string    `json:"store"`
	Requester string    `json:"requester"`
	Approver  string    `json:"approver"`
	Known     string    `json:"known"`    // "account", "declared", "file", "signed"
	Decision  string    `json:"decision"` // "approve", "reject", "revoke", "break_glass"
	Reason    string    `json:"reason"`
	Solo      string    `json:"solo,omitempty"`
	NotBefore time.Time `json:"not_before"`
	ExpiresAt time.Time `json:"expires_at"`
}

// RunID is random.
type RunID string

// RunState is how a run stands.
type RunState string

// The states of a run. A run lives while its lease is unexpired and it is
// running or paused.
const (
	RunRunning     RunState = "running"
	RunPaused      RunState = "paused"
	RunFinished    RunState = "finished"
	RunAborted     RunState = "aborted"
	RunFailed      RunState = "failed"
	RunInterrupted RunState = "interrupted"
)

// RunStates are all states, those that a run can be in before its end first.
func RunStates() []RunState {
	return []RunState{RunRunning, RunPaused, RunInterrupted, RunFailed, RunFinished, RunAborted}
}

// Ended reports whether the run is over for good; any other can be resumed.
func (s RunState) Ended() bool { return s == RunFinished || s == RunAborted }

// Lease is the right to act on one dead-letter queue. Token grows with every
// holder; a record written under an older token is refused.
type Lease struct {
	Queue   string
	Run     RunID
	Holder  string // person and host, for the loser to read
	Token   int64
	Expires time.Time
	Since   time.Time
}
