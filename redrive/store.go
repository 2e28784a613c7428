package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
)

// Errors that callers branch on.
var (
	ErrNotFound  = errors.New("not found")
	ErrAmbiguous = errors.New("prefix is not unique")
	// ErrChanged says that stored bytes no longer hash to their name, or that an
	// approval is not the one that the audit log recorded.
	ErrChanged = errors.New("changed since it was approved")
	// ErrRefused is wrapped by every refusal of a plan, an approval or a run.
	ErrRefused = errors.New("refused")
)

// TakenError says that a lease or a plan's one run belongs to somebody else.
type TakenError struct {
	What   string // "plan" or "queue"
	Run    RunID
	Holder string
	Since  time.Time
	Until  time.Time // when the lease ends unless renewed; zero: the run has ended
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s is taken by run %s of %s since %s", e.What, e.Run, e.Holder, stamp(e.Since))
}

// stamp is a moment as errors have it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Is makes a TakenError a refusal.
func (e *TakenError) Is(target error) bool { return target == ErrRefused }

// InPlanError says that a job is in another live plan.
type InPlanError struct {
	Job  string
	Plan PlanID
}

func (e *InPlanError) Error() string { return fmt.Sprintf("job %s is in plan %s", e.Job, e.Plan) }

// Is makes an InPlanError a refusal.
func (e *InPlanError) Is(target error) bool { return target == ErrRefused }

// StoredPlan is a plan as the store has it. Bytes are exactly what was saved;
// Plan is their decoding, and whoever acts on it hashes Bytes first.
type StoredPlan struct {
	ID    PlanID
	Bytes []byte
	Plan  Plan
	State PlanState
	Run   RunID // its one run, if it has begun

	whole bool // Read knew every field
}

// Identity recognises a job across plans and copies: by its key, or, where it
// has none, by payload hash and origin. Copies of which one has no origin are of
// one job within a dead-letter queue, since some brokers forget it.
type Identity struct {
	JobKey        string
	Entity        string // the dead-letter queue's own name
	Origin        string
	PayloadSHA256 string
	// LedgerRow is the job's row as records name it; empty: no ledger.
	LedgerRow string
}

// Published is what this store remembers of the redrives of one identity.
type Published struct {
	Count int // publishes
	// RolledBack are those of them that a rollback took back before anybody claimed
	// them. They do not count in the cap on redrives.
	RolledBack int
	Last       time.Time
	LastRun    RunID
	Copies     []broker.CopyID // the dead copies that were published
	// Attempt is the latest of the ledger row's that was published; 0: none.
	Attempt int
	// Replaced: an edited copy went in its place, or may have; ReplacedBy is the
	// copy's job key, or "sha256:" and its payload's hash.
	Replaced   bool
	ReplacedBy string
}

// Plans keeps plans and approvals. Every method that changes something writes
// its audit record in the same transaction.
type Plans interface {
	// StoreID is the store's own random name, made when it was created.
	StoreID() string
	// SavePlan stores the canonical bytes. It is an InPlanError when a copy or a
	// job key of the plan is in another live plan.
	SavePlan(ctx context.Context, id PlanID, canonical []byte, p Plan, rec audit.Record) error
	// LoadPlan finds a plan by a unique prefix of its ID. A waiting or approved
	// plan past its expiry is reported as expired.
	LoadPlan(ctx context.Context, prefix string) (StoredPlan, error)
	// OpenPlan is LoadPlan without the plan in memory. Bytes that do not hash to the
	// plan's ID, or that Decode refuses, are refused.
	OpenPlan(ctx context.Context, prefix string) (Frozen, error)
	// ListPlans is every plan of the queue (all queues when empty), newest first.
	ListPlans(ctx context.Context, queue string) ([]StoredPlan, error)
	// SetPlanState moves a plan if it is in state from.
	SetPlanState(ctx context.Context, id PlanID, from, to PlanState, rec audit.Record) error
	// InLivePlans maps copies (CopyID.String) and job keys to the live plan that
	// holds them.
	InLivePlans(ctx context.Context, queue string, now time.Time) (map[string]PlanID, error)
	// SaveApproval appends one statement. The audit record carries its digest,
	// and Approvals refuses (ErrChanged) a statement whose digest the log lacks.
	SaveApproval(ctx context.Context, a Approval, rec audit.Record) error
	Approvals(ctx context.Context, id PlanID) ([]Approval, error)
	// ApprovedDigests are the policy and settings digests of plans that another
	// person approved.
	ApprovedDigests(ctx context.Context) (map[string]bool, error)
	// SelfRedrives counts the redrives planned under the self tier for the queue
	// since then, over all plans that were not rejected, revoked, expired or
	// dropped.
	SelfRedrives(ctx context.Context, queue string, since time.Time) (int, error)
	// PublishedOf answers identity for identity what was published of it, or may
	// have been, by any run but except. Of what replaced it ReplacedOf tells.
	PublishedOf(ctx context.Context, ids []Identity, except RunID) ([]Published, error)
	// ReplacedOf answers identity for identity what edited copy was published in
	// its place, or may have been, by any run but except; empty: none.
	ReplacedOf(ctx context.Context, ids []Identity, except RunID) ([]string, error)
}

// Begin is a request for a plan's one run.
type Begin struct {
	Plan   PlanID
	Opened *Frozen // the plan, where it is open already
	Run    RunID
	Holder string
	TTL    time.Duration
	Now    time.Time
}

// RunRecord is a run as the store has it.
type RunRecord struct {
	ID        RunID
	Plan      PlanID
	Queue     string
	State     RunState
	Holder    string
	StartedAt time.Time
	EndedAt   time.Time
	// Lives: running or paused under an unexpired lease.
	Lives bool
	Wish  Wish // what is asked of it, or was when it was aborted
	// BreakGlass is why its plan was run without the approvals that it needs, as the
	// first has said who broke the glass; empty: nobody has.
	BreakGlass string
	Report     Report // as of the last End; zero while it never ended
	Pace       Pace   // as of its last batch; zero where it never told
	Gate       GateState
	// GateFault is why what is on record of its gate cannot be read, so that Gate says
	// nothing. ListRuns alone sets it: of one run, LoadRun fails.
	GateFault string
}

// Report is what a run did, by count of the plan's items. The counts add up:
// Planned = Redriven + Settled + Discarded + all Skipped + Failed + Unknown +
// Remaining.
type Report struct {
	Planned   int            `json:"planned"`
	Redriven  int            `json:"redriven"`
	Settled   int            `json:"settled"`
	Discarded int            `json:"discarded"`
	Skipped   map[string]int `json:"skipped"`
	Failed    int            `json:"failed"`
	Unknown   int            `json:"unknown"`
	Remaining int            `json:"remaining"`
}

// Intent is an audit intent that has no closing outcome yet, with what was
// recorded of it since.
type Intent struct {
	Seq    int64
	Record audit.Record
	// Publish is the recorded result of the publish step ("done", "refused",
	// "unknown"), or empty.
	Publish string
}

// ItemEnd is how an item of a run was closed: the last outcome record of its
// copy. Result is "redriven", "settled", "discarded", "failed", "unknown",
// "held" or "skipped"; Reason says why for the last four.
type ItemEnd struct {
	Result string
	Reason string
}

// Runs keeps runs and leases.
type Runs interface {
	Gates
	// Begin does in one transaction: open the plan as OpenPlan does, load its
	// approvals, call check, insert the run (one per plan), take the lease on the
	// dead-letter queue with a new fencing token, and write rec. A *TakenError names
	// who was first. It returns the plan that check has seen. Of a plan that is open
	// already it is made sure that the store's bytes still hash to its ID; then the
	// jobs are those of b.Opened, which an error leaves open.
	Begin(ctx context.Context, b Begin, check func(Frozen, []Approval) error, rec audit.Record) (Frozen, Lease, error)
	// Resume takes the lease of a run that no longer lives, under a new token, and
	// lifts its pause.
	Resume(ctx context.Context, run RunID, b Begin, rec audit.Record) (Lease, error)
	// Heartbeat extends the lease to now+ttl; audit.ErrFenced once it is
	// another's.
	Heartbeat(ctx context.Context, l Lease, now time.Time, ttl time.Duration) (Lease, error)
	// Fenced is a log that refuses (audit.ErrFenced) to write for a lease that
	// was taken over or has expired, checked in the transaction of the append.
	Fenced(l Lease) audit.Log
	// Wish is what is asked of the run now; the zero Wish: nothing.
	Wish(ctx context.Context, run RunID) (Wish, error)
	// SetState records that a run of this lease is paused, or running again, and
	// writes rec in the same transaction; audit.ErrFenced as with Fenced.
	SetState(ctx context.Context, l Lease, s RunState, rec audit.Record) error
	// SetPace keeps how fast the run of this lease may go, with what is recorded of
	// that, in one transaction; audit.ErrFenced as with Fenced.
	SetPace(ctx context.Context, l Lease, p Pace, rs ...audit.Record) error
	// End closes the run, frees the lease, forgets a pause and writes rec, in one
	// transaction.
	End(ctx context.Context, l Lease, s RunState, r Report, rec audit.Record) error
	LoadRun(ctx context.Context, prefix string) (RunRecord, error)
	ListRuns(ctx context.Context, queue string) ([]RunRecord, error)
	// Lives answers for ledger rows that carry a run's ID.
	Lives(ctx context.Context, run RunID) (bool, error)
	OpenIntents(ctx context.Context, run RunID) ([]Intent, error)
	// Ends maps CopyID.String to how that item was closed in this run.
	Ends(ctx context.Context, run RunID) (map[string]ItemEnd, error)
}

// Archived is a dead copy kept whole before it is taken off its queue.
type Archived struct {
	Run       RunID
	Plan      PlanID
	Queue     string
	Owner     string
	Retention time.Duration
	Job       job.Job // Message with bytes and attributes, and the three hashes
	Action    reconcile.Action
	At        time.Time
}

// Archive keeps copies. Save is durable on return and idempotent per run and
// copy.
type Archive interface {
	Save(ctx context.Context, as ...Archived) error
}

// Capture is what the last look at a dead-letter queue found, without payloads.
type Capture struct {
	Queue      string
	Broker     string
	CapturedAt time.Time
	Complete   bool
	Why        string
	Counted    string // "exact" or "approximate"
	Total      int64
	Jobs       []job.Job // without content; nil in what Finish is given
}

// Captures keeps the newest capture of each queue for 24 hours.
type Captures interface {
	// NewCapture begins a capture. Nobody sees it before Finish; one that is
	// never finished is dropped with the next.
	NewCapture(ctx context.Context, queue string, at time.Time) (CaptureWriter, error)
	LatestCapture(ctx context.Context, queue string) (Capture, bool, error)
}

// CaptureWriter takes the jobs of one look as they come. It is for one goroutine.
type CaptureWriter interface {
	// Add keeps jobs without their content.
	Add(ctx context.Context, jobs ...job.Job) error
	// Finish makes the capture the queue's newest. c tells how the look ended.
	Finish(ctx context.Context, c Capture) error
}
