package cmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/spf13/cobra"
)

type policyTestOptions struct {
	app    *app
	table  string
	policy string
}

func newPolicyTestCmd(a *app) *cobra.Command {
	o := &policyTestOptions{app: a}
	c := &cobra.Command{
		Use: "test FILE", Short: "Test a policy with a table of messages and what to expect",
		Long: `Run each message of a table through the same steps as list runs a dump, and
compare its class, rule, effect, disposition, action and redrivable with what the
table expects. No config is read, and no queue, ledger or provider is asked.

The table is YAML, or with a name that ends in .jsonl one case a line as JSON; see
docs/policy.md. The exit code is 1 when a case fails, and for a table that is
empty or has a field that there is not.`,
		Example: "  redrivectl policy test cases.yaml\n  redrivectl policy test cases.yaml --policy policy.yaml -o json",
		Args:    exactArgs("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			o.table = args[0]
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(&o.policy, "policy", "", "policy file (default: the shipped policy)")
	return exits(c)
}

// policyTestView is the policy test shape of docs/json-output.md.
type policyTestView struct {
	File   string         `json:"file"`
	Policy string         `json:"policy"`
	SHA256 string         `json:"sha256"`
	OK     bool           `json:"ok"`
	Passed int            `json:"passed"`
	Failed int            `json:"failed"`
	Cases  []caseTestView `json:"cases"`
}

type caseTestView struct {
	Case        string       `json:"case"`
	Line        int          `json:"line"`
	OK          bool         `json:"ok"`
	Differences []difference `json:"differences"`
	Got         gotView      `json:"got"`
}

type gotView struct {
	Class       string `json:"class"`
	Rule        string `json:"rule"`
	Effect      string `json:"effect"`
	Disposition string `json:"disposition"`
	Action      string `json:"action"`
	Why         string `json:"why"`
	Redrivable  bool   `json:"redrivable"`
}

func (o *policyTestOptions) run(ctx context.Context) error {
	policy, err := policyOrShipped(o.policy)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(o.table)
	if err != nil {
		return fmt.Errorf("read cases: %w", err)
	}
	table, err := readPolicyTable(o.table, text)
	if err != nil {
		return err
	}
	v := policyTestView{File: o.table, Policy: policy.Name(), SHA256: policy.SHA256(), Cases: []caseTestView{}}
	assessor := table.assessor(o.app, policy)
	for _, c := range table.Cases {
		x, err := table.assess(ctx, assessor, c, filepath.Dir(o.table))
		if err != nil {
			return fmt.Errorf("%s:%d: case %q: %w", o.table, c.line, c.Name, err)
		}
		v.add(c, o.app.jobView(x))
	}
	v.OK = v.Failed == 0
	if err := o.app.print(v.result()); err != nil {
		return err
	}
	if !v.OK {
		return fail(exitFailed, "redrivectl policy explain ./DUMP shows every rule", "%d of %d cases of %s failed", v.Failed, len(v.Cases), o.table)
	}
	return nil
}

// assessor judges a message by itself, as list does with a dump, at the table's
// time and under what it takes for granted.
func (t policyTable) assessor(a *app, policy *classify.Policy) *reconcile.Reconciler {
	r := a.assessorAlone(policy, "policy-test")
	if t.Given.TransportRetries != nil {
		r.Settings.TransportRetries = *t.Given.TransportRetries
	}
	if t.Given.Idempotent {
		r.Settings.Declared = reconcile.ByConfig
	}
	if !t.Now.IsZero() {
		r.Now = func() time.Time { return t.Now }
	}
	return r
}

func (t policyTable) assess(ctx context.Context, r *reconcile.Reconciler, c policyCase, dir string) (reconcile.Assessed, error) {
	m, err := c.read(dir)
	if err != nil {
		return reconcile.Assessed{}, err
	}
	j := job.Decode(m, r.Settings.Queue)
	if j.Region == "" {
		j.Region = t.Given.Region
	}
	xs, err := r.Assess(ctx, []job.Job{j})
	if err != nil {
		return reconcile.Assessed{}, err
	}
	return xs[0], nil
}

func (v *policyTestView) add(c policyCase, j jobView) {
	t := caseTestView{
		Case: c.Name, Line: c.line, Differences: c.Expect.compare(j),
		Got: gotView{j.Class, j.Rule, j.Effect, j.Disposition, j.Action, j.Why, j.Redrivable},
	}
	t.OK = len(t.Differences) == 0
	if t.OK {
		v.Passed++
	} else {
		v.Failed++
	}
	v.Cases = append(v.Cases, t)
}

func (v *policyTestView) result() result {
	r := result{Object: v, Headers: []string{"result", "case", "difference"}}
	for _, c := range v.Cases {
		r.Elements = append(r.Elements, c)
		row := []string{"ok", c.Case, nothing}
		if !c.OK {
			row = []string{"FAIL", c.Case, differencesText(c.Differences, c.Got)}
		}
		r.Rows = append(r.Rows, row)
	}
	r.After = []string{"", fmt.Sprintf("%d passed, %d failed, under policy %s", v.Passed, v.Failed, v.Policy)}
	return r
}
