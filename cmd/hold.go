package cmd

import (
	"context"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

type holdOptions struct {
	app    *app
	job    string
	owner  string
	reason string
	queue  string
	list   bool
}

func newHoldCmd(a *app) *cobra.Command {
	o := &holdOptions{app: a}
	c := &cobra.Command{
		Use:   "hold JOB --to OWNER",
		Short: "Hold a job for manual review until it is released",
		Long: `Hold a quarantined job for a person to review. Until it is released nothing is
done with it: no plan takes it, and a run that has it in its plan skips it, also
when it was approved before. No option of a plan lifts this. What a batch in
flight has begun with is not taken back.

All copies of the job are held, in this dead-letter queue, also those that come
later. Holding a held job again gives it to another owner. --list, and status,
show what is held.`,
		Example: `  redrivectl hold 7e37a8fe --to mail-team --reason "customer asked, ticket 4711"
  redrivectl hold --list
  redrivectl release 7e37a8fe --reason "customer agreed"`,
		Args: func(c *cobra.Command, args []string) error {
			if o.list {
				return exactArgs()(c, args)
			}
			return exactArgs("JOB")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if o.list {
				return o.printList(c.Context())
			}
			o.job = args[0]
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.owner, "to", "", "who reviews the job (required)")
	reasonFlag(c, &o.reason, "why it is held")
	a.queueFlag(c, &o.queue, "look for the job in this queue alone")
	f.BoolVar(&o.list, "list", false, "list the jobs on hold")
	return exits(c, exitRefused, exitAudit)
}

func (o *holdOptions) validate() error {
	set := strings.TrimSpace(o.owner) != "" || strings.TrimSpace(o.reason) != ""
	switch {
	case o.list && set:
		return usagef("--list goes without --to and --reason")
	case o.list:
		return nil
	case strings.TrimSpace(o.owner) == "":
		return usagef("--to OWNER is required: somebody must review the job")
	default:
		o.reason = givenReason(o.reason)
		return nil
	}
}

// holdView is the hold shape of docs/json-output.md.
type holdView struct {
	JobKey    *string   `json:"job_key"`
	MessageID string    `json:"message_id"`
	CopyID    string    `json:"copy_id"`
	Queue     string    `json:"queue"`
	Owner     string    `json:"owner"`
	Reason    string    `json:"reason"`
	By        string    `json:"held_by"`
	At        time.Time `json:"held_at"`
	Age       float64   `json:"age_seconds"`
}

func (a *app) holdView(h reconcile.ManualHold) holdView {
	return holdView{
		JobKey: text(h.JobKey), MessageID: h.MessageID, CopyID: h.CopyID, Queue: h.Queue,
		Owner: term.Mask(h.Owner), Reason: term.Mask(h.Reason), By: h.By, At: h.At.UTC(), Age: a.age(h.At),
	}
}

func (o *holdOptions) run(ctx context.Context) error {
	found, err := o.app.findJob(ctx, o.job, o.queue)
	if err != nil {
		return err
	}
	if found.queue == nil {
		return usagef("%s is a dump: only a job in a queue can be held", o.job)
	}
	st, err := o.app.storeFor(ctx, found.queue.name)
	if err != nil {
		return err
	}
	rec, err := o.app.jobRecord(st, "hold", o.reason, found.assessed.Job)
	if err != nil {
		return err
	}
	j := found.assessed.Job
	h := reconcile.ManualHold{
		HoldID: reconcile.HoldIDOf(j), Queue: j.Queue, JobKey: j.JobKey, MessageID: j.Message.MessageID,
		CopyID: j.Message.Copy.String(), Owner: o.owner, Reason: o.reason, By: rec.Actor.Name, At: o.app.now(),
	}
	before, err := st.SaveHold(ctx, h, rec)
	if err != nil {
		return err
	}
	return o.print(ctx, st, h, before)
}

// heldView is what hold answers.
type heldView struct {
	holdView
	PreviousOwner *string `json:"previous_owner"`
	Plan          *string `json:"plan"`
}

// print says what was held, and which plan will skip it.
func (o *holdOptions) print(ctx context.Context, st *store.Store, h reconcile.ManualHold, before string) error {
	v := heldView{holdView: o.app.holdView(h), PreviousOwner: text(term.Mask(before))}
	live, err := st.InLivePlans(ctx, h.Queue, o.app.now())
	if err != nil {
		return err
	}
	for _, id := range []string{h.CopyID, h.JobKey} {
		if plan, ok := live[id]; ok && id != "" {
			v.Plan = text(string(plan))
		}
	}
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: append(v.rows(), []string{"previous owner", or(v.PreviousOwner)})}
	if v.Plan != nil {
		r.Rows = append(r.Rows, []string{"plan", *v.Plan + ": its run skips the job"})
	}
	return o.app.print(r)
}

func (v holdView) rows() [][]string {
	return [][]string{
		{"job key", or(v.JobKey)},
		{"message ID", v.MessageID},
		{"queue", v.Queue},
		{"held for", v.Owner},
		{"reason", v.Reason},
		{"held by", v.By},
		{"since", utc(v.At)},
	}
}

func (o *holdOptions) printList(ctx context.Context) error {
	hs, err := o.app.listHolds(ctx)
	if err != nil {
		return err
	}
	views := []holdView{}
	r := result{Headers: []string{"job", "queue", "owner", "age", "reason"}}
	for _, h := range hs {
		if o.queue != "" && h.Queue != o.queue {
			continue
		}
		v := o.app.holdView(h)
		views = append(views, v)
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, []string{firstText(or(v.JobKey), v.MessageID), v.Queue, v.Owner, span(v.Age), v.Reason})
	}
	r.Object = map[string]any{"holds": views}
	return o.app.print(r)
}

// listHolds is every hold on record; none without a store.
func (a *app) listHolds(ctx context.Context) ([]reconcile.ManualHold, error) {
	st, err := a.storeToRead(ctx)
	if err != nil || st == nil {
		return nil, err
	}
	return st.ListHolds(ctx, "")
}

// jobRecord is the record of what a person did about one job outside a run.
func (a *app) jobRecord(st *store.Store, action, reason string, j job.Job) (audit.Record, error) {
	who, customer, err := a.signs(st)
	if err != nil {
		return audit.Record{}, err
	}
	rec := redrive.JobRecord(who, action, j, customer)
	rec.Phase, rec.Result, rec.Reason = audit.Outcome, audit.ResultDone, reason
	return rec, nil
}
