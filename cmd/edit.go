package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
)

// editOptions are how plan create takes an edit.
type editOptions struct {
	jq, revision string
	given        bool // --edit, also with an empty text
}

func (o *editOptions) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.jq, "edit", "", "jq filter that makes each payload anew; only the edited copy is sent, under a job key of its own (one approver)")
	c.Flags().StringVar(&o.revision, "revision", "", "end of the edited copies' job keys (default: made of the filter); needed to edit a job that was sent")
	c.PreRun = func(c *cobra.Command, _ []string) { o.given = c.Flags().Changed("edit") }
}

// rule checks the edit before anything is opened; nil: there is none.
func (o *editOptions) rule(capture bool) (*redrive.EditRule, error) {
	switch {
	case !o.given && o.revision != "":
		return nil, usagef("--revision names an edit: give --edit JQ too")
	case !o.given:
		return nil, nil
	case capture:
		return nil, usagef("--edit needs the payloads, which a capture does not keep: leave --from-capture out")
	}
	r, err := redrive.NewEditRule(o.jq, o.revision)
	if err != nil {
		return nil, usagef("--edit: %w", err)
	}
	return r, nil
}

// edits applies the rule to each job of a look, while its payload is there.
type edits struct {
	ctx    context.Context //nolint:containedctx // One look's own.
	editor *redrive.Editor
	made   []redrive.Edited
}

func newEdits(ctx context.Context, q *queue, rule *redrive.EditRule) (*edits, error) {
	e := &edits{ctx: ctx}
	if rule == nil {
		return e, nil
	}
	var err error
	e.editor, err = redrive.NewEditor(rule, q.decode)
	e.made = []redrive.Edited{}
	return e, err
}

func (e *edits) add(j job.Job) {
	if e.editor != nil {
		e.made = append(e.made, e.editor.Edited(e.ctx, j))
	}
}

// diffView is what an edit changes of one item's payload.
type diffView struct {
	JobKey       *string `json:"job_key"`
	MessageID    string  `json:"message_id"`
	CopyID       string  `json:"copy_id"`
	EditedJobKey *string `json:"edited_job_key"`
	SecondSend   bool    `json:"second_send"`
	Why          *string `json:"why"` // why there is no diff
	Diff         string  `json:"diff"`
}

// maxDiff bounds one payload in a diff.
const maxDiff = 1 << 20

// diffs looks at the queue again, since no plan holds a payload, and shows of
// each edited item what would change. Secrets are masked.
func (a *app) diffs(ctx context.Context, p redrive.Plan) ([]diffView, error) {
	q, err := a.queue(ctx, p.Queue)
	if err != nil {
		return nil, err
	}
	editor, err := redrive.NewEditor(p.Lifts.Edit, q.decode)
	if err != nil {
		return nil, err
	}
	vs, at := newDiffViews(p)
	c, err := q.broker.Browse(ctx, 0, func(m broker.Message) error {
		if i, ok := at[m.Copy]; ok {
			before, after, why := editor.Preview(ctx, p.Items[i], q.decode(m))
			vs[i].set(before, after, why)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", q.name, err)
	}
	if !c.Complete {
		a.note("the look was incomplete: %s", c.Why)
	}
	return vs, nil
}

func newDiffViews(p redrive.Plan) ([]diffView, map[broker.CopyID]int) {
	vs, at := make([]diffView, len(p.Items)), map[broker.CopyID]int{}
	for i, it := range p.Items {
		vs[i] = diffView{JobKey: text(it.JobKey), MessageID: it.MessageID, CopyID: it.Copy.String(), Why: text("not_seen")}
		if it.Edit != nil {
			vs[i].EditedJobKey, vs[i].SecondSend = text(it.Edit.JobKey), it.Edit.SecondSend
		}
		at[it.Copy] = i
	}
	return vs, at
}

func (v *diffView) set(before, after []byte, why string) {
	if v.Why = text(why); why != "" {
		return
	}
	was := term.Payload(before, term.PayloadOptions{Max: maxDiff})
	now := term.Payload(after, term.PayloadOptions{Max: maxDiff})
	_, v.Diff, _ = strings.Cut(string(diff.Diff("before", lines(was), "after", lines(now))), "\n")
	switch {
	case was.Cut || now.Cut:
		v.Why = text("too_large")
	case v.Diff == "":
		v.Why = text("masked")
	}
}

func lines(r term.Rendering) []byte { return []byte(r.Text + "\n") }

// diffWhy words why an item shows no difference, or not all of it.
var diffWhy = map[string]string{
	"not_seen":        "not shown: the copy could not be seen now",
	"changed_message": "not shown: the message is not what the plan froze",
	"edit_differs":    "not shown: the edit does not make what was approved",
	"masked":          "it differs only in what is masked",
	"too_large":       "shown in part: the payload is too large",
}

// rows print the difference line by line.
func (v diffView) rows() [][]string {
	what := firstText(or(v.JobKey), v.MessageID) + " becomes " + firstText(or(v.EditedJobKey), "another payload")
	if v.SecondSend {
		what += ", a second send: the original was sent"
	}
	rows := [][]string{{"edit", what}}
	if v.Why != nil {
		rows = append(rows, []string{"", firstText(diffWhy[*v.Why], "not shown: "+*v.Why)})
	}
	for line := range strings.Lines(v.Diff) {
		rows = append(rows, []string{"", strings.TrimRight(line, "\n")})
	}
	return rows
}

// withDiffs adds the differences to a plan's output.
func (r *result) withDiffs(vs []diffView) {
	for _, v := range vs {
		r.Rows = append(r.Rows, v.rows()...)
		r.Elements = append(r.Elements, v)
	}
}
