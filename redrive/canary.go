package redrive

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
)

// CanaryAuto asks for a canary of the smaller of 10 and 5 % of the redrives.
const CanaryAuto = -1

// GateRequest is what is asked of a plan's first sample.
type GateRequest struct {
	Canary int    // redrives; 0: none; CanaryAuto
	Kind   string // GateLedger or GateDLQOnly; empty: by what the queue has
	// Thresholds are the plan's also without a canary; nil: nothing is judged.
	Thresholds *Thresholds
	// Policy is what the policy asks for. A plan that asks for less needs another
	// person.
	Policy       Thresholds
	PolicyCanary int
}

// canaryOf is how many of the items the canary of a plan has: what is asked for,
// but at least one for each class and region, and no more than there are.
func canaryOf(asked int, items []Item, ordered bool) int {
	if asked == 0 {
		return 0
	}
	heads, redrives := headsOf(items, ordered)
	strata := map[stratum]bool{}
	for _, i := range heads {
		strata[stratumOf(items[i])] = true
	}
	if asked == CanaryAuto {
		asked = min(10, (redrives+19)/20)
	}
	return min(max(asked, len(strata)), redrives)
}

// stratum is what a canary has at least one of.
type stratum struct{ class, region string }

func stratumOf(it Item) stratum { return stratum{string(it.Class), it.Region} }

// headsOf are the redrives that may go first, and how many there are in all: on
// an ordered queue only the first of each group.
func headsOf(items []Item, ordered bool) (heads []int, redrives int) {
	seen := map[string]bool{}
	for i, it := range items {
		if it.Action != reconcile.Redrive {
			continue
		}
		redrives++
		if key := it.OrderKey; ordered && key != "" {
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		heads = append(heads, i)
	}
	return heads, redrives
}

// gate is what the plan says of its gate.
func (r Request) gate(items []Item) (canary int, kind string, err error) {
	canary = canaryOf(r.Gate.Canary, items, r.ordered())
	kind = r.Gate.Kind
	switch {
	case canary == 0:
		return 0, GateNone, nil
	case kind == "" && r.Queue.Ledger:
		kind = GateLedger
	case kind == "":
		kind = GateDLQOnly
	}
	if kind == GateLedger && !r.Queue.Ledger {
		return 0, "", fmt.Errorf("plan of %s: the gate %s needs a ledger, and the queue has none: %w", r.Queue.Name, kind, ErrRefused)
	}
	return canary, kind, nil
}

// checkGate refuses a gate that cannot be held.
func (r Request) checkGate() error {
	g := r.Gate
	switch {
	case g.Canary != 0 && g.Thresholds == nil:
		return fmt.Errorf("plan of %s has a canary and no thresholds: %w", r.Queue.Name, ErrRefused)
	case g.Kind != "" && g.Canary == 0:
		return fmt.Errorf("plan of %s: the gate %s judges a canary, and there is none: %w", r.Queue.Name, g.Kind, ErrRefused)
	case g.Kind != "" && g.Kind != GateLedger && g.Kind != GateDLQOnly:
		return fmt.Errorf("plan of %s: there is no gate %q: %w", r.Queue.Name, g.Kind, ErrRefused)
	case g.Thresholds == nil:
		return nil
	}
	if err := g.Thresholds.Validate(); err != nil {
		return fmt.Errorf("plan of %s: %w: %w", r.Queue.Name, err, ErrRefused)
	}
	return nil
}

// weakerGate reports that a plan that redrives asks for less than its policy does. No
// canary is weaker only where the policy wants one.
func (r Request) weakerGate(items []Item, canary int, kind string) bool {
	g := r.Gate
	if _, redrives := headsOf(items, false); redrives == 0 {
		return false
	}
	return canary < canaryOf(g.PolicyCanary, items, r.ordered()) || kind == GateDLQOnly && r.Queue.Ledger ||
		g.Thresholds != nil && g.Thresholds.weaker(g.Policy)
}

func (r Request) ordered() bool { return r.Queue.Ordered && !r.Lifts.BreakOrder }

// sampleOf is the plan's canary: one of each class and region, and as many more as
// the plan says, chosen by a hash that nobody knew before the plan was frozen. On an
// ordered queue it takes the heads of their groups, and where those are too few the
// next behind them. It is the same whenever it is asked for.
func sampleOf(p Frozen, ordered bool) ([]int, error) {
	ranked, err := rankedOf(p, ordered)
	if err != nil {
		return nil, err
	}
	var sample []int
	had, in := map[stratum]bool{}, map[int]bool{}
	for _, r := range ranked { // strata first
		if r.rank == 0 && !had[r.stratum] && len(sample) < p.Canary {
			had[r.stratum], in[r.index] = true, true
			sample = append(sample, r.index)
		}
	}
	for _, r := range ranked {
		if len(sample) < p.Canary && !in[r.index] {
			sample = append(sample, r.index)
		}
	}
	slices.Sort(sample)
	return sample, nil
}

// ranked is a redrive with its place in the choice.
type ranked struct {
	index, rank int // rank: its place in its ordering group, from 0
	hash        string
	stratum     stratum
}

func rankedOf(p Frozen, ordered bool) ([]ranked, error) {
	var rs []ranked
	depth := map[string]int{}
	err := p.Items.each(func(i int, it *Item) {
		if it.Action != reconcile.Redrive {
			return
		}
		r := ranked{index: i, hash: audit.Hash([]byte("canary\n" + string(p.ID) + "\n" + it.Copy.String())), stratum: stratumOf(*it)}
		if key := it.OrderKey; ordered && key != "" {
			r.rank = depth[key]
			depth[key]++
		}
		rs = append(rs, r)
	})
	slices.SortFunc(rs, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.hash, b.hash)) })
	return rs, err
}
