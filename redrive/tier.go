package redrive

import (
	"maps"
	"slices"

	"github.com/redrivectl/redrivectl/reconcile"
)

// selfMax is how many redrives a queue may have in 24 hours, over all plans,
// without another person, unless the policy permits fewer.
const selfMax = 10

// TierInput is what decides who must approve a plan.
type TierInput struct {
	Items []Item
	Lifts Lifts
	// SelfBefore counts the redrives of the queue planned under the self tier in
	// the last 24 hours.
	SelfBefore int
	SelfMax    *int // of the policy; nil: 10
	Ledger     bool // the queue has one
	Billing    bool // a repeated effect costs money
	// PolicyApproved and SettingsApproved: shipped as default, or carried by a
	// plan that another person approved.
	PolicyApproved   bool
	SettingsApproved bool
	// OverCap: an item would be redriven more often than the cap.
	OverCap bool
	// Elsewhere: an item goes to a typed destination that is not the one derived
	// from the configuration or its copy.
	Elsewhere bool
	// WeakerGate: a canary, a gate or thresholds that ask for less than the policy.
	// No canary is none where the policy wants none.
	WeakerGate bool
}

// TierOf is the tier of a plan with every reason for it, sorted. What is not
// plainly safe needs another person.
func TierOf(in TierInput) (Tier, []string) {
	var redrives []Item
	for _, it := range in.Items {
		if it.Action == reconcile.Redrive {
			redrives = append(redrives, it)
		}
	}
	two := picked(map[string]bool{
		"accepted_duplicate_risk": slices.ContainsFunc(redrives, func(it Item) bool { return it.Lift == "duplicates" || it.Republish }),
	})
	reasons := in.reasonsOfItems(redrives)
	maps.Copy(reasons, in.reasonsOfPlan(len(redrives)))
	one := picked(reasons)
	switch {
	case len(two) > 0:
		return TierTwo, append(two, one...)
	case len(one) > 0:
		return TierOne, one
	case len(redrives) > 0:
		return TierSelf, []string{"proven"}
	default:
		return TierSelf, []string{"settles_only"}
	}
}

// reasonsOfItems are what single items ask another person for.
func (in TierInput) reasonsOfItems(redrives []Item) map[string]bool {
	has := func(f func(Item) bool) bool { return slices.ContainsFunc(redrives, f) }
	return map[string]bool{
		"discard":               slices.ContainsFunc(in.Items, func(it Item) bool { return it.Action == reconcile.Discard }),
		"edit":                  has(func(it Item) bool { return it.Edit != nil }),
		"second_send":           has(func(it Item) bool { return it.Edit != nil && it.Edit.SecondSend }),
		"provisional_no":        has(func(it Item) bool { return it.Lift == "provisional" }),
		"not_proven":            has(func(it Item) bool { return !proven(it) }),
		"action_without_a_rule": slices.ContainsFunc(in.Items, func(it Item) bool { return !planned(it.Action) }),
	}
}

// reasonsOfPlan are what a plan with so many redrives asks another person for as a
// whole.
func (in TierInput) reasonsOfPlan(redrives int) map[string]bool {
	some := redrives > 0
	return map[string]bool{
		"more_items":          some && in.SelfBefore+redrives > in.selfMax(),
		"stated_correction":   some && in.Lifts.Fixed != "",
		"claimed_class":       some && in.Lifts.As != "",
		"no_ledger":           some && !in.Ledger,
		"fan_out":             some && in.Lifts.FanOut,
		"break_order":         some && in.Lifts.BreakOrder,
		"typed_destination":   some && in.Elsewhere,
		"effects_by_flag":     some && in.Lifts.EffectsByFlag,
		"weaker_gate":         in.WeakerGate,
		"billing":             some && in.Billing,
		"redrive_cap":         some && in.OverCap,
		"unapproved_policy":   !in.PolicyApproved,
		"unapproved_settings": !in.SettingsApproved,
	}
}

func (in TierInput) selfMax() int {
	if in.SelfMax == nil {
		return selfMax
	}
	return min(*in.SelfMax, selfMax)
}

// proven: nothing was sent, the provider has not accepted, or a second send is
// harmless; see the decision table.
func proven(it Item) bool { return it.Row >= rowNoEffect && it.Row <= rowIdempotent }

// Rows of the decision table that prove a redrive.
const (
	rowNoEffect    = 7
	rowNotAccepted = 8
	rowRejected    = 9
	rowReplaySafe  = 10
	rowIdempotent  = 11
)

func planned(a reconcile.Action) bool {
	return a == reconcile.Redrive || a == reconcile.Settle || a == reconcile.Discard
}

func picked(m map[string]bool) []string {
	var names []string
	for name, yes := range m {
		if yes {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
