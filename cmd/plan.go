package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func newPlanCmd(a *app) *cobra.Command {
	return group("plan", "Freeze a selection of jobs, to be approved and run", newPlanCreateCmd(a), newPlanShowCmd(a),
		newPlanListCmd(a), newPlanWaitCmd(a), newPlanDropCmd(a), newPlanExportCmd(a))
}

type planOptions struct {
	app       *app
	queue     string
	sel       redrive.Selection
	since     string
	until     string
	sentSince string
	sentUntil string
	olderThan string
	jobsFrom  string
	action    string
	max       int
	rate      string
	expires   string
	reason    string
	canary    int
	lifts     redrive.Lifts
	as        string
	effects   string
	edit      editOptions
	dryRun    bool
	capture   bool

	parsedRate    redrive.Rate
	parsedExpires time.Duration
}

func newPlanCreateCmd(a *app) *cobra.Command {
	o := &planOptions{app: a}
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
does "plan show PLAN --diff".`,
		Example: "  redrivectl plan create digests --class schema_mismatch --edit \".locale=null\" --max 50 --reason \"ticket 4711\" --dry-run\n" +
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
	o.selectionFlags(c)
	o.boundFlags(c)
	o.liftFlags(c)
	o.edit.flags(c)
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
	f.StringVar(&o.since, "since", "", "failed (else sent) at or after this RFC 3339 time, or so long ago (2h, 3d)")
	f.StringVar(&o.until, "until", "", "failed (else sent) before this RFC 3339 time, or so long ago (2h, 3d)")
	f.StringVar(&o.sentSince, "sent-since", "", "sent at or after this time, whenever it failed; as --since")
	f.StringVar(&o.sentUntil, "sent-until", "", "sent before this time, whenever it failed; as --until")
	f.StringVar(&o.olderThan, "older-than", "", "failed (else sent) longer ago than this (2h, 3d)")
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
	f.StringVar(&o.expires, "expires", "2h", "how long the plan is good for, from now; nothing new starts later")
	f.StringVar(&o.reason, "reason", "", "why, for the approver and the audit log (required)")
	f.IntVar(&o.canary, "canary", 0, "size of a first sample; this version has no gate, so only 0 is accepted")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the plan and keep nothing")
}

func (o *planOptions) liftFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.lifts.Fixed, "fixed", "", "what was corrected, for classes that wait for a correction (one approver)")
	f.StringVar(&o.as, "as", "", "the class that you claim for jobs of class unknown (one approver)")
	f.StringVar(&o.effects, "effects", "", "\"idempotent\": a repeated effect is harmless (one approver)")
	f.StringVar(&o.lifts.AcceptProvision, "accept-provisional", "", "why a provisional no is good enough (one approver)")
	f.StringVar(&o.lifts.AcceptDuplicates, "accept-duplicates", "", "why a second effect is acceptable (two approvers)")
	f.BoolVar(&o.lifts.FanOut, "fan-out", false, "accept that every consumer of the destination gets the jobs again (one approver)")
	f.BoolVar(&o.lifts.BreakOrder, "break-order", false, "accept that jobs overtake earlier ones of their group (one approver)")
	f.StringVar(&o.lifts.To, "to", "", "destination instead of each job's origin (one approver)")
	must(c.RegisterFlagCompletionFunc("as", completeFrom(classNames)))
	must(c.RegisterFlagCompletionFunc("effects", cobra.FixedCompletions([]string{"idempotent"}, cobra.ShellCompDirectiveNoFileComp)))
}

func classNames() []string {
	p, err := classify.Default()
	if err != nil {
		return nil
	}
	return classesOf(p)
}

// completeFrom turns a list into cobra's completion function.
func completeFrom(names func() []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

func (o *planOptions) validate() error {
	switch {
	case o.max <= 0:
		return usagef("--max N is required: the most items that the plan may have")
	case strings.TrimSpace(o.reason) == "":
		return usagef("--reason is required: the approver and the audit log need it")
	case o.canary != 0:
		return usagef("--canary %d: this version has no gate, so only 0 is accepted", o.canary)
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
	if err := o.parseBounds(); err != nil {
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

func (o *planOptions) parseBounds() error {
	var err error
	if o.parsedRate, err = redrive.ParseRate(o.rate); err != nil {
		return usagef("--rate: %w", err)
	}
	if o.parsedExpires, err = config.ParseDuration(o.expires); err != nil || o.parsedExpires <= 0 {
		return usagef("--expires %s: give a length of time, such as 2h", o.expires)
	}
	if err := o.parseSpan("", o.since, o.until, &o.sel.Since, &o.sel.Until); err != nil {
		return err
	}
	if err := o.parseSpan("sent-", o.sentSince, o.sentUntil, &o.sel.SentSince, &o.sel.SentUntil); err != nil {
		return err
	}
	if o.olderThan != "" {
		if o.sel.OlderThan, err = config.ParseDuration(o.olderThan); err != nil || o.sel.OlderThan <= 0 {
			return usagef("--older-than %s: give a length of time, such as 2h", o.olderThan)
		}
	}
	return nil
}

// parseSpan reads the two ends of a span, of which each may be missing.
func (o *planOptions) parseSpan(prefix, since, until string, from, to *time.Time) error {
	now := o.app.now()
	var err error
	if *from, err = parseWhen(since, now); err != nil {
		return usagef("--%ssince: %w", prefix, err)
	}
	if *to, err = parseWhen(until, now); err != nil {
		return usagef("--%suntil: %w", prefix, err)
	}
	if since != "" && until != "" && !from.Before(*to) {
		return usagef("--%ssince %s is not before --%suntil %s: no job is in between", prefix, since, prefix, until)
	}
	return nil
}

// parseWhen reads a moment: RFC 3339, or a length of time before now.
func parseWhen(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := config.ParseDuration(s)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q is neither an RFC 3339 time nor a length of time such as 2h or 3d", s)
	}
	return now.Add(-d), nil
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

func (o *planOptions) run(ctx context.Context) error {
	q, err := o.app.queue(ctx, o.queue)
	if err != nil {
		return err
	}
	if err := hasClasses(q.policy, o.sel.Class); err != nil {
		return err
	}
	if o.as != "" && !q.policy.Has(classify.Class(o.as)) {
		return fail(exitUsage, "redrivectl policy check --help", "--as %s: the policy of %s has no such class", o.as, o.queue)
	}
	st, err := o.app.storeFor(ctx, q.name)
	if err != nil {
		return err
	}
	p, err := o.app.planner(q, st)
	if err != nil {
		return err
	}
	es, err := newEdits(ctx, q, o.lifts.Edit)
	if err != nil {
		return err
	}
	jobs, seen, err := o.jobs(ctx, q, st, es)
	if err != nil {
		return err
	}
	req, err := o.request(ctx, q, jobs)
	if err != nil {
		return err
	}
	req.Edits = es.made
	d, err := p.Draft(ctx, req)
	if err != nil {
		return withHint(err, o.hint(err))
	}
	if !o.dryRun {
		if err := p.Save(ctx, d); err != nil {
			return err
		}
	}
	if err := o.print(ctx, d); err != nil {
		return err
	}
	if !seen.Complete {
		o.app.note("the look was incomplete: %s", seen.Why)
		return silently(exitPartly)
	}
	return nil
}

// archiveLife is how long the archive keeps what was settled or discarded.
const archiveLife = 90 * 24 * time.Hour

// hint is where to look when nothing could be planned.
func (o *planOptions) hint(err error) string {
	var in *redrive.InPlanError
	var empty *redrive.EmptyError
	switch {
	case errors.As(err, &in):
		return "redrivectl plan show " + short(string(in.Plan))
	case errors.As(err, &empty) && len(empty.Held) > 0:
		return "what is held needs: " + counts(needsOf(empty.Held))
	case errors.As(err, &empty) && len(passedOver(empty.LeftOut)) > 0:
		return "what was selected is left out: " + counts(passedOver(empty.LeftOut))
	case errors.As(err, &empty):
		return "redrivectl list " + o.queue + " --jobs"
	case errors.Is(err, audit.ErrNotWritable), errors.Is(err, audit.ErrBroken):
		return "redrivectl audit verify"
	default:
		return ""
	}
}

// passedOver is what was selected and left out all the same, by why: it is in
// another plan, for one.
func passedOver(leftOut map[string]int) map[string]int {
	over := maps.Clone(leftOut)
	delete(over, "not_selected")
	return over
}

func needsOf(held []redrive.Held) map[string]int {
	needs := map[string]int{}
	for _, h := range held {
		needs[h.Needs]++
	}
	return needs
}

// hasClasses refuses a class that the policy does not have beside others that it
// has: it would select nothing, and nobody would notice. Alone it makes an empty
// selection, whose refusal names the classes that the queue has.
func hasClasses(p *classify.Policy, names []string) error {
	var unknown []string
	for _, name := range names {
		if !p.Has(classify.Class(name)) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 || len(unknown) == len(names) {
		return nil
	}
	return usagef("--class %s: the policy has no such class; it has: %s", strings.Join(unknown, ","), strings.Join(classesOf(p), ", "))
}

func classesOf(p *classify.Policy) []string {
	var names []string
	for _, c := range p.Classes() {
		names = append(names, string(c))
	}
	return names
}

// jobs are the queue's, from a new look or from the last one.
func (o *planOptions) jobs(ctx context.Context, q *queue, st *store.Store, es *edits) ([]job.Job, broker.Completeness, error) {
	if !o.capture {
		return o.app.allJobs(ctx, q, es.add)
	}
	c, found, err := st.LatestCapture(ctx, q.name)
	if err != nil {
		return nil, broker.Completeness{}, err
	}
	if !found {
		return nil, broker.Completeness{}, fail(exitRefused, "redrivectl list "+q.name, "there is no capture of %s from the last 24 hours", q.name)
	}
	o.app.note("selecting from the look at %s", utc(c.CapturedAt))
	return c.Jobs, broker.Completeness{Complete: c.Complete, Why: c.Why}, nil
}

func (o *planOptions) request(ctx context.Context, q *queue, jobs []job.Job) (redrive.Request, error) {
	digests, err := o.app.digests(q)
	if err != nil {
		return redrive.Request{}, err
	}
	facts, err := o.app.queueFacts(ctx, q)
	return redrive.Request{
		Queue: facts, Jobs: jobs, Select: o.sel, Only: reconcile.Action(o.action), Max: o.max,
		Rate: o.parsedRate, Expires: o.parsedExpires, Reason: o.reason, Lifts: o.lifts, Digests: digests,
		ArchiveRetention: archiveLife,
	}, err
}

func (o *planOptions) print(ctx context.Context, d redrive.Draft) error {
	state := redrive.PlanWaiting
	if d.Plan.Tier.Needed() == 0 {
		state = redrive.PlanApproved
	}
	v := newPlanView(d.ID, d.Plan, state, 0)
	v.DryRun, v.Solo = o.dryRun, o.app.solo()
	v.Held = []jobView{}
	for _, x := range d.Held {
		v.Held = append(v.Held, o.app.jobView(x))
	}
	if o.dryRun && d.Plan.Lifts.Edit != nil {
		var err error
		if v.Diffs, err = o.app.diffs(ctx, d.Plan); err != nil {
			return err
		}
	}
	r := v.result(d.Plan, false)
	if d.Plan.Lifts.Edit != nil && !o.dryRun {
		r.After = append(r.After, "", fmt.Sprintf("what it changes: redrivectl plan show %s --diff", short(v.Plan)))
	}
	switch {
	case o.dryRun:
		r.After = append(r.After, "", "dry run: nothing was kept")
	case v.Needed > 0 && v.Solo != nil:
		r.After = append(r.After, "", fmt.Sprintf("next: redrivectl approve %s --items %d --reason WHY", short(v.Plan), v.ItemCount))
	case v.Needed > 0:
		r.After = append(r.After, "", fmt.Sprintf("next, as another person: redrivectl approve %s --items %d --reason WHY", short(v.Plan), v.ItemCount))
	default:
		r.After = append(r.After, "", fmt.Sprintf("next: redrivectl run %s", short(v.Plan)))
	}
	return o.app.print(r)
}
