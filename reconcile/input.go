package reconcile

import "github.com/redrivectl/redrivectl/internal/classify"

// Standing is where a job stands in the ledger: the row's state together with
// everything that changes what that state is worth. It is one closed list so
// that the decision table can be tested over every combination.
type Standing string

// The standings. StandingOf gives the first that applies in the order of the
// decision table.
const (
	NoLedger        Standing = "no_ledger"        // the queue has none
	NotWritten      Standing = "not_written"      // no row, and none was due before a claim
	Purged          Standing = "purged"           // no row, and the job is older than the ledger's retention
	RowMissing      Standing = "missing"          // no row though there should be one
	RowUnreadable   Standing = "unreadable"       // the ledger did not answer for it
	RowOlder        Standing = "older"            // older than what the store has seen of it
	Unscoped        Standing = "unscoped"         // several consumers share a ledger that cannot tell them apart
	InFlight        Standing = "in_flight"        // queued by a run that lives, or sending before its deadline
	NeverClaimed    Standing = "never_claimed"    // queued, not claimed, its run not living
	QueuedClaimed   Standing = "queued"           // queued again after claims, its run not living
	SendingPast     Standing = "sending"          // sending, past its deadline
	StandsFenced    Standing = "fenced"           // fenced
	StandsFailed    Standing = "failed"           // failed
	Committed       Standing = "committed"        // sent, reconciled, or a late acceptance
	StandsReplaced  Standing = "replaced"         // replaced by an edit that was not sent yet
	ReplacementSent Standing = "replacement_sent" // replaced by an edit that was sent
)

// Asking says whether the provider can be asked about the job at all.
type Asking string

// Why a provider cannot be asked; CanAsk is the zero value.
const (
	CanAsk     Asking = ""
	NoProvider Asking = "no_provider"
	NoJobKey   Asking = "no_job_key"
)

// Block is what keeps a job from being redriven although that would be safe.
type Block string

// The blocks; NotBlocked is the zero value.
const (
	NotBlocked Block = ""
	// BlockReadOnly: the ledger is read-only and the row cannot be claimed as
	// it is.
	BlockReadOnly Block = "ledger_read_only"
	// BlockNotWhole: the message holds no whole original to send.
	BlockNotWhole Block = "not_redrivable"
	// BlockUnmapped: the queue's configured mapping failed on the message, so its
	// identity is not what it may seem.
	BlockUnmapped Block = "mapping_failed"
	// BlockReferenceMismatch: what the job points to is not what its hash says.
	// Missing and unreadable content cannot be held against the hash at all.
	BlockReferenceMismatch   Block = "reference_mismatch"
	BlockReferenceMissing    Block = "reference_missing"
	BlockReferenceUnreadable Block = "reference_unreadable"
)

// OfReference reports that the block is about what the job points to.
func (b Block) OfReference() bool {
	return b == BlockReferenceMismatch || b == BlockReferenceMissing || b == BlockReferenceUnreadable
}

// Declared says that a repeated effect is declared harmless, and where.
type Declared string

// Who declared the effects idempotent; NotDeclared is the zero value.
const (
	NotDeclared Declared = ""
	ByConfig    Declared = "config"
	ByFlag      Declared = "flag"
)

// Lifts are a plan's explicit exceptions as they apply to one job.
type Lifts struct {
	Fixed             bool                 // a correction is stated, or the job is edited
	As                classify.Disposition // of the class claimed for an unknown job; empty: none
	AcceptProvisional bool
	AcceptDuplicates  bool
	Discard           bool // the plan drops what it selects
}

// Input is all that the decision table looks at.
type Input struct {
	Disposition classify.Disposition
	// Outdated: the job is stale or expired.
	Outdated bool
	// Effect is the worst over all attempts that are not resolved (EffectOf).
	Effect classify.Effect
	// Unresolved: an attempt has neither a proven outcome nor a verdict.
	Unresolved bool
	Standing   Standing
	// Mismatch: payload hash or version differ from the row's for the same key.
	Mismatch   bool
	Verdict    Verdict
	ReplaySafe bool
	Declared   Declared
	Asking     Asking
	Block      Block
	Lifts      Lifts
}

// unresolved is what the table means by it: a verdict that is a conclusive no
// covers every attempt, and a row that is sending or fenced has one by nature.
func (in Input) unresolved() bool {
	if in.Verdict == NotAccepted || in.Verdict == Rejected {
		return false
	}
	return in.Unresolved || in.Standing == SendingPast || in.Standing == StandsFenced
}

// askable reports that a look-up may still tell what became of the attempts:
// there is a provider and a key to ask it by, and it has not said already that
// it cannot tell. A no without a ledger stays provisional for ever, because
// nothing can be fenced.
func (in Input) askable() bool {
	switch {
	case in.Asking != CanAsk, in.Verdict == TooOld, in.Verdict == Ambiguous:
		return false
	default:
		return in.Standing != NoLedger || in.Verdict != ProvisionalNo
	}
}
