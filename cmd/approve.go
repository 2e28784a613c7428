package cmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// approveView is the approve shape of docs/json-output.md. Reject and revoke
// answer in it too.
type approveView struct {
	Plan     string  `json:"plan"`
	Person   string  `json:"person"`
	Verified bool    `json:"person_verified"`
	Mode     string  `json:"mode"`
	Decision string  `json:"decision"`
	Given    int     `json:"approvals_given"`
	Needed   int     `json:"approvals_needed"`
	Approved bool    `json:"approved"`
	State    string  `json:"state"`
	Solo     *string `json:"solo,omitempty"`
	// Actions counts the plan's items.
	Actions map[string]int `json:"actions"`
}

type approveOptions struct {
	app    *app
	plan   string
	items  int
	reason string
	out    string
}

func newApproveCmd(a *app) *cobra.Command {
	o := &approveOptions{app: a}
	c := &cobra.Command{
		Use: "approve PLAN|FILE", Short: "Approve a plan that another person made",
		Long: `State that you agree to exactly this plan. You type how many items it has, so
that nobody approves what he has not looked at. The requester cannot approve his
own plan, and two approvals need two persons.

FILE is a plan that "redrivectl plan export" wrote where you cannot reach the
store: a path, or a name that ends in .json. It is checked against the plan's
name, and your statement is written to a file, to be given to
"redrivectl run PLAN --approval FILE" there.`,
		Example: "  redrivectl plan show 3f9a\n  redrivectl approve 3f9a --items 212 --reason \"outage is over, ticket 4711\"\n" +
			"  redrivectl approve plan.json --items 212 --reason \"outage is over, ticket 4711\"",
		Args: exactArgs("PLAN|FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			o.plan = args[0]
			if err := o.validate(c.Flags().Changed("items")); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	c.Flags().IntVar(&o.items, "items", 0, "how many items the plan has (required)")
	c.Flags().StringVar(&o.reason, "reason", "", "why you agree (required)")
	c.Flags().StringVar(&o.out, "out", "", "with FILE: the file to write, which must not exist (default PLAN.approval.json)")
	return exits(c, exitRefused, exitAudit)
}

func (o *approveOptions) validate(counted bool) error {
	switch {
	case !counted:
		return usagef("--items N is required: how many items the plan has, as plan show says")
	case o.out != "" && !namesPlanFile(o.plan):
		return usagef("--out goes with a plan in a FILE; the approval of a plan in the store is kept there")
	}
	return needReason(o.reason)
}

func (o *approveOptions) run(ctx context.Context) error {
	if namesPlanFile(o.plan) {
		return o.approveFile()
	}
	return o.app.decide(ctx, o.plan, func(ap *redrive.Approver) (approveView, error) {
		s, err := ap.Approve(ctx, o.plan, o.items, o.reason)
		return approveView{Plan: string(s.Plan.ID), Decision: redrive.DecisionApprove, Given: s.Given, Needed: s.Needed, Approved: s.Approved, State: string(s.Plan.State)}, err
	})
}

// needReason is for what lets something be sent: the audit log must be able to
// explain it.
func needReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return usagef("--reason is required: the audit log needs it")
	}
	return nil
}

// reasonFlag is for what stops, holds or takes back: in a hurry it must not fail for
// want of a reason, and the audit log then says that there was none.
func reasonFlag(c *cobra.Command, reason *string, usage string) {
	c.Flags().StringVar(reason, "reason", "", usage+", for the audit log")
}

// givenReason is what is recorded of a reason that may be left out.
func givenReason(reason string) string {
	return cmp.Or(strings.TrimSpace(reason), "no reason given")
}

func newRejectCmd(a *app) *cobra.Command {
	return a.decisionCmd("reject", "Reject a plan that has not begun",
		"End a plan that has not begun. Its jobs are free for another plan.", rejecting)
}

func newRevokeCmd(a *app) *cobra.Command {
	return a.decisionCmd("revoke", "Take back the approval of a plan",
		"Take back the approval of a plan until its run ends. A run stops before its\nnext batch; what was handed over stays handed over.",
		func(ctx context.Context, ap *redrive.Approver, plan, reason string) (redrive.StoredPlan, error) {
			return ap.Revoke(ctx, plan, reason)
		})
}

func (a *app) decisionCmd(name, short, long string, act decision) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: name + " PLAN", Short: short, Long: long, Args: exactArgs("PLAN"),
		Example: "  redrivectl " + name + " 3f9a --reason \"wrong queue\"",
		RunE: func(c *cobra.Command, args []string) error {
			return a.takeBack(c.Context(), name, args[0], reason, act)
		},
	}
	reasonFlag(c, &reason, "why")
	return exits(c, exitRefused, exitAudit)
}

// reject ends a plan that has not begun.
func (a *app) reject(ctx context.Context, plan, reason string) error {
	return a.takeBack(ctx, "reject", plan, reason, rejecting)
}

func rejecting(ctx context.Context, ap *redrive.Approver, plan, reason string) (redrive.StoredPlan, error) {
	return ap.Reject(ctx, plan, reason)
}

// takeBack rejects or revokes a plan.
func (a *app) takeBack(ctx context.Context, name, plan, reason string, act decision) error {
	if namesPlanFile(plan) {
		return usagef("%s %s: a file is approved or left; %s the plan where its store is", name, plan, name)
	}
	return a.decide(ctx, plan, func(ap *redrive.Approver) (approveView, error) {
		sp, err := act(ctx, ap, plan, givenReason(reason))
		return approveView{Plan: string(sp.ID), Decision: name, Needed: sp.Plan.Tier.Needed(), State: string(sp.State)}, err
	})
}

// decision takes a plan, or the approval of one, back.
type decision func(ctx context.Context, ap *redrive.Approver, plan, reason string) (redrive.StoredPlan, error)

// decide opens what a decision needs, takes it, and prints how the plan stands.
func (a *app) decide(ctx context.Context, plan string, act func(*redrive.Approver) (approveView, error)) error {
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	who, err := a.who()
	if err != nil {
		return err
	}
	ap := &redrive.Approver{Plans: st, Who: who, Now: a.now, Persons: a.persons()}
	v, err := act(ap)
	if err != nil {
		return withHint(notFound("plan", plan, err), "redrivectl plan show "+plan)
	}
	v.Person, v.Mode, v.Solo = who.Actor.Name, string(config.Recorded), a.solo()
	s, err := ap.Tally(ctx, v.Plan)
	if err != nil {
		return fmt.Errorf("the decision is recorded, but not how plan %s stands now: %w", v.Plan, err)
	}
	pv := newPlanView(s.Plan.ID, s.Plan.Plan, s.Plan.State, s.Given)
	v.State, v.Given, v.Actions = string(s.Plan.State), s.Given, pv.Actions
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"plan", v.Plan},
		{"decision", v.Decision},
		{"person", fmt.Sprintf("%s (%s, not verified)", v.Person, who.Actor.Known)},
		{"approvals", fmt.Sprintf("%d of %d", v.Given, v.Needed)},
		{"approved", strconv.FormatBool(v.Approved)},
		{"state", v.State},
	}}
	if v.Actions["discard"] > 0 {
		r.Rows = slices.Insert(r.Rows, 1, []string{"destroys", pv.destroys()})
	}
	r.Rows = append(r.Rows, soloRows(v.Solo)...)
	if v.Approved {
		r.After = []string{"", "next: redrivectl run " + short(v.Plan)}
	}
	return a.print(r)
}
