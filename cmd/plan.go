package cmd

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func newPlanCmd(a *app) *cobra.Command {
	return group("plan", "Freeze a selection of jobs, to be approved and run", newPlanCreateCmd(a), newPlanShowCmd(a),
		newPlanListCmd(a), newPlanWaitCmd(a), newPlanDropCmd(a), newPlanExportCmd(a))
}

type planOptions struct {
	app      *app
	queue    string
	sel      redrive.Selection
	jobsFrom string
	action   string
	max      int
	rate     string
	expires  time.Duration
	reason   string
	gate     gateOptions
	lifts    redrive.Lifts
	as       string
	effects  string
	edit     editOptions
	dryRun   bool
	capture  bool
	seen     *keptLook // in whose place the queue is not looked at; nil: it is

	parsedRate redrive.Rate
}

func newPlanOptions(a *app) *planOptions { return &planOptions{app: a, expires: 2 * time.Hour} }

func (o *planOptions) allFlags(c *cobra.Command) {
	o.selectionFlags(c)
	o.boundFlags(c)
	o.liftFlags(c)
	o.edit.flags(c)
	o.gate.flags(c)
}

func newPlanCreateCmd(a *app) *cobra.Command {
	o := newPlanOptions(a)
	c := &cobra.Command{
		Use:   "create QUEUE",
		Short: "Freeze a selection into a plan",
		Long: `Look at the queue, select jobs, decide what may be done with each, and freeze
that as a plan: message identities, hashes, actions and bounds. The plan's name
is the hash of its content, so what is approved is exactly what runs.

At least one filter, --job, --jobs-from or --all is needed. Jobs that may not be
redriven yet are held, and the output says what each needs.

With --action discard the plan drops what it selects, whatever its class: each
copy is archived whole and then taken off the queue, and nothing is sent. Such a
plan does nothing else, and always needs another person. A job whose effect is
proven is left out, since it settles; one whose outcome may still be found out is
held until the queue is reconciled.

With --edit each payload is made anew by a jq filter, and only the edited copy is
sent, under a job key of its own; the original can never be redriven again. That
needs proof that nothing was sent. --dry-run shows what the filter changes, and so
does "plan show PLAN --diff".

With --canary a sample goes first, at least one job of each class and region. The
rest follows only when the gate has seen what became of the sample and found it
within the thresholds; those that are not typed are the policy's. The thresholds
watch over the rest too, and over a plan that has them and no canary: where they
break, a circuit breaker pauses the run.`,
		Example: "  redrivectl plan create digests --class throttled --canary auto --max 5000 --reason \"provider outage is over\"\n" +
			"  redrivectl plan create digests --class schema_mismatch --edit \".locale=null\" --max 50 --reason \"ticket 4711\" --dry-run\n" +
			"  redrivectl plan create digests --class throttled,unavailable --max 500 --reason \"provider outage is over\"\n" +
			"  redrivectl plan create digests --class auth --fixed \"credential rotated\" --max 50 --reason \"ticket 4711\"\n" +
			"  redrivectl plan create digests --class stale,expired --action discard --max 200 --reason \"too late to send\"\n" +
			"  redrivectl plan create digests --all --max 1000 --reason \"look first\" --dry-run -o json",
		Args:              exactArgs("QUEUE"),
		ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.queue = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	o.allFlags(c)
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *planOptions) selectionFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&o.sel.Class, "class", nil, "failure classes, as list shows them")
	f.StringSliceVar(&o.sel.ReasonType, "reason-type", nil, "types of the reason, as list shows them")
	f.StringSliceVar(&o.sel.Period, "period", nil, "periods")
	f.StringSliceVar(&o.sel.Region, "region", nil, "regions")
	f.StringSliceVar(&o.sel.Schema, "schema", nil, "schema versions")
	f.StringSliceVar(&o.sel.CustomerStatus, "customer-status", nil, "statuses of the customer")
	f.StringSliceVar(&o.sel.Channel, "channel", nil, "channels")
	now := o.app.now
	f.Var(momentFlag{&o.sel.Since, now}, "since", "failed (else sent) at or after this RFC 3339 time, or so long ago (2h, 3d)")
	f.Var(momentFlag{&o.sel.Until, now}, "until", "failed (else sent) before this RFC 3339 time, or so long ago (2h, 3d)")
	f.Var(momentFlag{&o.sel.SentSince, now}, "sent-since", "sent at or after this time, whenever it failed; as --since")
	f.Var(momentFlag{&o.sel.SentUntil, now}, "sent-until", "sent before this time, whenever it failed; as --until")
	f.Var(lengthFlag{to: &o.sel.OlderThan}, "older-than", "failed (else sent) longer ago than this (2h, 3d)")
	f.IntVar(&o.sel.Receives, "receives", 0, "received at least this many times")
	f.StringVar(&o.sel.Where, "where", "", "CEL condition over the job's fields, such as 'reason_code == \"429\" && receives < 5'")
	f.StringArrayVar(&o.sel.Jobs, "job", nil, "this job, by job key or message ID (repeatable)")
	f.StringVar(&o.jobsFrom, "jobs-from", "", "file with one job key or message ID per line")
	f.BoolVar(&o.sel.All, "all", false, "every job of the queue")
	f.BoolVar(&o.capture, "from-capture", false, "select from what the last list of the queue captured, instead of looking again")
	f.StringVar(&o.action, "action", "", "only items with this action: redrive or settle (default both); or discard: drop what is selected (one approver)")
	must(c.RegisterFlagCompletionFunc("class", completeFrom(classNames)))
	must(c.RegisterFlagCompletionFunc("action", cobra.FixedCompletions([]string{"redrive", "settle", "discard"}, cobra.ShellCompDirectiveNoFileComp)))
}

func (o *planOptions) boundFlags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&o.max, "max", 0, "most items that the plan may have (required)")
	f.StringVar(&o.rate, "rate", "50/s", "most jobs in any one-second window; also 0.5/s or 30/m")
	f.Var(lengthFlag{to: &o.expires}, "expires", "how long the plan is good for, from now; nothing new starts later")
	f.StringVar(&o.reason, "reason", "", "why, for the approver and the audit log (required)")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the plan and keep nothing")
}

func (o *planOptions) liftFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.lifts.Fixed, "fixed", "", "what was corrected, for classes that wait for a correction (one approver)")
	f.StringVar(&o.as, "as", "", "the class that you claim for jobs of class unknown (one approver)")
	f.StringVar(&o.effects, "effects", "", "\"idempotent\": a repeated effect is harmless (one approver)")
	f.StringVar(&o.lifts.AcceptProvisional, "accept-provisional", "", "why a provisional no is good enough (one approver)")
	f.StringVar(&o.lifts.AcceptDuplicates, "accept-duplicates", "", "why a second effect is acceptable (two approvers)")
	f.BoolVar(&o.lifts.FanOut, "fan-out", false, "accept that every consumer of the destination gets the jobs again (one approver)")
	f.BoolVar(&o.lifts.BreakOrder, "break-order", false, "accept that jobs overtake earlier ones of their group (one approver)")
	f.StringVar(&o.lifts.To, "to", "", "destination instead of each job's origin (one approver)")
	must(c.RegisterFlagCompletionFunc("as", completeFrom(classNames)))
	must(c.RegisterFlagCompletionFunc("effects", cobra.FixedCompletions([]string{"idempotent"}, cobra.ShellCompDirectiveNoFileComp)))
}

func (o *planOptions) validate() error {
	switch {
	case o.max <= 0:
		return usagef("--max N is required: the most items that the plan may have")
	case strings.TrimSpace(o.reason) == "":
		return usagef("--reason is required: the approver and the audit log need it")
	case o.effects != "" && o.effects != string(config.Idempotent):
		return usagef("--effects %s: only \"idempotent\" can be declared", o.effects)
	case !slices.Contains([]reconcile.Action{"", reconcile.Redrive, reconcile.Settle, reconcile.Discard}, reconcile.Action(o.action)):
		return usagef("--action %s: use redrive, settle or discard", o.action)
	case o.sel.Receives < 0:
		return usagef("--receives must not be negative")
	}
	var err error
	o.lifts.As, o.lifts.EffectsByFlag = classify.Class(o.as), o.effects != ""
	if o.lifts.Edit, err = o.edit.rule(o.capture); err != nil {
		return err
	}
	if o.action == string(reconcile.Discard) && o.lifts != (redrive.Lifts{}) {
		return usagef("--action discard sends nothing: leave out what is for redrives (--fixed, --as, --to, --edit, --effects, --accept-…)")
	}
	if err := o.gate.validate(o.action); err != nil {
		return err
	}
	if o.parsedRate, err = redrive.ParseRate(o.rate); err != nil {
		return usagef("--rate: %w", err)
	}
	if err := o.checkSpans(); err != nil {
		return err
	}
	if err := o.readJobs(); err != nil {
		return err
	}
	if o.sel.Empty() {
		return usagef("select something: a filter, --job, --jobs-from or --all")
	}
	if err := o.sel.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// checkSpans refuses a span in which no moment is.
func (o *planOptions) checkSpans() error {
	for _, x := range []struct {
		name         string
		since, until time.Time
	}{{"", o.sel.Since, o.sel.Until}, {"sent-", o.sel.SentSince, o.sel.SentUntil}} {
		if !x.since.IsZero() && !x.until.IsZero() && !x.since.Before(x.until) {
			return usagef("--%ssince %s is not before --%suntil %s: no job is in between", x.name, utc(x.since), x.name, utc(x.until))
		}
	}
	return nil
}

func (o *planOptions) readJobs() error {
	if o.jobsFrom == "" {
		return nil
	}
	f, err := os.Open(o.jobsFrom)
	if err != nil {
		return fail(exitFailed, "", "read --jobs-from: %w", err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			o.sel.Jobs = append(o.sel.Jobs, line)
		}
	}
	if err := lines.Err(); err != nil {
		return fail(exitFailed, "", "read --jobs-from %s: %w", o.jobsFrom, err)
	}
	if len(o.sel.Jobs) == 0 {
		return usagef("--jobs-from %s names no job", o.jobsFrom)
	}
	return nil
}
