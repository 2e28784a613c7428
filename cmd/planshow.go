package cmd

import (
	"context"
	"fmt"

	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type planShowOptions struct {
	app         *app
	items, diff bool
}

func newPlanShowCmd(a *app) *cobra.Command {
	o := &planShowOptions{app: a}
	c := &cobra.Command{
		Use: "show PLAN|FILE", Short: "Show a plan: its items, what it left out and what it holds",
		Long: `Show a plan: what would be done with how many jobs, under which bounds, who must
approve it and why, what it left out and what it holds. With --items every item
and every held job is listed; the JSON always has them. FILE is what plan export
wrote elsewhere.

With --diff the queue is looked at again, and of each item that the plan edits
the change of its payload is shown, with secrets masked. It says of which copies
it cannot be shown: those that are not there now, or not as they were.`,
		Example: "  redrivectl plan show 3f9a\n  redrivectl plan show 3f9a --items\n  redrivectl plan show 3f9a --diff\n  redrivectl plan show 3f9a -o json", Args: exactArgs("PLAN|FILE"),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().BoolVar(&o.items, "items", false, "list every item and every held job")
	c.Flags().BoolVar(&o.diff, "diff", false, "show what the plan's edit changes in each payload")
	return exits(c, exitRefused, exitAudit)
}

func (o *planShowOptions) run(ctx context.Context, prefix string) error {
	a := o.app
	if namesPlanFile(prefix) {
		return o.file(ctx, prefix)
	}
	st, err := a.storeToRead(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return notFound("plan", prefix, fmt.Errorf("%w: there is no store yet", redrive.ErrNotFound))
	}
	s, err := a.approver(st).Tally(ctx, prefix)
	if err != nil {
		return notFound("plan", prefix, err)
	}
	return o.show(ctx, s)
}

// show prints a plan as it stands.
func (o *planShowOptions) show(ctx context.Context, s redrive.Tally) error {
	a, v := o.app, tallyView(s)
	v.Solo, v.Items = a.solo(), s.Plan.Plan.Items
	if err := o.addDiffs(ctx, &v, s.Plan.Plan); err != nil {
		return err
	}
	return a.print(v.result(s.Plan.Plan, o.items))
}

// file shows a plan that was carried here, to who is to approve it.
func (o *planShowOptions) file(ctx context.Context, path string) error {
	a := o.app
	sp, v, err := a.planFile(path)
	if err != nil {
		return err
	}
	if err := o.addDiffs(ctx, &v, sp.Plan); err != nil {
		return err
	}
	v.Items = sp.Plan.Items
	r := v.result(sp.Plan, o.items)
	if v.Needed > 0 && sp.State != redrive.PlanExpired {
		r.After = []string{"", fmt.Sprintf("next, as another person than %s: redrivectl approve %s --items %d --reason WHY", v.Requester, path, v.ItemCount)}
	}
	return a.print(r)
}

// addDiffs adds them to a plan that is shown, if they are asked for.
func (o *planShowOptions) addDiffs(ctx context.Context, v *planView, p redrive.Plan) (err error) {
	if !o.diff {
		return nil
	}
	if p.Lifts.Edit == nil {
		return fail(exitRefused, "redrivectl plan show "+short(v.Plan)+" --items", "plan %s edits nothing", short(v.Plan))
	}
	v.Diffs, err = o.app.diffs(ctx, p)
	return err
}
