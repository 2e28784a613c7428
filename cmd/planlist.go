package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// planSummary is a plan as lists show it: the plan summary of
// docs/json-output.md.
type planSummary struct {
	Plan      string         `json:"plan"`
	Queue     string         `json:"queue"`
	State     string         `json:"state"`
	ItemCount int            `json:"item_count"`
	Actions   map[string]int `json:"actions"`
	Tier      string         `json:"tier"`
	Needed    int            `json:"approvals_needed"`
	Given     int            `json:"approvals_given"`
	Approved  bool           `json:"approved"`
	Requester string         `json:"requester"`
	Reason    string         `json:"reason"`
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt time.Time      `json:"expires_at"`
	Run       *string        `json:"run"`
}

func newPlanSummary(s redrive.Tally) planSummary {
	v := tallyView(s)
	return planSummary{
		Plan: v.Plan, Queue: v.Queue, State: v.State, ItemCount: v.ItemCount, Actions: v.Actions, Tier: v.Tier,
		Needed: v.Needed, Given: v.Given, Approved: v.Approved, Requester: v.Requester, Reason: v.Reason,
		CreatedAt: v.CreatedAt.UTC(), ExpiresAt: v.ExpiresAt.UTC(), Run: v.ActiveRun,
	}
}

// plans are summaries of the plans in a store (nil: there is none yet), newest
// first.
func (a *app) plans(ctx context.Context, st *store.Store, queue string, in func(redrive.PlanState) bool) ([]planSummary, error) {
	views := []planSummary{}
	if st == nil {
		return views, nil
	}
	all, err := a.approver(st).Tallies(ctx, queue, in)
	if err != nil {
		return nil, withHint(err, "redrivectl audit verify")
	}
	for _, s := range all {
		views = append(views, newPlanSummary(s))
	}
	return views, nil
}

type planListOptions struct {
	app    *app
	queue  string
	states []string
	all    bool
}

func newPlanListCmd(a *app) *cobra.Command {
	o := &planListOptions{app: a}
	c := &cobra.Command{
		Use: "list [QUEUE]", Short: "List plans, newest first",
		Long: `List the plans that hold jobs: those that wait for approval, are approved, or
run. With --state those in other states, with --all every plan of the store.`,
		Example: "  redrivectl plan list\n  redrivectl plan list digests --state waiting,approved\n  redrivectl plan list --all -o json",
		Args:    atMostOne("QUEUE"), ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.queue = optional(args)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	c.Flags().StringSliceVar(&o.states, "state", nil, "plans in these states: "+strings.Join(planStates(), ", "))
	c.Flags().BoolVar(&o.all, "all", false, "plans in every state")
	must(c.RegisterFlagCompletionFunc("state", completeFrom(planStates)))
	return exits(c, exitRefused, exitAudit)
}

func planStates() []string {
	var names []string
	for _, s := range redrive.PlanStates() {
		names = append(names, string(s))
	}
	return names
}

func (o *planListOptions) validate() error {
	if o.all && len(o.states) > 0 {
		return usagef("give --state or --all, not both")
	}
	for _, s := range o.states {
		if !slices.Contains(planStates(), s) {
			return usagef("--state %s: use one of %s", s, strings.Join(planStates(), ", "))
		}
	}
	return nil
}

// wants says which states are listed.
func (o *planListOptions) wants(s redrive.PlanState) bool {
	if len(o.states) > 0 {
		return slices.Contains(o.states, string(s))
	}
	return o.all || s.Live()
}

func (o *planListOptions) run(ctx context.Context) error {
	st, err := o.app.storeToRead(ctx)
	if err != nil {
		return err
	}
	views, err := o.app.plans(ctx, st, o.queue, o.wants)
	if err != nil {
		return err
	}
	if len(views) == 0 {
		if err := o.app.knownQueue(o.queue); err != nil {
			return err
		}
	}
	r := result{
		Object:       map[string]any{"plans": views},
		Headers:      []string{"plan", "queue", "state", "items", "actions", "tier", "approvals", "requester", "created", "expires", "run", "reason"},
		WideHeaders:  []string{"plan", "queue", "state", "items", "approvals", "expires in", "requester", "reason"},
		BriefHeaders: []string{"plan", "queue", "state", "items", "approvals", "expires in"},
	}
	for _, v := range views {
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, v.row())
		brief := []string{short(v.Plan), v.Queue, v.State, strconv.Itoa(v.ItemCount), v.approvals(), v.expiresIn(o.app.now())}
		r.Brief = append(r.Brief, brief)
		r.Wide = append(r.Wide, append(slices.Clip(brief), v.Requester, v.Reason))
	}
	return o.app.print(r)
}

func (v planSummary) row() []string {
	return []string{
		v.Plan, v.Queue, v.State, strconv.Itoa(v.ItemCount), counts(v.Actions), v.Tier, v.approvals(), v.Requester,
		utc(v.CreatedAt), utc(v.ExpiresAt), or(v.Run), v.Reason,
	}
}

func (v planSummary) approvals() string { return fmt.Sprintf("%d of %d", v.Given, v.Needed) }

// expiresIn is how long the plan may still begin its run.
func (v planSummary) expiresIn(now time.Time) string {
	if !redrive.PlanState(v.State).Open() {
		return nothing
	}
	return term.Duration(v.ExpiresAt.Sub(now))
}
