package cmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/spf13/cobra"
)

func newPolicyCmd(a *app) *cobra.Command {
	return group("policy", "Check and test a policy, and see how it classifies and retries", newPolicyCheckCmd(a), newPolicyTestCmd(a),
		newPolicyExplainCmd(a), newPolicyWindowCmd(a))
}

func newPolicyCheckCmd(a *app) *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use: "check [FILE]", Short: "Check a policy file; without FILE, the shipped one",
		Long: `Load a policy file as strictly as every other command does: unknown fields, type
errors in rules and rules that can never decide are errors with their place.`,
		Example: "  redrivectl policy check policy.yaml\n  redrivectl policy check --print > policy.yaml",
		Args:    atMostOne("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			if show {
				return a.printPolicy(args)
			}
			return a.checkPolicy(args)
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print the shipped policy, to copy and change")
	return exits(c)
}

func (a *app) printPolicy(args []string) error {
	if len(args) > 0 {
		return usagef("--print prints the shipped policy: leave %s out", args[0])
	}
	if err := a.asIs("the policy"); err != nil {
		return err
	}
	_, err := a.stdout.Write(classify.DefaultYAML())
	return err
}

func (a *app) checkPolicy(args []string) error {
	policy, err := policyOrShipped(optional(args))
	if err != nil {
		return err
	}
	type view struct {
		Class       string  `json:"class"`
		Effect      string  `json:"effect"`
		Disposition string  `json:"disposition"`
		Owner       *string `json:"owner"`
	}
	views := []view{}
	r := result{Headers: []string{"class", "effect", "disposition", "owner"}}
	for _, c := range policy.Classes() {
		x := policy.Of(c, "")
		v := view{string(c), string(x.Effect), string(x.Disposition), text(x.Owner)}
		views = append(views, v)
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, []string{v.Class, v.Effect, v.Disposition, or(v.Owner)})
	}
	r.Object = map[string]any{"policy": policy.Name(), "sha256": policy.SHA256(), "ok": true, "classes": views}
	r.After = []string{"", fmt.Sprintf("%s is sound; SHA-256 %s", policy.Name(), policy.SHA256())}
	return a.print(r)
}

func newPolicyExplainCmd(a *app) *cobra.Command {
	var queue string
	c := &cobra.Command{
		Use: "explain [JOB|FILE]", Short: "Explain how a job came to its class and action",
		Long: `Without an argument, print the decision table. With a JOB of a configured queue,
or a FILE with one message, say which rules matched, which of them decided, and
which row of the decision table gave the action; the JSON has every rule.`,
		Example: "  redrivectl policy explain\n  redrivectl policy explain 7e37a8fe\n  redrivectl policy explain ./dead.json",
		Args:    atMostOne("JOB|FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.printTable()
			}
			return a.explain(c.Context(), args[0], queue)
		},
	}
	a.queueFlag(c, &queue, "look for the job in this queue alone")
	return exits(c)
}

func (a *app) printTable() error {
	r := result{Headers: []string{"row", "when", "action"}, Wrap: []int{1, 2}}
	rows := reconcile.Rows()
	for _, row := range rows {
		r.Elements = append(r.Elements, row)
		r.Rows = append(r.Rows, []string{strconv.Itoa(row.Row), row.When, row.Action})
	}
	r.Object = map[string]any{"decision_table": rows}
	return a.print(r)
}

type trialView struct {
	Rule    string  `json:"rule"`
	Class   string  `json:"class"`
	When    string  `json:"when"`
	Line    int     `json:"line"`
	Matched bool    `json:"matched"`
	Decided bool    `json:"decided"`
	Error   *string `json:"error"`
}

type explainView struct {
	Job         jobView     `json:"job"`
	Policy      string      `json:"policy"`
	Message     string      `json:"normalised_message"`
	DecisionRow int         `json:"decision_row"`
	Rules       []trialView `json:"rules"`
}

func (a *app) explain(ctx context.Context, arg, queue string) error {
	found, err := a.findJob(ctx, arg, queue)
	if err != nil {
		return err
	}
	x := found.assessed
	e := found.policy.Explain(x.Job, a.now())
	v := explainView{
		Job: a.jobView(x), Policy: found.policy.Name(), Message: e.Message, DecisionRow: x.Decision.Row, Rules: []trialView{},
	}
	r := result{Headers: []string{"rule", "class", "matched", "when"}}
	for _, t := range e.Trials {
		tv := trialView{Rule: t.Name, Class: string(t.Class), When: t.When, Line: t.Line, Matched: t.Matched, Decided: t.Decided}
		if t.Err != nil {
			tv.Error = text(t.Err.Error())
		}
		v.Rules = append(v.Rules, tv)
		r.Elements = append(r.Elements, tv)
		if t.Matched {
			r.Rows = append(r.Rows, []string{t.Name, string(t.Class), decidedText(t), t.When})
		}
	}
	r.Object = v
	r.Rows = append(r.Rows,
		[]string{"class", v.Job.Class, "", "by rule " + v.Job.Rule},
		[]string{"effect", v.Job.Effect, "", "worst over the attempts that are not resolved"},
		[]string{"action", v.Job.Action, "", fmt.Sprintf("row %d of the decision table: %s", v.DecisionRow, v.Job.Why)})
	return a.print(r)
}

func decidedText(t classify.Trial) string {
	if t.Decided {
		return "decided"
	}
	return "matched"
}
