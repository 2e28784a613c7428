package redrive

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
)

// DecisionBreakGlass is the statement of a person who runs a plan alone in an
// emergency, although it needs others.
const DecisionBreakGlass = "break_glass"

// MaxBreakGlass is how many items one person may run alone in 24 hours on one
// queue, however much its policy allows.
const MaxBreakGlass = 100

// glassTime is the span over which items that are run alone add up.
const glassTime = 24 * time.Hour

// liftedByGlass are the reasons for an approver that an emergency outweighs. None of
// them is a doubt about an effect, a loss, another receiver, or what nobody else has
// looked at: those no emergency makes smaller.
var liftedByGlass = []string{"more_items", "stated_correction", "claimed_class", "no_ledger", "billing", "weaker_gate"}

// Finder reads the audit log.
type Finder interface {
	// FindAudit calls each for the records that a query selects.
	FindAudit(ctx context.Context, q audit.Query, each func(audit.Entry) error) error
}

// Breakable says why one person may not run a plan alone in an emergency, where the
// policy allows most items; nil: he may, as far as the plan goes.
func Breakable(p Frozen, most int) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("break-glass for plan %s: %w: %w", p.ID, fmt.Errorf(format, args...), ErrRefused)
	}
	most = min(most, MaxBreakGlass)
	switch {
	case most <= 0:
		return refuse("the policy does not allow it")
	case p.Tier.Needed() == 0:
		return refuse("it needs no approval")
	case p.Items.Len() > most:
		return refuse("it has %d items, and the policy allows %d", p.Items.Len(), most)
	}
	for _, why := range p.TierWhy {
		if !slices.Contains(liftedByGlass, why) {
			return refuse("no emergency outweighs %s", why)
		}
	}
	var unproven *Item
	err := p.Items.each(func(_ int, it *Item) {
		if unproven == nil && !it.breakable() {
			unproven = it
		}
	})
	if err == nil && unproven != nil {
		err = refuse("job %s is not proven", firstOf(unproven.JobKey, unproven.MessageID))
	}
	return err
}

// breakable: the item settles, or its redrive is proven or replay-safe as it is.
func (it *Item) breakable() bool {
	switch it.Action {
	case reconcile.Settle:
		return true
	case reconcile.Redrive:
		return proven(*it) && it.Edit == nil && !it.Republish && it.Lift != "duplicates" && it.Lift != "provisional"
	default:
		return false
	}
}

// BrokenGlass finds the statement by which a plan is run alone: over exactly this
// plan, in force, by somebody who counts. Whether the plan may be run so is not
// asked.
func BrokenGlass(p Frozen, as []Approval, now time.Time, by Persons) (Approval, bool) {
	for _, a := range as {
		if a.Decision == DecisionBreakGlass && a.Reason != "" && a.inForce(p, now) && by.take(a.Known) {
			return a, true
		}
	}
	return Approval{}, false
}

// BreakGlass states that the person acting runs the plan alone, and why. It is
// ErrRefused where the policy, the plan or what was run alone before does not allow
// it, and where somebody has rejected or revoked the plan, or within a day another
// plan with one of its jobs: he could be reached.
func (a *Approver) BreakGlass(ctx context.Context, prefix, why string) (Tally, error) {
	s, st, err := a.Glass(ctx, prefix, why)
	if err != nil {
		return Tally{}, err
	}
	rec := a.recordOf(s.Plan, st)
	rec.Details[audit.DetailBreakGlass] = why
	for _, lifted := range s.Plan.Plan.TierWhy {
		rec.Details["lifts_"+lifted] = "true"
	}
	return a.add(ctx, s, st, rec)
}

// Glass is the statement that BreakGlass would keep, or why it would not.
func (a *Approver) Glass(ctx context.Context, prefix, why string) (Tally, Approval, error) {
	s, err := a.Tally(ctx, prefix)
	if err == nil {
		err = a.mayBreak(ctx, s)
	}
	return s, a.statement(s.Plan, DecisionBreakGlass, why), err
}

func (a *Approver) mayBreak(ctx context.Context, s Tally) error {
	id, p := s.Plan.ID, s.Plan.Plan
	switch by, taken := s.TakenBack(); {
	case taken:
		return fmt.Errorf("break-glass for plan %s: %s by %s: %w", id, by.Decision, by.Approver, ErrRefused)
	case !s.Plan.State.Open():
		return fmt.Errorf("break-glass for plan %s: it is %s: %w", id, s.Plan.State, ErrRefused)
	case !a.Now().Before(p.ExpiresAt):
		return fmt.Errorf("break-glass for plan %s: it expired at %s: %w", id, stamp(p.ExpiresAt), ErrRefused)
	}
	if err := Breakable(s.Plan.Frozen(), a.Persons.Alone); err != nil {
		return err
	}
	if err := a.notTurnedDown(ctx, s.Plan); err != nil {
		return err
	}
	return glassWithin(ctx, a.Log, s.Plan.Frozen(), a.Persons.Alone, a.Now())
}

// notTurnedDown refuses the jobs of a plan that somebody turned down within a day. The
// statement tells, not the plan's state: a run that it stopped ends as one that ran.
func (a *Approver) notTurnedDown(ctx context.Context, sp StoredPlan) error {
	others, err := a.Plans.ListPlans(ctx, sp.Plan.Queue)
	if err != nil {
		return err
	}
	mine := map[string]bool{}
	for _, it := range sp.Plan.Items {
		mine[it.JobKey], mine[it.Copy.String()] = true, true
	}
	delete(mine, "")
	shared := func(it Item) bool { return mine[it.JobKey] || mine[it.Copy.String()] }
	since := a.Now().Add(-glassTime)
	for _, o := range others {
		i := slices.IndexFunc(o.Plan.Items, shared)
		if i < 0 {
			continue
		}
		as, err := a.Plans.Approvals(ctx, o.ID)
		if err != nil {
			return fmt.Errorf("approvals of plan %s: %w", o.ID, err)
		}
		as = slices.DeleteFunc(as, func(st Approval) bool { return !st.NotBefore.After(since) })
		if no, ok := takenBack(o.ID, as); ok {
			it := o.Plan.Items[i]
			return fmt.Errorf("break-glass for plan %s: job %s is in plan %s: %s by %s at %s: %w",
				sp.ID, firstOf(it.JobKey, it.MessageID), o.ID, no.Decision, no.Approver, stamp(no.NotBefore), ErrRefused)
		}
	}
	return nil
}

// glassWithin refuses more items than the policy allows in 24 hours, over all plans
// of the queue. Of two statements that are made together the later counts both.
func glassWithin(ctx context.Context, log Finder, p Frozen, most int, now time.Time) error {
	most = min(most, MaxBreakGlass)
	items := map[string]int{}
	n, own := 0, false
	q := audit.Query{Queue: p.Queue, Action: DecisionBreakGlass, Since: now.Add(-glassTime), OldestFirst: true}
	err := log.FindAudit(ctx, q, func(e audit.Entry) error {
		r := e.Record
		if _, twice := items[r.Plan]; !twice && !own && r.Plan != string(p.ID) {
			items[r.Plan] = countOf(r.Details["items"])
			n += items[r.Plan]
		}
		own = own || r.Plan == string(p.ID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("what was run alone on %s: %w", p.Queue, err)
	}
	if n+p.Items.Len() > most {
		return fmt.Errorf("break-glass for plan %s: %d items were run alone in 24 hours, and with its %d there are more than %d: %w",
			p.ID, n, p.Items.Len(), most, ErrRefused)
	}
	return nil
}

// glass is why a plan is run alone; empty: it is not. The statement is looked for
// where approvals do not suffice.
func (r *Runner) glass(ctx context.Context, p Frozen) (string, error) {
	as, err := r.Plans.Approvals(ctx, p.ID)
	if err != nil {
		return "", fmt.Errorf("approvals of plan %s: %w", p.ID, err)
	}
	return glassOf(p, as, r.Now(), r.Persons), nil
}

func glassOf(p Frozen, as []Approval, now time.Time, by Persons) string {
	if len(counted(p, as, now, by)) >= p.Tier.Needed() {
		return ""
	}
	a, _ := BrokenGlass(p, as, now, by)
	return a.Reason
}

// countOf reads a count of a record; what is none counts as more than anybody may.
func countOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return MaxBreakGlass + 1
	}
	return n
}
