package cmd

import (
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/redrive"
)

// approvalFileView is the approval file shape of docs/json-output.md.
type approvalFileView struct {
	Plan      string    `json:"plan"`
	Person    string    `json:"person"`
	Verified  bool      `json:"person_verified"`
	Mode      string    `json:"mode"`
	Decision  string    `json:"decision"`
	ItemCount int       `json:"item_count"`
	NotBefore time.Time `json:"not_before"`
	ExpiresAt time.Time `json:"expires_at"`
	File      string    `json:"file"`
	SHA256    string    `json:"sha256"`
	Approves  planView  `json:"approves"`
}

// approveFile approves a plan that was carried here in a file, and writes the
// statement to a file that is carried back. It opens no store.
func (o *approveOptions) approveFile() error {
	a := o.app
	sp, plan, err := a.planFile(o.plan)
	if err != nil {
		return err
	}
	who, err := a.who()
	if err != nil {
		return err
	}
	ap := redrive.Approver{Who: who, Now: a.now}
	st, err := ap.ApproveFile(sp, o.items, o.reason)
	if err != nil {
		return withHint(err, "redrivectl plan show "+o.plan)
	}
	out := o.out
	if out == "" {
		out = short(plan.Plan) + ".approval.json"
	}
	b, err := redrive.EncodeApproval(st)
	if err != nil {
		return err
	}
	digest, err := redrive.StatementSHA256(st)
	if err != nil {
		return err
	}
	if err := writeOut(out, b); err != nil {
		return err
	}
	v := approvalFileView{
		Plan: plan.Plan, Person: st.Approver, Mode: string(config.Recorded), Decision: st.Decision, ItemCount: st.Items,
		NotBefore: st.NotBefore, ExpiresAt: st.ExpiresAt, File: out, SHA256: digest, Approves: plan,
	}
	return a.print(v.result(sp.Plan, st.Known))
}

func (v approvalFileView) result(p redrive.Plan, known string) result {
	r := v.Approves.result(p, false)
	r.Object, r.Elements = v, nil
	r.Rows = append(r.Rows, [][]string{
		{"decision", v.Decision},
		{"person", fmt.Sprintf("%s (%s, not verified)", v.Person, known)},
		{"good until", utc(v.ExpiresAt)},
		{"wrote", v.File},
	}...)
	r.After = []string{"", fmt.Sprintf("next, where the plan was made: redrivectl run %s --approval %s", short(v.Plan), v.File)}
	return r
}

// carried reads the approvals that were carried here in files.
func (a *app) carried(paths []string) ([]redrive.Approval, error) {
	var all []redrive.Approval
	for _, path := range paths {
		b, err := a.readArg(path)
		if err != nil {
			return nil, err
		}
		st, err := redrive.DecodeApproval(b)
		if err != nil {
			return nil, fmt.Errorf("--approval %s: %w", path, err)
		}
		all = append(all, st)
	}
	return all, nil
}
