package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/redrive"
)

// Plans are what plan list shows, and which of them wait for the person here.
func (d *triageDesk) Plans(ctx context.Context) (plans []tui.Plan, err error) {
	err = d.wishPlans(ctx, &listener{}, func(_ *app, ap *redrive.Approver) error {
		all, err := ap.Tallies(ctx, "", redrive.PlanState.Live)
		for _, s := range all {
			plans = append(plans, newTriagePlan(ap, s))
		}
		return withHint(err, "redrivectl audit verify")
	})
	return plans, err
}

// Plan is what plan show says.
func (d *triageDesk) Plan(ctx context.Context, id string) (p tui.Plan, err error) {
	l := &listener{}
	err = d.wishPlans(ctx, l, func(a *app, ap *redrive.Approver) error {
		s, err := ap.Tally(ctx, id)
		if err != nil {
			return notFound("plan", id, err)
		}
		p = newTriagePlan(ap, s)
		return (&planShowOptions{app: a, items: true}).show(ctx, s)
	})
	if err == nil && p.ID == "" {
		err = notFound("plan", id, redrive.ErrNotFound)
	}
	p.Rows = l.rows()
	return p, err
}

// wishPlans asks something of the store's plans, as the person here; nothing where
// there is no store yet.
func (d *triageDesk) wishPlans(ctx context.Context, l *listener, ask func(*app, *redrive.Approver) error) error {
	return d.wishFor(l, func(a *app) error {
		st, err := a.storeIfAny(ctx)
		if err != nil || st == nil {
			return err
		}
		ap := a.approver(st)
		if ap.Who, err = a.who(); err != nil {
			return err
		}
		return ask(a, ap)
	})
}

func newTriagePlan(ap *redrive.Approver, s redrive.Tally) tui.Plan {
	v := tallyView(s)
	return tui.Plan{
		ID: v.Plan, Queue: v.Queue, State: v.State, Items: v.ItemCount, Tier: v.Tier, Given: v.Given, Needed: v.Needed, Approved: v.Approved,
		Mine: ap.WaitsForMe(s), Requester: v.Requester, Reason: v.Reason, ExpiresAt: v.ExpiresAt,
	}
}

// Runs are what runs list shows.
func (d *triageDesk) Runs(ctx context.Context) (runs []tui.Run, err error) {
	l := &listener{}
	err = d.wishFor(l, func(a *app) error { return a.listRuns(ctx, "", false) })
	if err != nil {
		return nil, err
	}
	for _, e := range l.printed[0].Elements {
		if v, ok := e.(runRecordView); ok {
			runs = append(runs, newTriageRun(v))
		}
	}
	return runs, nil
}

// RunOf looks at a plan's run as runs show --watch does. The plan, which may be
// long, is loaded once.
func (d *triageDesk) RunOf(ctx context.Context, plan string) (r tui.Run, found bool, err error) {
	err = d.wish(nil, func(a *app) error {
		return a.withStoreNow(ctx, func(st *store.Store) error {
			sp, err := st.LoadPlan(ctx, plan)
			if err != nil || sp.Run == "" {
				return err
			}
			rec, err := st.LoadRun(ctx, string(sp.Run))
			if err != nil {
				return err
			}
			ends, err := st.Ends(ctx, sp.Run)
			if err != nil {
				return err
			}
			v, err := a.viewOf(ctx, st, counted(rec, len(sp.Plan.Items), ends))
			if err != nil {
				return err
			}
			r, found = newTriageRun(v), true
			r.Rows = runRows(rowsOf(v.showResult()), classRows(sp.Plan.Items, ends))
			return nil
		})
	})
	return r, found, err
}

// firstOfRun is what a person who watches a run reads first.
var firstOfRun = []string{"gate", "canary", "circuit breaker", "window", "thresholds", "promoted by", "asked", "because", "rate"}

// runRows are what runs show says of a run, in the order in which it is read on a
// small screen: what decides on it, outcomes by class, and then the rest.
func runRows(rows, classes []tui.Row) []tui.Row {
	var first, rest []tui.Row
	for _, r := range rows {
		switch {
		case slices.Contains(firstOfRun, r.Name):
			first = append(first, r)
		case r.Value != "0": // nothing failed, nothing is unknown
			rest = append(rest, r)
		}
	}
	return slices.Concat(first, classes, rest)
}

// classRows count by class how the items of a run were closed so far, and why those
// that went wrong did.
func classRows(items []redrive.Item, ends map[string]redrive.ItemEnd) (rows []tui.Row) {
	classes, wrong := map[string]map[string]int{}, map[string]int{}
	for _, it := range items {
		e, closed := ends[it.Copy.String()]
		if !closed {
			continue
		}
		class := string(it.Class)
		if classes[class] == nil {
			classes[class] = map[string]int{}
		}
		classes[class][e.Result]++
		if e.Reason != "" {
			wrong[e.Result+": "+term.Mask(e.Reason)]++
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		rows = append(rows, tui.Row{Name: class, Value: counts(classes[class])})
	}
	for _, why := range slices.Sorted(maps.Keys(wrong)) {
		rows = append(rows, tui.Row{Name: "not done", Value: fmt.Sprintf("%d %s", wrong[why], why)})
	}
	return rows
}

func newTriageRun(v runRecordView) tui.Run {
	r := tui.Run{
		ID: v.Run, Plan: v.Plan, Queue: v.Queue, State: v.stateText(), Lives: v.Lives, Ended: v.ended(), Paused: v.State == string(redrive.RunPaused),
		Planned: v.Planned, Left: v.Remaining, Started: v.StartedAt, Took: time.Duration(v.Duration * float64(time.Second)),
	}
	r.AtGate = v.atGate()
	if v.Effective != nil {
		r.Rate = *v.Effective
	}
	return r
}

// Assess tells the last look's jobs again, as they stand now.
func (d *triageDesk) Assess(ctx context.Context, queue string) (tui.Look, error) {
	was, err := d.last(queue)
	if err != nil {
		return tui.Look{}, err
	}
	k := &keptLook{queue: queue}
	if err := d.wish(nil, func(a *app) error { return k.assessAgain(ctx, a, was) }); err != nil {
		return tui.Look{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[queue] = k
	return k.view, nil
}
