package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/spf13/cobra"
)

type showOptions struct {
	app    *app
	job    string
	queue  string
	reveal bool
	reason string
	form   string // of the payload; empty: as suits it
	// reference is whose content is to be shown: its number, or its kind.
	reference string
}

func newShowCmd(a *app) *cobra.Command {
	o := &showOptions{app: a}
	c := &cobra.Command{
		Use:   "show JOB",
		Short: "Show what was intended, what was attempted, and why it stopped",
		Long: `Show one quarantined job: what was intended, what was attempted, why it stopped,
its four IDs, its history in the ledger, and what it needs. JOB is a job key or
a unique beginning of one, or a message ID, or a FILE with one message.

Secrets in payload and attributes are masked. --reveal shows them as they are,
and is itself recorded in the audit log first.

What the job points to (payload, rendering, stack_trace) is listed with whether it
still is what its SHA-256 says. --reference shows it: fetched from the storage that
the config names, verified, and not kept.`,
		Example: "  redrivectl show 7e37a8fe\n  redrivectl show 7e37a8fe --reveal --reason \"ticket 4711\"\n  redrivectl show 7e37a8fe -o json",
		Args:    exactArgs("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.reason != "" && !o.reveal {
				return usagef("--reason goes with --reveal")
			}
			if o.form != "" && !slices.Contains(payloadForms, o.form) {
				return usagef("--form %s: use one of %s", o.form, strings.Join(payloadForms, ", "))
			}
			o.job = args[0]
			return o.run(c.Context())
		},
	}
	a.queueFlag(c, &o.queue, "look for the job in this queue alone")
	c.Flags().BoolVar(&o.reveal, "reveal", false, "show secrets in payload and attributes; recorded in the audit log")
	c.Flags().StringVar(&o.reason, "reason", "", "why the secrets are needed, for the audit log")
	c.Flags().StringVar(&o.form, "form", "", "how to show the payload, where that is possible: "+strings.Join(payloadForms, ", ")+" (default what suits it)")
	must(c.RegisterFlagCompletionFunc("form", cobra.FixedCompletions(payloadForms, cobra.ShellCompDirectiveNoFileComp)))
	c.Flags().StringVar(&o.reference, "reference", "", "show what the job points to: a number of the list, or payload, rendering, stack_trace")
	must(c.RegisterFlagCompletionFunc("reference", cobra.FixedCompletions(
		[]string{job.RefPayload, job.RefRendering, job.RefStackTrace}, cobra.ShellCompDirectiveNoFileComp)))
	return exits(c, exitRefused, exitAudit)
}

func (o *showOptions) run(ctx context.Context) error {
	found, err := o.app.findJob(ctx, o.job, o.queue)
	if err != nil {
		return err
	}
	v, err := o.sheet(ctx, found)
	if err != nil {
		return err
	}
	return o.app.print(v.result())
}

// sheet is all that is known of the job. That secrets are shown is recorded before
// anything else.
func (o *showOptions) sheet(ctx context.Context, found located) (v showView, err error) {
	if o.reveal {
		if err := o.recordReveal(ctx, found); err != nil {
			return v, err
		}
	}
	v = o.view(found)
	v.References = o.app.referenceViews(ctx, found.assessed.Job)
	if v.LivePlan, err = o.livePlan(ctx, found.assessed.Job); err != nil {
		return v, err
	}
	if o.reference != "" {
		c, err := o.app.content(ctx, found.assessed.Job, o.reference, o.reveal)
		if err != nil {
			return v, err
		}
		v.Content = &c
	}
	return v, o.addHistory(ctx, found, &v)
}

// payloadForms are how a payload can be shown.
var payloadForms = []string{string(term.FormJSON), string(term.FormText), string(term.FormHex)}

// livePlan is the plan that has the job and is not at its end; nil: none.
func (o *showOptions) livePlan(ctx context.Context, j job.Job) (*string, error) {
	st, err := o.app.storeIfAny(ctx)
	if err != nil || st == nil {
		return nil, err
	}
	ps, err := st.PlansWith(ctx, nameOf(j))
	for _, p := range ps {
		if p.State.Live() {
			return text(string(p.ID)), nil
		}
	}
	return nil, err
}

// recordReveal writes who looked at what before anything is shown.
func (o *showOptions) recordReveal(ctx context.Context, found located) error {
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	if found.queue != nil {
		if err := o.app.withinRegion(ctx, st, found.queue.name); err != nil {
			return err
		}
	}
	rec, err := o.app.jobRecord(st, "reveal", o.reason, found.assessed.Job)
	if err != nil {
		return err
	}
	_, err = st.Append(ctx, rec)
	return err
}

func (o *showOptions) view(found located) showView {
	x := found.assessed
	v := showView{
		Job: o.app.jobView(x), Copies: found.copies, Revealed: o.reveal, Attributes: []attributeView{},
		Payload:  newPayloadView(x.Job.Payload, term.PayloadOptions{Reveal: o.reveal, Form: term.Form(o.form)}),
		Attempts: []attemptView{}, History: []eventView{},
	}
	for _, set := range [][]broker.Attribute{x.Job.Message.Attributes, x.Job.Message.System} {
		for _, at := range set {
			v.Attributes = append(v.Attributes, o.attribute(at))
		}
	}
	if x.Verdict != nil {
		v.Evidence = x.Verdict.Evidence
	}
	v.Runbook, v.Permits, v.MaxAge = text(x.Class.Runbook), text(x.Class.Evidence), secondsOf(x.Class.MaxAge)
	return v
}

func (o *showOptions) attribute(at broker.Attribute) attributeView {
	r := term.Payload(at.Value, term.PayloadOptions{Reveal: o.reveal})
	return attributeView{Name: at.Name, Type: at.Type, Value: r.Text}
}

// addHistory reads the row with all its events, newest first.
func (o *showOptions) addHistory(ctx context.Context, found located, v *showView) error {
	row := found.assessed.Row
	if row == nil || row.Found != ledger.Present {
		return nil
	}
	full, ok, err := found.queue.ledger.History(ctx, row.Row.Key)
	if err != nil {
		return fmt.Errorf("history of %s: %w", found.assessed.Job.JobKey, err)
	}
	if !ok {
		return nil
	}
	v.Attempts, v.History = historyOf(full)
	return nil
}
