package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/classify"
)

var (
	dispositions = []classify.Disposition{classify.Retry, classify.Fix, classify.Alert, classify.Discard, classify.Hold}
	effects      = []classify.Effect{classify.EffectNone, classify.EffectUnknown}
	verdicts     = []Verdict{None, Accepted, Rejected, NotAccepted, ProvisionalNo, TooEarly, TooOld, Ambiguous, Unavailable}
	bools        = []bool{false, true}
	declared     = []Declared{NotDeclared, ByConfig, ByFlag}
	askings      = []Asking{CanAsk, NoProvider, NoJobKey}
	blocks       = []Block{NotBlocked, BlockReadOnly, BlockNotWhole, BlockUnmapped, BlockReferenceMismatch}
)

func lifts() []Lifts {
	var ls []Lifts
	for _, fixed := range bools {
		for _, as := range append([]classify.Disposition{""}, dispositions...) {
			for _, prov := range bools {
				for _, dup := range bools {
					ls = append(ls, Lifts{Fixed: fixed, As: as, AcceptProvisional: prov, AcceptDuplicates: dup})
				}
			}
		}
	}
	// A plan that discards carries no other lift, and none would count.
	return append(ls, Lifts{Discard: true}, Lifts{Fixed: true, As: classify.Retry, AcceptProvisional: true, AcceptDuplicates: true, Discard: true})
}

// everyInput calls f for every combination of the table's inputs that has the
// given disposition.
func everyInput(d classify.Disposition, f func(*Input)) {
	for _, s := range standings() {
		for _, v := range verdicts {
			for _, e := range effects {
				everyFlag(Input{Disposition: d, Standing: s, Verdict: v, Effect: e}, f)
			}
		}
	}
}

func everyFlag(in Input, f func(*Input)) {
	for bits := range 16 {
		in.Outdated, in.Unresolved = bits&1 != 0, bits&2 != 0
		in.Mismatch, in.ReplaySafe = bits&4 != 0, bits&8 != 0
		for _, in.Declared = range declared {
			for _, in.Asking = range askings {
				for _, in.Block = range blocks {
					for _, in.Lifts = range lifts() {
						f(&in)
					}
				}
			}
		}
	}
}

// maySend is the safe-to-send rule, stated apart from the table: what must be
// proven, declared or explicitly lifted before a job may go out again.
func maySend(in *Input) bool {
	resolved := in.Verdict == NotAccepted || in.Verdict == Rejected ||
		!in.Unresolved && in.Standing != SendingPast && in.Standing != StandsFenced
	lifted := in.Verdict == ProvisionalNo && in.Lifts.AcceptProvisional ||
		in.Lifts.AcceptDuplicates && (in.Verdict == TooOld || in.Verdict == Ambiguous || in.Asking != CanAsk)
	return resolved && (in.Effect == classify.EffectNone || in.Standing == NeverClaimed) ||
		in.Verdict == NotAccepted ||
		in.Verdict == Rejected && in.Lifts.Fixed ||
		in.ReplaySafe || in.Declared != NotDeclared || lifted
}

// mustHold is what forbids both sending and dropping, whatever else is said.
func mustHold(in *Input) bool {
	switch in.Standing {
	case InFlight, RowMissing, RowUnreadable, RowOlder, Unscoped, StandsReplaced:
		return true
	default:
		return in.Mismatch
	}
}

func committed(in *Input) bool {
	return in.Standing == Committed || in.Standing == ReplacementSent || in.Verdict == Accepted
}

// broken names the promise that a decision breaks; empty when it keeps all.
func broken(in *Input, d Decision) string {
	acts := d.Action == Redrive || d.Action == Discard
	switch {
	case d.Row < 1 || d.Row > 15 || d.Why == "":
		return "no row or no reason"
	case d.Action == Hold && d.Needs == "":
		return "a hold that does not say what it needs"
	case acts && committed(in):
		return "acts on a job whose effect is proven"
	case acts && mustHold(in):
		return "acts on a job that must hold"
	case d.Action == Settle && !committed(in):
		return "settles without proof"
	case d.Action == Redrive && !maySend(in):
		return "redrives what is not proven, declared or lifted"
	case d.Action == Redrive && (in.Block != NotBlocked || in.Outdated):
		return "redrives what is blocked or outdated"
	case d.Action == Redrive && !asksForRedrive(in):
		return "redrives against the disposition"
	case d.Action == Discard && !asksForDiscard(in):
		return "discards what nobody wants dropped"
	case d.Action == Discard && !mayDrop(in):
		return "discards with an attempt unresolved"
	case in.Lifts.Discard && d.Action == Redrive:
		return "redrives what is to be dropped"
	case in.Lifts.Discard && d.Action == Discard && !in.Outdated && d.Lift != LiftDiscard:
		return "drops by the operator's word and does not say so"
	default:
		return ""
	}
}

// mayDrop is the rule for dropping, stated apart from the table: every attempt is
// resolved or declared harmless, or the operator drops what nobody can tell.
func mayDrop(in *Input) bool {
	if in.Verdict == NotAccepted || in.Verdict == Rejected {
		return true
	}
	open := in.Unresolved || in.Standing == SendingPast || in.Standing == StandsFenced
	nobody := in.Asking == NoProvider || in.Asking == NoJobKey || in.Verdict == TooOld || in.Verdict == Ambiguous ||
		in.Standing == NoLedger && in.Verdict == ProvisionalNo
	return !open || in.Lifts.Discard && nobody || !in.Outdated && !in.Lifts.Discard && in.Declared != NotDeclared
}

func asksForDiscard(in *Input) bool {
	claimed := in.Disposition == classify.Hold && in.Lifts.As == classify.Discard
	return in.Outdated || in.Lifts.Discard || in.Disposition == classify.Discard || claimed
}

func asksForRedrive(in *Input) bool {
	d := in.Disposition
	if d == classify.Hold {
		d = in.Lifts.As
	}
	return d == classify.Retry || (d == classify.Fix || d == classify.Alert) && in.Lifts.Fixed
}

func TestDecideOverEveryCombination(t *testing.T) {
	t.Parallel()
	for _, d := range dispositions {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			seen := map[int]bool{}
			everyInput(d, func(in *Input) {
				got := Decide(*in)
				seen[got.Row] = true
				if what := broken(in, got); what != "" {
					t.Fatalf("%s:\n%+v\n%+v", what, *in, got)
				}
			})
			if len(seen) != len(Rows()) {
				t.Errorf("rows reached: %v, want all %d", seen, len(Rows()))
			}
		})
	}
}

func TestDecideFirstMatchWins(t *testing.T) {
	t.Parallel()
	base := Input{Disposition: classify.Retry, Effect: classify.EffectUnknown, Unresolved: true, Standing: StandsFailed}
	with := func(change func(*Input)) Input {
		in := base
		change(&in)
		return in
	}
	tests := []struct {
		name string
		in   Input
		want Decision
	}{
		{
			"mismatch before sent", with(func(in *Input) { in.Mismatch, in.Standing = true, Committed }),
			Decision{Action: Hold, Row: 1, Why: "mismatch", Needs: "a person: payload or version is not what the ledger has for this job key"},
		},
		{"sent", with(func(in *Input) { in.Standing = Committed }), Decision{Action: Settle, Row: 2, Why: "already_sent"}},
		{
			"accepted though sending", with(func(in *Input) { in.Standing, in.Verdict = InFlight, Accepted }),
			Decision{Action: Settle, Row: 2, Why: "accepted"},
		},
		{
			"replacement sent", with(func(in *Input) { in.Standing = ReplacementSent }),
			Decision{Action: Settle, Row: 3, Why: "replacement_sent"},
		},
		{
			"outdated and covered by a verdict", with(func(in *Input) { in.Outdated, in.Verdict = true, NotAccepted }),
			Decision{Action: Discard, Row: 6, Why: "outdated"},
		},
		{
			"outdated, open, and somebody can be asked", with(func(in *Input) { in.Outdated, in.Lifts.Discard = true, true }),
			Decision{Action: Hold, Row: 6, Why: "outdated_unresolved", Needs: needsReconcile},
		},
		{
			"outdated, open, and nobody can be asked", with(func(in *Input) { in.Outdated, in.Asking = true, NoProvider }),
			Decision{Action: Hold, Row: 6, Why: "outdated_unresolved", Needs: needsReconcile},
		},
		{
			"the same, to be dropped", with(func(in *Input) { in.Outdated, in.Asking, in.Lifts.Discard = true, NoProvider, true }),
			Decision{Action: Discard, Row: 6, Why: "nobody_to_ask", Lift: "discard"},
		},
		{
			"to be dropped, nothing open", with(func(in *Input) { in.Unresolved, in.Lifts.Discard = false, true }),
			Decision{Action: Discard, Row: 6, Why: "requested", Lift: "discard"},
		},
		{
			"to be dropped, proven by a verdict", with(func(in *Input) { in.Verdict, in.Lifts.Discard = NotAccepted, true }),
			Decision{Action: Discard, Row: 6, Why: "requested", Lift: "discard"},
		},
		{
			"to be dropped, an attempt open", with(func(in *Input) { in.Lifts.Discard = true }),
			Decision{Action: Hold, Row: 6, Why: "discard_unresolved", Needs: needsReconcile},
		},
		{
			"to be dropped, a no without a fence", with(func(in *Input) { in.Verdict, in.Lifts.Discard = ProvisionalNo, true }),
			Decision{Action: Hold, Row: 6, Why: "discard_unresolved", Needs: needsReconcile},
		},
		{
			"to be dropped, a no that no ledger can make final", with(func(in *Input) {
				in.Verdict, in.Standing, in.Lifts.Discard = ProvisionalNo, NoLedger, true
			}),
			Decision{Action: Discard, Row: 6, Why: "nobody_to_ask", Lift: "discard"},
		},
		{
			"to be dropped, too old to be found", with(func(in *Input) { in.Verdict, in.Lifts.Discard = TooOld, true }),
			Decision{Action: Discard, Row: 6, Why: "nobody_to_ask", Lift: "discard"},
		},
		{
			"to be dropped, and proven sent", with(func(in *Input) { in.Verdict, in.Lifts.Discard = Accepted, true }),
			Decision{Action: Settle, Row: 2, Why: "accepted"},
		},
		{
			"to be dropped, and in flight", with(func(in *Input) { in.Standing, in.Lifts.Discard = InFlight, true }),
			Decision{Action: Hold, Row: 4, Why: "in_flight", Needs: "the attempt or the run that holds the row to end"},
		},
		{
			"no effect", with(func(in *Input) { in.Effect, in.Unresolved = classify.EffectNone, false }),
			Decision{Action: Redrive, Row: 7, Why: "no_effect"},
		},
		{
			"never claimed", with(func(in *Input) { in.Standing, in.Unresolved = NeverClaimed, false }),
			Decision{Action: Redrive, Row: 7, Why: "never_claimed"},
		},
		{
			"effect none but an attempt open", with(func(in *Input) { in.Effect = classify.EffectNone }),
			Decision{Action: Hold, Row: 15, Why: "effect_unknown", Needs: needsReconcile},
		},
		{
			"not accepted", with(func(in *Input) { in.Standing, in.Verdict = StandsFenced, NotAccepted }),
			Decision{Action: Redrive, Row: 8, Why: "not_accepted"},
		},
		{
			"rejected and corrected", with(func(in *Input) { in.Verdict, in.Lifts.Fixed = Rejected, true }),
			Decision{Action: Redrive, Row: 9, Why: "rejected", Lift: "fixed"},
		},
		{"replay-safe", with(func(in *Input) { in.ReplaySafe = true }), Decision{Action: Redrive, Row: 10, Why: "replay_safe"}},
		{
			"idempotent", with(func(in *Input) { in.Declared = ByConfig }),
			Decision{Action: Redrive, Row: 11, Why: "idempotent", Lift: "idempotent"},
		},
		{
			"provisional, lifted", with(func(in *Input) { in.Verdict, in.Lifts.AcceptProvisional = ProvisionalNo, true }),
			Decision{Action: Redrive, Row: 12, Why: "provisional_no", Lift: "provisional"},
		},
		{"too early is not lifted", with(func(in *Input) {
			in.Verdict, in.Lifts = TooEarly, Lifts{AcceptProvisional: true, AcceptDuplicates: true}
		}), Decision{Action: Hold, Row: 13, Why: "too_early", Needs: "the provider's delay to pass, then reconcile again"}},
		{"no provider, lifted, unknown class claimed", with(func(in *Input) {
			in.Disposition, in.Asking = classify.Hold, NoProvider
			in.Lifts = Lifts{As: classify.Retry, AcceptDuplicates: true}
		}), Decision{Action: Redrive, Row: 14, Why: "no_provider", Lift: "duplicates"}},
		{"unavailable is not lifted", with(func(in *Input) {
			in.Verdict, in.Lifts = Unavailable, Lifts{AcceptProvisional: true, AcceptDuplicates: true}
		}), Decision{Action: Hold, Row: 15, Why: "unavailable", Needs: "the provider to answer, then reconcile again"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Decide(tt.in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// standings lists every standing.
func standings() []Standing {
	return []Standing{
		NoLedger, NotWritten, Purged, RowMissing, RowUnreadable, RowOlder, Unscoped, InFlight,
		NeverClaimed, QueuedClaimed, SendingPast, StandsFenced, StandsFailed, Committed,
		StandsReplaced, ReplacementSent,
	}
}
