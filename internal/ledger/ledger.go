// Package ledger is the contract between redrivectl and the application's
// durable record of its jobs. The ledger decides who may send: every change is
// a compare-and-set, and every change is kept in a history.
package ledger

import (
	"context"
	"errors"
	"time"
)

// Errors that callers branch on.
var (
	// ErrReadOnly says that the ledger is configured for reading alone.
	ErrReadOnly = errors.New("ledger is read-only")
	// ErrMissing says that there is no row for the key.
	ErrMissing = errors.New("ledger has no such row")
	// ErrIllegal says that no state of the row would allow the change.
	ErrIllegal = errors.New("change is not allowed")
)

// State is the state of a ledger row.
type State string

// The states. Queued, Sending and Fenced are pending; Sent and Reconciled are
// committed.
const (
	Queued     State = "queued"     // handed to the queue, not claimed
	Sending    State = "sending"    // claimed by a worker; no proof of anything
	Fenced     State = "fenced"     // taken from the worker, so that a look-up can be conclusive
	Sent       State = "sent"       // the worker recorded the provider's acceptance
	Reconciled State = "reconciled" // sent, as proven by reconciliation
	Failed     State = "failed"     // a proven failure
	Replaced   State = "replaced"   // an edited copy goes in its place
)

// States lists every state, in the order of a job's life.
var States = []State{Queued, Sending, Fenced, Sent, Reconciled, Failed, Replaced}

// Committed reports whether the effect is proven to have happened.
func (s State) Committed() bool { return s == Sent || s == Reconciled }

// Pending reports whether the effect may still happen or may have happened.
func (s State) Pending() bool { return s == Queued || s == Sending || s == Fenced }

// Key names a row: the business effect for one consumer. Consumer is ignored
// by a ledger that is not scoped.
type Key struct {
	JobKey   string
	Consumer string
}

// Resolution says how an attempt's outcome came to be known.
type Resolution string

// An attempt is unresolved until the worker records a proven failure whose
// effect is none, or its success, or a verdict covers it.
const (
	Unresolved Resolution = ""
	ByWorker   Resolution = "worker"
	ByVerdict  Resolution = "verdict"
)

// Attempt is one try at the effect, as the history tells it.
type Attempt struct {
	Number       int
	ClaimedAt    time.Time
	SendDeadline time.Time // zero: the ledger records none
	RequestID    string
	ErrorClass   string
	Effect       string // "none", "unknown" or empty
	Resolution   Resolution
}

// Event is one line of a row's history.
type Event struct {
	At         time.Time
	Actor      string
	From, To   State
	Attempt    int
	Run        string
	Reason     string
	ErrorClass string
	RequestID  string
}

// Row is the application's record of one job. Times are by the ledger's clock.
type Row struct {
	Key
	State   State
	Attempt int
	// Run is the redrive run that queued the row, or that discarded it; empty when
	// the application queued it.
	Run           string
	Subject       string
	Version       string
	PayloadSHA256 string // lower-case hex; empty when the ledger does not keep it
	Region        string
	Account       string
	CustomerID    string
	RequestID     string
	// LateAccept is set when a worker's send succeeded after its claim was taken
	// from it: the effect happened, whatever the state says.
	LateAccept bool
	// Retryable is false when the application will not claim a failed row again.
	Retryable    bool
	ErrorClass   string
	Effect       string
	Reason       string
	ReplacedBy   string // the job key of the edited copy, the latest of several
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ClaimedAt    time.Time // of the last claim, whichever attempt it was for
	SendDeadline time.Time // of the last claim
	SendBefore   time.Time
	// FencedAt is the first fence since the last claim. It is never renewed, and
	// a new claim clears it, because a wait that began before a send proves
	// nothing about that send.
	FencedAt time.Time
	// NewerSent reports that a newer version of the same subject was sent.
	NewerSent bool
	// Attempts are the tries so far, oldest first; nil without a history.
	Attempts []Attempt
	// Events is the history, oldest first; nil unless asked for.
	Events []Event
}

// EarliestUnresolved is the first attempt whose outcome is not known.
func (r Row) EarliestUnresolved() (Attempt, bool) {
	for _, a := range r.Attempts {
		if a.Resolution == Unresolved {
			return a, true
		}
	}
	return Attempt{}, false
}

// LatestDeadline is the latest send deadline over unresolved attempts, or the
// zero time where the ledger records none.
func (r Row) LatestDeadline() time.Time {
	var t time.Time
	for _, a := range r.Attempts {
		if a.Resolution == Unresolved && a.SendDeadline.After(t) {
			t = a.SendDeadline
		}
	}
	return t
}

// Found says what a look-up of one row came to.
type Found string

// A row that cannot be read is not a row that is missing: both hold the job,
// for different reasons.
const (
	Present    Found = "found"
	Missing    Found = "missing"
	Unreadable Found = "unreadable"
)

// Lookup is the answer for one key.
type Lookup struct {
	Found Found
	Row   Row   // valid when Present
	Err   error // why, when Unreadable
}

// Window selects rows. Empty fields select everything.
type Window struct {
	States         []State
	Consumer       string
	Region         string
	Account        string
	UpdatedAfter   time.Time
	DeadlineBefore time.Time // send_deadline before this time
	NewestFirst    bool
	Limit          int // 0: no limit
}

// Change is one compare-and-set. The row changes only if it is in state From at
// FromAttempt and, when From is Queued, its run is FromRun.
//
//   - To Sending (a worker's claim) is also refused when LateAccept is set or the
//     ledger's clock has reached the row's SendBefore. It stores the claim time
//     and the deadline min(now + ClaimLife, SendBefore). A claim of a failed row
//     sets Attempt to FromAttempt+1 and needs a retryable row.
//   - To Fenced from Sending is refused before the row's SendDeadline.
//   - A claim of a failed row also needs its effect to be none.
//   - LateAccept is recorded unconditionally: From, FromAttempt and FromRun are
//     not compared, and the state stays as it is (To is empty). Attempt is the
//     one that the worker sent under.
//   - A proven failure that comes after a fence is recorded just so: To empty,
//     LateAccept false, ErrorClass set, Effect "none", Resolve ByWorker. It
//     resolves Attempt in the history and leaves the row's state alone.
//   - With LateAccept set, any state may move to Reconciled, and none to Replaced.
//   - To Failed by a run (Run is set) keeps the run, so that it can tell its own
//     change when the reply is lost.
//
// Transitions lists what is legal; an illegal change is Lost with ErrIllegal.
// Attempt may be left zero where the transition determines it.
type Change struct {
	Key         Key
	From        State
	FromAttempt int
	FromRun     string

	To      State
	Attempt int
	Run     string

	Actor      string
	Reason     string
	ErrorClass string
	Effect     string
	RequestID  string
	Retryable  bool          // To Failed: the application may claim it again
	ClaimLife  time.Duration // To Sending
	SendBefore time.Time     // To Queued; zero clears it
	LateAccept bool
	// Resolve says what this change makes known: ByVerdict covers every attempt
	// claimed so far up to Attempt, ByWorker covers Attempt alone, because a
	// worker knows nothing of an earlier attempt's fate.
	Resolve Resolution
	// Unread leaves Result.Row empty where the change wins: who makes many changes
	// and knows what they make of a row need not read it back.
	Unread bool
	// Replace is the edited copy's row, inserted as queued by Run at attempt 1, with
	// SendBefore, in the same transaction. It goes with To Replaced, and with a row
	// that is committed and stays so (From and To the same): a corrected copy is sent
	// besides. A key that has a row loses the change as a whole.
	Replace *NewRow
}

// Outcome is what became of a Change.
type Outcome int

// The zero value is Unknown: nobody has seen the answer.
const (
	Unknown Outcome = iota
	Won
	Lost
)

// Result is the outcome of one Change with the row as it is now. Lost means
// provably not applied: by the comparison (Err is nil), or because the change is
// illegal, the row missing or the ledger read-only (Err says which). An error of
// the database is Unknown; the caller reads the row back.
type Result struct {
	Outcome Outcome
	Row     Row // read back where the ledger can be read; empty where an Unread change won
	Err     error
}

// NewRow is what the application writes when it enqueues a job.
type NewRow struct {
	Key           Key
	Subject       string
	Version       string
	PayloadSHA256 string
	Region        string
	Account       string
	CustomerID    string
	Actor         string
}

// RowWritten says when the application first writes a row.
type RowWritten string

// Under AtEnqueue every dead job should have a row; under AtClaim a job that
// was never claimed has none.
const (
	AtEnqueue RowWritten = "enqueue"
	AtClaim   RowWritten = "claim"
)

// Capabilities says what this ledger can do.
type Capabilities struct {
	Writable      bool
	Scoped        bool // rows are kept per consumer
	History       bool
	SendBefore    bool // the ledger can store SendBefore, and workers honour it
	PayloadSHA256 bool
	Replaces      bool // the ledger can queue an edited copy in the place of a row
	MaxBatch      int
	RowWritten    RowWritten
	Retention     time.Duration // how long rows are kept; 0: for ever
}

// Ledger is the application's record as redrivectl and a worker use it. No
// method retries by itself. All may be called from several goroutines.
type Ledger interface {
	Capabilities() Capabilities
	// Now is the ledger's own clock: deadlines are compared with it alone.
	Now(ctx context.Context) (time.Time, error)
	// Get answers key for key with one query per MaxBatch keys. An error of the
	// whole query is Unreadable for each key, never a missing row.
	Get(ctx context.Context, keys []Key) []Lookup
	// History is one row with all its events; ok is false when it is missing.
	History(ctx context.Context, key Key) (Row, bool, error)
	// Scan calls each for every row in the window, in order of update time. Each
	// must not change the ledger: the rows are being read while it runs.
	Scan(ctx context.Context, w Window, each func(Row) error) error
	// Apply makes each change by itself: one that loses does not undo another.
	Apply(ctx context.Context, cs []Change) []Result
}
