package reconcile

import (
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

// Rule is one row of the decision table, in words.
type Rule struct {
	Row    int    `json:"row"`
	When   string `json:"when"`
	Action string `json:"action"`
}

// rule is a row together with the function that is its meaning. decide reports
// false when the row does not match.
type rule struct {
	when, action string
	decide       func(Input) (Decision, bool)
}

// table is the decision table. Its order is its meaning: the first row that
// matches decides, and the last always matches.
var table = [...]rule{
	{"the payload hash or version differs from the row's for the same key", "hold: mismatch", rowMismatch},
	{"row sent or reconciled, or late acceptance, or verdict accepted", "settle", rowCommitted},
	{"row replaced", "settle once its replacement is sent or reconciled; else hold, or publish the same edit again", rowReplaced},
	{"row queued by a run that lives, or sending before its deadline", "hold: in flight", rowInFlight},
	{"row missing though it should exist, unreadable, older than the store's knowledge, or shared by several consumers", "hold: ledger", rowLedger},
	{"stale or expired, or the plan discards (--action discard)", "discard, once no attempt is unresolved or, for such a plan, nobody can be asked; else hold", rowDiscard},
	{"effect none for all attempts, or row queued and never claimed with its run not living; and no attempt unresolved", "by disposition", rowNoEffect},
	{"verdict not_accepted", "by disposition", rowNotAccepted},
	{"verdict rejected", "by disposition, at least fix", rowRejected},
	{"replay-safe: the provider still honours the job key for the same payload", "by disposition", rowReplaySafe},
	{"declared idempotent", "by disposition", rowIdempotent},
	{"verdict provisional_no", "hold; one approver may lift it (--accept-provisional WHY)", rowProvisional},
	{"verdict too_early", "hold until the time named", rowTooEarly},
	{"verdict too_old or ambiguous, no provider, or no job key", "hold; two approvers may lift it (--accept-duplicates WHY)", rowDuplicateRisk},
	{"anything else", "hold", rowElse},
}

// Rows describes the decision table, row by row from 1.
func Rows() []Rule {
	rs := make([]Rule, len(table))
	for i, r := range table {
		rs[i] = Rule{Row: i + 1, When: r.when, Action: r.action}
	}
	return rs
}

// Decide is the decision table: the first row that matches wins. It is pure.
func Decide(in Input) Decision {
	for i := range table {
		if d, ok := table[i].decide(in); ok {
			d.Row = i + 1
			return d
		}
	}
	return Decision{Action: Hold, Row: len(table), Why: "unmatched", Needs: needsReconcile}
}

// LiftDiscard is the lift of a job that is dropped because its plan says so.
const LiftDiscard = "discard"

// Why a job is discarded: its class says that it is too late; its plan says so;
// or so and although an attempt is unresolved, about which nobody can be asked.
const (
	WhyOutdated    = "outdated"
	WhyRequested   = "requested"
	WhyNobodyToAsk = "nobody_to_ask"
)

const needsWhole = "the job published again by its application"

const needsReconcile = "a verdict: reconcile the queue with --apply"

func hold(why, needs string) (Decision, bool) {
	return Decision{Action: Hold, Why: why, Needs: needs}, true
}

func rowMismatch(in Input) (Decision, bool) {
	if !in.Mismatch {
		return Decision{}, false
	}
	return hold("mismatch", "a person: payload or version is not what the ledger has for this job key")
}

func rowCommitted(in Input) (Decision, bool) {
	switch {
	case in.Standing == Committed:
		return Decision{Action: Settle, Why: "already_sent"}, true
	case in.Verdict == Accepted:
		return Decision{Action: Settle, Why: "accepted"}, true
	default:
		return Decision{}, false
	}
}

func rowReplaced(in Input) (Decision, bool) {
	switch in.Standing {
	case ReplacementSent:
		return Decision{Action: Settle, Why: "replacement_sent"}, true
	case StandsReplaced:
		return hold("replaced", "the replacement to be sent")
	default:
		return Decision{}, false
	}
}

func rowInFlight(in Input) (Decision, bool) {
	if in.Standing != InFlight {
		return Decision{}, false
	}
	return hold("in_flight", "the attempt or the run that holds the row to end")
}

func rowLedger(in Input) (Decision, bool) {
	switch in.Standing {
	case RowMissing:
		return hold("ledger_missing", "the ledger row, which should exist")
	case RowUnreadable:
		return hold("ledger_unreadable", "the ledger to answer")
	case RowOlder:
		return hold("ledger_older", "a current ledger: the row is older than what was already seen of it")
	case Unscoped:
		return hold("ledger_unscoped", "a ledger that keeps one row per consumer")
	default:
		return Decision{}, false
	}
}

// rowDiscard drops a job that is too old, or that the operator says shall be
// dropped. An unresolved attempt holds it, since a look-up might still settle
// it; but what nobody can tell any more keeps no approved plan from dropping it.
func rowDiscard(in Input) (Decision, bool) {
	why, lift := WhyOutdated, ""
	if !in.Outdated {
		why, lift = WhyRequested, LiftDiscard
	}
	switch {
	case !in.Outdated && !in.Lifts.Discard:
		return Decision{}, false
	case !in.unresolved():
		return Decision{Action: Discard, Why: why, Lift: lift}, true
	case in.Lifts.Discard && !in.askable():
		return Decision{Action: Discard, Why: WhyNobodyToAsk, Lift: LiftDiscard}, true
	case in.Outdated:
		return hold("outdated_unresolved", needsReconcile)
	default:
		return hold("discard_unresolved", needsReconcile)
	}
}

func rowNoEffect(in Input) (Decision, bool) {
	switch {
	case in.unresolved():
		return Decision{}, false
	case in.Effect == classify.EffectNone:
		return byDisposition(in, in.Disposition, "no_effect", ""), true
	case in.Standing == NeverClaimed:
		return byDisposition(in, in.Disposition, "never_claimed", ""), true
	default:
		return Decision{}, false
	}
}

func rowNotAccepted(in Input) (Decision, bool) {
	if in.Verdict != NotAccepted {
		return Decision{}, false
	}
	return byDisposition(in, in.Disposition, "not_accepted", ""), true
}

func rowRejected(in Input) (Decision, bool) {
	if in.Verdict != Rejected {
		return Decision{}, false
	}
	if in.Lifts.As == classify.Retry {
		in.Lifts.As = classify.Fix
	}
	d := in.Disposition
	if d == classify.Retry {
		d = classify.Fix
	}
	return byDisposition(in, d, "rejected", ""), true
}

func rowReplaySafe(in Input) (Decision, bool) {
	if !in.ReplaySafe {
		return Decision{}, false
	}
	return byDisposition(in, in.Disposition, "replay_safe", ""), true
}

func rowIdempotent(in Input) (Decision, bool) {
	if in.Declared == NotDeclared {
		return Decision{}, false
	}
	return byDisposition(in, in.Disposition, "idempotent", "idempotent"), true
}

func rowProvisional(in Input) (Decision, bool) {
	switch {
	case in.Verdict != ProvisionalNo:
		return Decision{}, false
	case in.Lifts.AcceptProvisional:
		return byDisposition(in, in.Disposition, "provisional_no", "provisional"), true
	default:
		return hold("provisional_no", "a conclusive verdict (reconcile with --apply), or one approver for --accept-provisional WHY")
	}
}

func rowTooEarly(in Input) (Decision, bool) {
	if in.Verdict != TooEarly {
		return Decision{}, false
	}
	return hold("too_early", "the provider's delay to pass, then reconcile again")
}

func rowDuplicateRisk(in Input) (Decision, bool) {
	why := string(in.Verdict)
	switch {
	case in.Verdict == TooOld || in.Verdict == Ambiguous:
	case in.Asking != CanAsk:
		why = string(in.Asking)
	default:
		return Decision{}, false
	}
	if in.Lifts.AcceptDuplicates {
		return byDisposition(in, in.Disposition, why, "duplicates"), true
	}
	return hold(why, "two approvers for --accept-duplicates WHY")
}

func rowElse(in Input) (Decision, bool) {
	if in.Verdict == Unavailable {
		return hold("unavailable", "the provider to answer, then reconcile again")
	}
	return hold("effect_unknown", needsReconcile)
}

// byDisposition does what the class asks for. A claimed class replaces the
// disposition; it never touches what is known of the effect.
func byDisposition(in Input, d classify.Disposition, why, lift string) Decision {
	claimed := in.Lifts.As != "" && d == classify.Hold
	if claimed {
		d = in.Lifts.As
		lift = worseLift(lift, "as")
	}
	switch d {
	case classify.Retry:
		return redrive(in, why, lift)
	case classify.Fix, classify.Alert:
		if in.Lifts.Fixed {
			return redrive(in, why, worseLift(lift, "fixed"))
		}
		return Decision{Action: Hold, Why: "needs_fix", Needs: needsFix(d)}
	case classify.Discard:
		return discard(in, why, lift)
	default:
		return Decision{Action: Hold, Why: "class_unknown", Needs: "a class: --as CLASS, as the operator's claim"}
	}
}

// discard drops a job only when nothing of it is unresolved: a later look-up
// might have settled it.
func discard(in Input, why, lift string) Decision {
	if in.unresolved() && in.Declared == NotDeclared {
		return Decision{Action: Hold, Why: "discard_unresolved", Needs: needsReconcile}
	}
	return Decision{Action: Discard, Why: why, Lift: lift}
}

func redrive(in Input, why, lift string) Decision {
	if in.Block == NotBlocked {
		return Decision{Action: Redrive, Why: why, Lift: lift}
	}
	return Decision{Action: Hold, Why: string(in.Block), Needs: in.Block.needs()}
}

func (b Block) needs() string {
	switch b {
	case BlockReadOnly:
		return "a writable ledger, or a row that is claimable as it is"
	case BlockNotWhole:
		return needsWhole
	case BlockUnmapped:
		return job.NeedsMapping
	case BlockReferenceMismatch:
		return "a person: what the job points to is not what its SHA-256 says"
	case BlockReferenceMissing:
		return "what the job points to, which is gone from its storage"
	case BlockReferenceUnreadable:
		return "the storage of what the job points to, to be read"
	default:
		return "a person: " + string(b)
	}
}

func needsFix(d classify.Disposition) string {
	if d == classify.Alert {
		return `the cause corrected: --fixed "what was corrected"`
	}
	return `a correction: --edit JQ, or --fixed "what was corrected"`
}

// worseLift keeps the graver of two lifts, so that a record names the largest
// risk that was accepted.
func worseLift(a, b string) string {
	if liftRank(b) > liftRank(a) {
		return b
	}
	return a
}

func liftRank(lift string) int {
	switch lift {
	case "duplicates":
		return 5
	case "provisional":
		return 4
	case "idempotent":
		return 3
	case "as":
		return 2
	case "fixed":
		return 1
	default:
		return 0
	}
}
