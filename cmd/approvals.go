package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// approvalView is a plan that waits for the person who asks.
type approvalView struct {
	planSummary
	Command string `json:"command"`
}

// approvalsView is the approvals shape of docs/json-output.md.
type approvalsView struct {
	Person   string         `json:"person"`
	Verified bool           `json:"person_verified"`
	Mode     string         `json:"mode"`
	Plans    []approvalView `json:"plans"`
	Solo     *string        `json:"solo,omitempty"`
}

func newApprovalsCmd(a *app) *cobra.Command {
	return exits(&cobra.Command{
		Use: "approvals [QUEUE]", Short: "List the plans that wait for your approval",
		Long: `List the plans that wait for your approval: those that need one more, that you did
not request, and that you have not approved. Each comes with the command that
approves it; "redrivectl plan show" says what you would approve.`,
		Example: "  redrivectl approvals\n  redrivectl approvals digests -o json",
		Args:    atMostOne("QUEUE"), ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			return a.listApprovals(c.Context(), optional(args))
		},
	}, exitRefused, exitAudit)
}

func (a *app) listApprovals(ctx context.Context, queue string) error {
	st, err := a.storeToRead(ctx)
	if err != nil {
		return err
	}
	who, err := a.who()
	if err != nil {
		return err
	}
	v := approvalsView{Person: who.Actor.Name, Mode: string(config.Recorded), Plans: []approvalView{}, Solo: a.solo()}
	if st != nil {
		ap := a.approver(st)
		ap.Who = who
		waiting, err := ap.Waiting(ctx, queue)
		if err != nil {
			return withHint(err, "redrivectl audit verify")
		}
		for _, s := range waiting {
			v.Plans = append(v.Plans, newApprovalView(s))
		}
	}
	if len(v.Plans) == 0 {
		if err := a.knownQueue(queue); err != nil {
			return err
		}
	}
	return a.print(v.result(a))
}

func newApprovalView(s redrive.Tally) approvalView {
	v := newPlanSummary(s)
	return approvalView{v, v.approve(v.Plan)}
}

// approve is the command that approves the plan under one of its names.
func (v planSummary) approve(name string) string {
	return fmt.Sprintf("redrivectl approve %s --items %d --reason WHY", name, v.ItemCount)
}

func (v approvalsView) result(a *app) result {
	r := result{
		Object:       v,
		Headers:      []string{"plan", "queue", "items", "tier", "approvals", "requester", "expires", "reason", "command"},
		WideHeaders:  []string{"plan", "queue", "items", "approvals", "requester", "expires in", "reason"},
		BriefHeaders: []string{"plan", "queue", "items", "approvals", "requester", "expires in"},
		After:        []string{""},
	}
	for _, p := range v.Plans {
		r.Elements = append(r.Elements, p)
		row := p.row()
		r.Rows = append(r.Rows, []string{row[0], row[1], row[3], row[5], row[6], row[7], row[9], row[11], p.Command})
		brief := []string{short(p.Plan), p.Queue, strconv.Itoa(p.ItemCount), p.approvals(), p.Requester, p.expiresIn(a.now())}
		r.Brief = append(r.Brief, brief)
		r.Wide = append(r.Wide, append(slices.Clip(brief), p.Reason))
		r.After = append(r.After, "redrivectl plan show "+short(p.Plan), p.approve(short(p.Plan)))
	}
	if len(v.Plans) == 0 {
		r.After = []string{"no plan waits for " + v.Person}
	}
	return r
}
