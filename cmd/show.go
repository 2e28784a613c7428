package cmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
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
			o.job = args[0]
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(&o.queue, "queue", "", "look for the job in this queue alone")
	c.Flags().BoolVar(&o.reveal, "reveal", false, "show secrets in payload and attributes; recorded in the audit log")
	c.Flags().StringVar(&o.reason, "reason", "", "why the secrets are needed, for the audit log")
	c.Flags().StringVar(&o.reference, "reference", "", "show what the job points to: a number of the list, or payload, rendering, stack_trace")
	must(c.RegisterFlagCompletionFunc("queue", a.completeQueues))
	return exits(c, exitRefused, exitAudit)
}

// showView is a job with everything that is known of it.
type showView struct {
	Job        jobView         `json:"job"`
	Copies     int             `json:"copies"`
	Attributes []attributeView `json:"attributes"`
	Payload    payloadView     `json:"payload"`
	Attempts   []attemptView   `json:"attempts"`
	History    []eventView     `json:"history"`
	Evidence   any             `json:"evidence"`
	References []referenceView `json:"references"`
	Content    *contentView    `json:"content"`
	Revealed   bool            `json:"revealed"`
}

type attributeView struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

type payloadView struct {
	Form  string `json:"form"`
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	Cut   bool   `json:"cut"`
}

type attemptView struct {
	Attempt    int        `json:"attempt"`
	ClaimedAt  *time.Time `json:"claimed_at"`
	Deadline   *time.Time `json:"send_deadline"`
	RequestID  *string    `json:"request_id"`
	ErrorClass *string    `json:"error_class"`
	Effect     *string    `json:"effect"`
	Resolved   *string    `json:"resolved_by"`
}

type eventView struct {
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`
	From       string    `json:"from"`
	To         string    `json:"to"`
	Attempt    int       `json:"attempt"`
	Run        *string   `json:"run"`
	Reason     *string   `json:"reason"`
	ErrorClass *string   `json:"error_class"`
	RequestID  *string   `json:"request_id"`
}

func (o *showOptions) run(ctx context.Context) error {
	found, err := o.app.findJob(ctx, o.job, o.queue)
	if err != nil {
		return err
	}
	if o.reveal {
		if err := o.recordReveal(ctx, found); err != nil {
			return err
		}
	}
	v := o.view(found)
	v.References = o.app.referenceViews(ctx, found.assessed.Job)
	if o.reference != "" {
		c, err := o.app.content(ctx, found.assessed.Job, o.reference, o.reveal)
		if err != nil {
			return err
		}
		v.Content = &c
	}
	if err := o.addHistory(ctx, found, &v); err != nil {
		return err
	}
	return o.app.print(v.result())
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
	rec, err := o.app.jobRecord(st, found.assessed.Job)
	if err != nil {
		return err
	}
	rec.Action, rec.Reason = "reveal", o.reason
	_, err = st.Append(ctx, rec)
	return err
}

func (o *showOptions) view(found located) showView {
	x := found.assessed
	v := showView{
		Job: o.app.jobView(x), Copies: found.copies, Revealed: o.reveal, Attributes: []attributeView{},
		Payload:  newPayloadView(x.Job.Payload, o.reveal),
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

func (v showView) result() result {
	j := v.Job
	rows := [][]string{
		{"intended", fmt.Sprintf("%s %s, subject %s, version %s, period %s, region %s", or(j.Kind), or(j.Channel), or(j.Subject), or(j.Version), or(j.Period), or(j.Region))},
		{"customer", or(j.CustomerID) + " (" + or(j.CustomerStatus) + ")"},
		{"stopped", fmt.Sprintf("%s: %s", firstText(or(j.Reason.Type), or(j.Reason.Code)), or(j.Reason.Message))},
		{"class", fmt.Sprintf("%s by rule %s, owner %s", j.Class, j.Rule, or(j.Owner))},
		{"effect", j.Effect},
		{"quarantined by", j.QuarantinedBy},
		{"job key", or(j.JobKey)},
		{"ledger row", or(j.LedgerRow)},
		{"message ID", j.MessageID},
		{"request ID", or(j.RequestID)},
		{"queue", j.Queue + ", from " + or(j.Origin)},
		{"copies", strconv.Itoa(v.Copies)},
		{"receives", strconv.Itoa(j.Receives)},
		{"ledger", or(j.LedgerState)},
		{"verdict", or(j.Verdict)},
		{"action", j.Action + ": " + j.Why},
		{"needs", or(j.Needs)},
	}
	if j.WhyNot != nil {
		rows = append(rows, []string{"not redrivable", *j.WhyNot})
	}
	if h := j.Hold; h != nil {
		rows = append(rows, []string{"on hold", fmt.Sprintf("for %s, by %s, since %s: %s", h.Owner, h.By, h.At.Format(time.RFC3339), h.Reason)})
	}
	for _, r := range v.References {
		rows = append(rows, r.row())
	}
	if j.DecodeError != nil {
		rows = append(rows, []string{"not read", *j.DecodeError})
	}
	if j.Unwrap {
		rows = append(rows, []string{"unwrapped", "a redrive sends the original alone, without the wrapper that holds it"})
	}
	for _, at := range v.Attempts {
		rows = append(rows, []string{"attempt " + strconv.Itoa(at.Attempt), fmt.Sprintf("claimed %s, error %s, effect %s, resolved by %s, request ID %s",
			timeText(at.ClaimedAt), or(at.ErrorClass), or(at.Effect), or(at.Resolved), or(at.RequestID))})
	}
	for _, e := range v.History {
		rows = append(rows, []string{e.At.Format(time.RFC3339), e.sentence()})
	}
	for _, at := range v.Attributes {
		rows = append(rows, []string{"attribute", fmt.Sprintf("%s (%s): %s", at.Name, at.Type, at.Value)})
	}
	rows = append(rows, []string{"payload", fmt.Sprintf("%d bytes, %s, SHA-256 %s", v.Payload.Bytes, v.Payload.Form, j.PayloadSHA256)})
	rows = append(rows, v.Payload.lines()...)
	if c := v.Content; c != nil {
		rows = append(rows, []string{"reference " + strconv.Itoa(c.N), fmt.Sprintf("%d bytes, %s, verified", c.Payload.Bytes, c.Payload.Form)})
		rows = append(rows, c.Payload.lines()...)
	}
	return result{Object: v, Headers: []string{"what", "value"}, Rows: rows}
}

// lines are the rows of a payload's text.
func (p payloadView) lines() [][]string {
	var rows [][]string
	for line := range strings.Lines(p.Text) {
		rows = append(rows, []string{"", strings.TrimRight(line, "\n")})
	}
	return rows
}

func newEventView(e ledger.Event) eventView {
	return eventView{
		At: e.At.UTC(), Actor: e.Actor, From: string(e.From), To: string(e.To), Attempt: e.Attempt,
		Run: text(e.Run), Reason: text(term.Mask(e.Reason)), ErrorClass: text(e.ErrorClass), RequestID: text(e.RequestID),
	}
}

// move tells what became of the row's state.
func (e eventView) move() string {
	switch {
	case e.From == "":
		return "written as " + e.To
	case e.To == "":
		return "recorded late while " + e.From
	default:
		return e.From + " -> " + e.To
	}
}

// sentence tells the event on one line.
func (e eventView) sentence() string {
	s := fmt.Sprintf("%s: %s, attempt %d", e.Actor, e.move(), e.Attempt)
	if e.Reason != nil {
		s += ", " + *e.Reason
	}
	return s
}

func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}
