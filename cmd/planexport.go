package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type planExportOptions struct {
	app  *app
	plan string
	out  string
}

func newPlanExportCmd(a *app) *cobra.Command {
	o := &planExportOptions{app: a}
	c := &cobra.Command{
		Use: "export PLAN", Short: "Write a plan to a file, for an approver elsewhere",
		Long: `Write a plan to a file, so that a person who cannot reach this store can look at
it ("redrivectl plan show FILE") and approve it ("redrivectl approve FILE"). The
file holds what the plan's name is made of: items, classes, actions, bounds, tier
and digests, and no payload or address. A plan whose reason or selection looks
like it holds a secret is not exported, since its bytes cannot be masked.`,
		Example: "  redrivectl plan export 3f9a --out plan.json\n  redrivectl plan export 3f9a > plan.json",
		Args:    exactArgs("PLAN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.plan = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(&o.out, "out", "", "file to write, which must not exist (default: standard output)")
	return exits(c, exitRefused, exitAudit)
}

func (o *planExportOptions) validate() error {
	if o.out == "" && o.app.output != outputJSON { // which it is
		return o.app.asIs("a plan file")
	}
	return nil
}

func (o *planExportOptions) run(ctx context.Context) error {
	st, err := o.app.storeToRead(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return notFound("plan", o.plan, redrive.ErrNotFound)
	}
	s, err := o.app.approver(st).Tally(ctx, o.plan)
	if err != nil {
		return notFound("plan", o.plan, err)
	}
	if what := secretIn(s.Plan.Plan); what != "" {
		return fail(exitRefused, "redrivectl plan create, with other words", "export plan %s: its %s looks like it holds a secret", s.Plan.ID, what)
	}
	b, err := redrive.EncodePlan(s.Plan)
	if err != nil {
		return err
	}
	b = term.CleanJSON(b) // the same JSON, harmless on a terminal
	if o.out == "" {
		if _, err := o.app.stdout.Write(b); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	if err := writeOut(o.out, b); err != nil {
		return err
	}
	v := tallyView(s)
	return o.app.print(result{
		Object:  map[string]any{"plan": v.Plan, "item_count": v.ItemCount, "approvals_needed": v.Needed, "file": o.out},
		Headers: []string{"what", "value"},
		Rows: [][]string{
			{"plan", v.Plan}, {"items", strconv.Itoa(v.ItemCount)}, {"approvals needed", strconv.Itoa(v.Needed)}, {"wrote", o.out},
		},
		After: []string{"", fmt.Sprintf("next, as another person, elsewhere: redrivectl approve %s --items %d --reason WHY", o.out, v.ItemCount)},
	})
}

// secretIn names what of a plan's own words would be masked in every output.
func secretIn(p redrive.Plan) string {
	for _, t := range []struct{ what, text string }{
		{"reason", p.Reason},
		{"selection", p.Query},
		{"stated correction", p.Lifts.Fixed},
		{"reason to accept a provisional no", p.Lifts.AcceptProvisional},
		{"reason to accept duplicates", p.Lifts.AcceptDuplicates},
	} {
		if term.Mask(t.text) != t.text {
			return t.what
		}
	}
	return ""
}
