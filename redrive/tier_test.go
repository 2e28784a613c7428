package redrive

import (
	"slices"
	"testing"

	"github.com/redrivectl/redrivectl/reconcile"
)

func TestTierOf(t *testing.T) {
	t.Parallel()
	item := func(row int, lift string) Item { return Item{Action: reconcile.Redrive, Row: row, Lift: lift} }
	safe := func(items ...Item) TierInput {
		return TierInput{Items: items, Ledger: true, PolicyApproved: true, SettingsApproved: true}
	}
	with := func(in TierInput, f func(*TierInput)) TierInput { f(&in); return in }
	many := slices.Repeat([]Item{item(7, "")}, 11)
	settle := Item{Action: reconcile.Settle, Row: 2}
	tests := []struct {
		name string
		in   TierInput
		tier Tier
		why  string
	}{
		{"settles only, any count", safe(slices.Repeat([]Item{settle}, 5000)...), TierSelf, "settles_only"},
		{"effect none", safe(item(7, "")), TierSelf, "proven"},
		{"not_accepted", safe(item(8, "")), TierSelf, "proven"},
		{"replay-safe", safe(item(10, "")), TierSelf, "proven"},
		{"idempotent by config", safe(item(11, "idempotent")), TierSelf, "proven"},
		{"ten", safe(many[:10]...), TierSelf, "proven"},
		{"eleven", safe(many...), TierOne, "more_items"},
		{"eleven over two plans", with(safe(many[:2]...), func(in *TierInput) { in.SelfBefore = 9 }), TierOne, "more_items"},
		{"settles do not count", with(safe(append(many[:1:1], slices.Repeat([]Item{settle}, 50)...)...), func(in *TierInput) { in.SelfBefore = 9 }), TierSelf, "proven"},
		{"stated correction", with(safe(item(7, "fixed")), func(in *TierInput) { in.Lifts.Fixed = "x" }), TierOne, "stated_correction"},
		{"claimed class", with(safe(item(7, "as")), func(in *TierInput) { in.Lifts.As = "throttled" }), TierOne, "claimed_class"},
		{"provisional", safe(item(12, "provisional")), TierOne, "provisional_no"},
		{"no ledger", with(safe(item(7, "")), func(in *TierInput) { in.Ledger = false }), TierOne, "no_ledger"},
		{"no ledger, settles only", with(safe(settle), func(in *TierInput) { in.Ledger = false }), TierSelf, "settles_only"},
		{"fan-out", with(safe(item(7, "")), func(in *TierInput) { in.Lifts.FanOut = true }), TierOne, "fan_out"},
		{"break order", with(safe(item(7, "")), func(in *TierInput) { in.Lifts.BreakOrder = true }), TierOne, "break_order"},
		{"typed destination", with(safe(item(7, "")), func(in *TierInput) { in.Elsewhere = true }), TierOne, "typed_destination"},
		{"effects by flag", with(safe(item(11, "idempotent")), func(in *TierInput) { in.Lifts.EffectsByFlag = true }), TierOne, "effects_by_flag"},
		{"weaker gate", with(safe(item(7, "")), func(in *TierInput) { in.WeakerGate = true }), TierOne, "weaker_gate"},
		{"billing", with(safe(item(8, "")), func(in *TierInput) { in.Billing = true }), TierOne, "billing"},
		{"redriven often", with(safe(item(7, "")), func(in *TierInput) { in.OverCap = true }), TierOne, "redrive_cap"},
		{"policy not approved", with(safe(settle), func(in *TierInput) { in.PolicyApproved = false }), TierOne, "unapproved_policy"},
		{"settings not approved", with(safe(item(7, "")), func(in *TierInput) { in.SettingsApproved = false }), TierOne, "unapproved_settings"},
		{"an unknown row", safe(item(15, "")), TierOne, "not_proven"},
		{"an unknown action", safe(Item{Action: "other"}), TierOne, "action_without_a_rule"},
		{"discard, one job", safe(Item{Action: reconcile.Discard, Row: 6}), TierOne, "discard"},
		{"discard without a ledger", with(safe(Item{Action: reconcile.Discard, Row: 6, Lift: "discard"}), func(in *TierInput) { in.Ledger = false }), TierOne, "discard"},
		{"duplicate risk", safe(item(14, "duplicates")), TierTwo, "accepted_duplicate_risk"},
		{"published before", safe(Item{Action: reconcile.Redrive, Row: 7, Republish: true}), TierTwo, "accepted_duplicate_risk"},
	}
	for _, tt := range tests {
		tier, why := TierOf(tt.in)
		if tier != tt.tier || !slices.Contains(why, tt.why) {
			t.Errorf("%s: %s %v, want %s with %s", tt.name, tier, why, tt.tier, tt.why)
		}
	}
}
