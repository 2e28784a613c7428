package cmd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// How a run holds what it works on. A lease must outlast a batch, and be short
// enough that a crashed run's queue is free again while the operator waits.
const (
	leaseTTL      = 15 * time.Second
	deliveryLease = 30 * time.Second
	emptyTries    = 3
	emptyWait     = 500 * time.Millisecond

	// While some batches of a run on SQS wait for the disk or the ledger, others
	// use the connections.
	sqsConnections   = 16
	sqsBatchesAtOnce = 2 * sqsConnections
)

// runView is the run shape of docs/json-output.md.
type runView struct {
	Run       string         `json:"run"`
	Plan      string         `json:"plan"`
	Queue     string         `json:"queue"`
	State     string         `json:"state"`
	Planned   int            `json:"planned"`
	Redriven  int            `json:"redriven"`
	Settled   int            `json:"settled"`
	Discarded int            `json:"discarded"`
	Skipped   map[string]int `json:"skipped"`
	Failed    int            `json:"failed"`
	Unknown   int            `json:"unknown"`
	Remaining int            `json:"remaining"`
	Gate      gateView       `json:"gate"`
	Rate      *float64       `json:"rate_per_second"` // as lowered by throttling; null once the run is history
	// Effective is what throttling left of the plan's rate, now or at the end; null
	// where a run never came to its first batch.
	Effective *float64 `json:"effective_rate_per_second"`
	Duration  float64  `json:"duration_seconds"`
	Solo      *string  `json:"solo,omitempty"`
	Glass     *string  `json:"break_glass,omitempty"` // why it went without the approvals that it needs

	pace redrive.Pace
}

func newRunView(e redrive.Ended, queue string) runView {
	v := runView{
		Run: string(e.Run), Plan: string(e.Plan), Queue: queue, State: string(e.State),
		Gate: newGateView(e.Gate), Rate: &e.RatePerSecond, Duration: e.Duration.Seconds(),
	}
	v.report(e.Report)
	v.Glass = text(term.Mask(e.BreakGlass))
	v.paced(e.Pace)
	return v
}

func (v *runView) paced(p redrive.Pace) {
	if v.pace = p; p.Effective > 0 {
		v.Effective = &p.Effective
	}
}

func (v *runView) report(r redrive.Report) {
	v.Planned, v.Redriven, v.Settled, v.Discarded = r.Planned, r.Redriven, r.Settled, r.Discarded
	v.Skipped, v.Failed, v.Unknown, v.Remaining = r.Skipped, r.Failed, r.Unknown, r.Remaining
	if v.Skipped == nil {
		v.Skipped = map[string]int{}
	}
}

// partly reports that not all of the plan was done.
func (v runView) partly() bool {
	return v.Failed+v.Unknown+v.Remaining > 0 || len(v.Skipped) > 0
}

type runOptions struct {
	app       *app
	plan      string
	dryRun    bool
	approvals []string
	glass     string
	wait      waitFlag
}

func newRunCmd(a *app) *cobra.Command {
	o := &runOptions{app: a}
	c := &cobra.Command{
		Use: "run PLAN", Short: "Carry out an approved plan",
		Long: `Carry out an approved plan: job by job in the order that makes a crash safe,
never faster than the plan's rate, nothing new after its expiry, with an audit
record of each job before anything is done, and of each step once it is. A plan
runs once; what a crash or Ctrl-C leaves open is settled by "redrivectl resume".

With --break-glass, one person runs a plan alone in an emergency, although it needs
others, where the policy of the queue allows it (break_glass: N): at most N items
of that queue in 24 hours, never above 100, each proven or replay-safe. It does not
outweigh a doubt about an effect, a discard, an edit, another destination, more
redrives of a job than the cap, or a policy or settings that nobody else has
approved, nor that somebody has turned these jobs down. The reason stands in every
record and output of the run: "redrivectl audit find --break-glass".

With --approval, approvals that were given elsewhere ("redrivectl approve FILE")
are first recorded here, where the config lets approvals in files count.

Where the plan has a canary, it goes first, and the gate waits for what becomes of
it. Only a pass goes on by itself. A fail ends the run for good. Where the gate is
inconclusive, or later the redrives break a threshold of the plan and the circuit
breaker trips, the run is paused for a person, who lets it go on with "redrivectl
resume RUN --promote". On a terminal this command waits for that; elsewhere, and
with --wait=false, it ends. Each of these ends has exit code 6.

Ctrl-C finishes the batches in flight and releases what is held. A second one
stops at once and leaves open intents. "redrivectl pause" and "redrivectl abort"
do so from any terminal that shares the store.`,
		Example: "  redrivectl run 3f9a\n  redrivectl run 3f9a --dry-run\n  redrivectl run 3f9a --yes -o json\n" +
			"  redrivectl run 3f9a --break-glass \"nobody else is on call, ticket 4711\"\n" +
			"  redrivectl run 3f9a --approval 3f9a1c2d4e5f.approval.json",
		Args: exactArgs("PLAN"),
		RunE: func(c *cobra.Command, args []string) error {
			o.plan = args[0]
			if c.Flags().Changed("break-glass") && strings.TrimSpace(o.glass) == "" {
				return usagef("--break-glass wants the reason: every record and output of the run says it")
			}
			return o.run(c.Context())
		},
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "check the plan and its approvals, and say what would be done")
	c.Flags().StringArrayVar(&o.approvals, "approval", nil, "file with an approval that was given elsewhere (repeatable)")
	c.Flags().StringVar(&o.glass, "break-glass", "", "why it is an emergency that one person runs it alone, where the policy allows that")
	o.wait.add(c)
	return exits(c, exitPartly, exitRefused, exitAudit, exitGate, exitInterrupted)
}

// readyPlan is a plan that was found, open, with what carries it out.
type readyPlan struct {
	redrive.Frozen
	runner *redrive.Runner
}

// show is the command that shows the plan.
func (r readyPlan) show() string { return "redrivectl plan show " + short(string(r.ID)) }

func (a *app) ready(ctx context.Context, prefix string) (readyPlan, error) {
	st, err := a.store(ctx)
	if err != nil {
		return readyPlan{}, err
	}
	p, err := st.OpenPlan(ctx, prefix)
	if err != nil {
		return readyPlan{}, notFound("plan", prefix, err)
	}
	r, err := a.runner(ctx, p.Queue, st)
	if err != nil {
		return readyPlan{}, errors.Join(err, p.Items.Close())
	}
	return readyPlan{p, r}, nil
}

func (o *runOptions) run(ctx context.Context) error {
	r, err := o.app.ready(ctx, o.plan)
	if err != nil {
		return err
	}
	return errors.Join(o.ask(ctx, r), r.Items.Close())
}

// ask checks the plan, or carries it out once the person has said yes.
func (o *runOptions) ask(ctx context.Context, r readyPlan) error {
	carried, err := o.app.carried(o.approvals)
	if err != nil {
		return err
	}
	approver := &redrive.Approver{Plans: r.runner.Plans, Who: r.runner.Who, Now: o.app.now, Persons: r.runner.Persons, Log: r.runner.Rollbacks}
	if err := o.app.tellAside(ctx, r); err != nil {
		return err
	}
	if o.dryRun {
		return o.check(ctx, r, approver, carried)
	}
	if err := o.app.confirm(runQuestion(r.Frozen, o.glass)); err != nil {
		return err
	}
	if err := approver.Take(ctx, string(r.ID), carried...); err != nil {
		return withHint(err, carriedHint(approver, r))
	}
	if err := o.breakGlass(ctx, r, approver); err != nil {
		return err
	}
	r.runner.WaitAtGate = o.wait.waits(o.app)
	ended, err := r.runner.RunOpened(ctx, r.Frozen)
	return o.app.reportRun(ended, r.Queue, r.show(), err)
}

// breakGlass states that this person runs the plan alone, if he says so, and says
// it aloud.
func (o *runOptions) breakGlass(ctx context.Context, r readyPlan, by *redrive.Approver) error {
	if o.glass == "" {
		return nil
	}
	if _, err := by.BreakGlass(ctx, string(r.ID), o.glass); err != nil {
		return withHint(err, r.show())
	}
	o.app.note("BREAK GLASS: plan %s runs without the approvals that it needs (%s): %s",
		short(string(r.ID)), strings.Join(r.TierWhy, ", "), term.Mask(o.glass))
	return nil
}

// tellAside says how many messages that are not the plan's a run must receive and
// hold until its end, where a broker cannot be asked for a message by name.
func (a *app) tellAside(ctx context.Context, r readyPlan) error {
	if r.runner.Broker.Capabilities().SelectiveReceive {
		return nil
	}
	d, err := r.runner.Broker.Describe(ctx)
	if err != nil {
		return fmt.Errorf("describe %s: %w", r.Queue, err)
	}
	if others := d.Depth.Visible - int64(r.Items.Len()); others > 0 {
		a.note("to find %d of about %d messages, up to %d others are received, held hidden, and given back at the end",
			r.Items.Len(), d.Depth.Visible, others)
	}
	return nil
}

// carriedHint is what to do about an approval in a file that does not count.
func carriedHint(by *redrive.Approver, r readyPlan) string {
	if !by.Files {
		return "have it approved in this store, or plan again under approval.files: accept"
	}
	return r.show()
}

func runQuestion(p redrive.Frozen, glass string) string {
	v := planView{Plan: string(p.ID), Actions: map[string]int{}, Classes: map[string]int{}, Retention: p.ArchiveSeconds}
	for a, n := range p.Items.Actions() {
		v.Actions[string(a)] = n
	}
	for c, n := range p.Items.Classes() {
		v.Classes[string(c)] = n
	}
	if glass != "" {
		return fmt.Sprintf("BREAK GLASS: run plan %s on %s alone, without the approvals that it needs: %s, at most %s/s?",
			short(v.Plan), p.Queue, counts(v.Actions), p.RatePerSecond)
	}
	if v.Actions["discard"] > 0 {
		return fmt.Sprintf("Run plan %s on %s? It destroys: %s.", short(v.Plan), p.Queue, v.destroys())
	}
	return fmt.Sprintf("Run plan %s on %s: %s, at most %s/s?", short(v.Plan), p.Queue, counts(v.Actions), p.RatePerSecond)
}

// check says what run would do, from what the store and the ledger say now, and
// keeps nothing.
func (o *runOptions) check(ctx context.Context, r readyPlan, by *redrive.Approver, carried []redrive.Approval) error {
	admitted, err := by.Admitted(ctx, string(r.ID), carried...)
	if err != nil {
		return withHint(err, carriedHint(by, r))
	}
	if o.glass != "" {
		_, st, err := by.Glass(ctx, string(r.ID), o.glass)
		if err != nil {
			return withHint(err, r.show())
		}
		admitted = append(admitted, st)
	}
	if err := r.runner.Check(ctx, string(r.ID), admitted...); err != nil {
		return withHint(err, r.show())
	}
	sp, err := r.runner.Plans.LoadPlan(ctx, string(r.ID))
	if err != nil {
		return err
	}
	v := newPlanView(r.ID, sp.Plan, sp.State, r.Tier.Needed())
	v.DryRun, v.Approved, v.Solo = true, true, o.app.solo()
	out := v.result(sp.Plan, false)
	out.After = []string{"", "dry run: the plan may run; nothing was done"}
	return o.app.print(out)
}

// reportRun prints what was done, also where the run ended early. refused is what
// to look at where it never began.
func (a *app) reportRun(e redrive.Ended, queue, refused string, err error) error {
	if e.Run == "" {
		return withHint(err, beginHint(err, refused))
	}
	v := newRunView(e, queue)
	v.Solo = a.solo()
	if perr := a.print(v.result()); perr != nil {
		return errors.Join(err, perr)
	}
	switch {
	case errors.As(err, new(*redrive.UndecidedError)):
		return fail(exitGate, promoteHint(v.Run), "%w", err)
	case err != nil && v.State == string(redrive.RunAborted):
		return withHint(err, "redrivectl runs show "+v.Run)
	case err != nil:
		return withHint(err, "redrivectl resume "+v.Run)
	case v.State == string(redrive.RunInterrupted) || v.partly():
		return silently(exitPartly)
	default:
		return nil
	}
}

// beginHint is what to look at when a run did not begin.
func beginHint(err error, refused string) string {
	var taken *redrive.TakenError
	switch {
	case errors.As(err, &taken):
		return takenHint(taken)
	case errors.Is(err, audit.ErrNotWritable), errors.Is(err, audit.ErrBroken):
		return "redrivectl audit verify"
	default:
		return refused
	}
}

// takenHint says where to look, and until when the lease of a process that may
// have died keeps its run and its queue from others.
func takenHint(e *redrive.TakenError) string {
	show := "redrivectl runs show " + string(e.Run)
	if e.Until.IsZero() {
		return show
	}
	return fmt.Sprintf("%s; if that process is gone, try again after %s, when its lease ends", show, utc(e.Until))
}

func (v runView) result() result {
	rows := append(glassRows(v.Glass), [][]string{
		{"run", v.Run},
		{"plan", v.Plan},
		{"queue", v.Queue},
		{"state", v.State},
		{"planned", strconv.Itoa(v.Planned)},
		{"redriven", strconv.Itoa(v.Redriven)},
		{"settled", strconv.Itoa(v.Settled)},
		{"discarded", strconv.Itoa(v.Discarded)},
		{"failed", strconv.Itoa(v.Failed)},
		{"unknown", strconv.Itoa(v.Unknown)},
		{"remaining", strconv.Itoa(v.Remaining)},
	}...)
	for _, why := range slices.Sorted(maps.Keys(v.Skipped)) {
		rows = append(rows, []string{"skipped: " + why, strconv.Itoa(v.Skipped[why])})
	}
	rows = append(rows, v.Gate.rows()...)
	if v.Effective != nil {
		rows = append(rows, []string{"rate", paceText(v.pace)})
	}
	rows = append(rows, []string{"took", span(v.Duration)})
	rows = append(rows, soloRows(v.Solo)...)
	next := "redrivectl runs report " + v.Run
	switch redrive.RunState(v.State) {
	case redrive.RunInterrupted:
		next = "redrivectl resume " + v.Run
	case redrive.RunPaused:
		next = promoteHint(v.Run)
	}
	return result{Object: v, Headers: []string{"what", "value"}, Rows: rows, After: []string{"", "next: " + next}}
}

// runner puts together what carries out plans of one queue.
func (a *app) runner(ctx context.Context, queueName string, st *store.Store) (*redrive.Runner, error) {
	if err := a.withinRegion(ctx, st, queueName); err != nil {
		return nil, err
	}
	q, err := a.queue(ctx, queueName)
	if err != nil {
		return nil, err
	}
	who, err := a.who()
	if err != nil {
		return nil, err
	}
	digests, err := a.digests(q)
	if err != nil {
		return nil, err
	}
	progress := a.progress()
	return &redrive.Runner{
		Broker: q.broker, Ledger: q.ledger, LedgerName: q.cfg.Ledger, Plans: st, Runs: st, Rollbacks: st, Archive: st, Assess: a.judge(q, st), Decode: q.decode,
		Current: digests, InForce: (&settingsInForce{app: a, queue: q.name}).now, Persons: a.personsOf(q),
		Owner: func(c classify.Class) string { return q.policy.Of(c, "").Owner },
		Who:   who, NewRunID: func() redrive.RunID { return redrive.RunID(randomHex()) },
		Now: a.now, Sleep: sleep, Ticks: ticks,
		LeaseTTL: leaseTTL, DeliveryLease: deliveryLease, EmptyTries: emptyTries, EmptyWait: emptyWait, Workers: batchesAtOnce(q.broker),
		Begun: a.boundRun,
		Progress: func(r redrive.Report) {
			progress.Update(term.Step{What: "running on " + queueName, Done: int64(r.Planned - r.Remaining), Total: int64(r.Planned)})
		},
		Notice: a.tellPause, Observing: a.tellGate(progress),
		Slowed:  a.tellSlowed,
		Orphans: a.printOrphans,
	}, nil
}

// batchesAtOnce is how many batches of a run are under way: many where each
// waits for a network, one where the queue is a file with one writer.
func batchesAtOnce(b broker.Broker) int {
	if b.Capabilities().SelectiveReceive {
		return 1
	}
	return sqsBatchesAtOnce
}

// printOrphans writes outcomes that the audit log could not take, so that they
// are not lost without a trace.
func (a *app) printOrphans(rs []audit.Record) {
	e := json.NewEncoder(a.stderr)
	for _, r := range rs {
		if err := e.Encode(r); err != nil {
			return // standard error is gone too; there is nowhere left to tell
		}
	}
}

func ticks(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// randomHex is 128 bits of randomness, as runs and nonces are named.
func randomHex() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err) // never returned: crypto/rand ends the program instead
	}
	return hex.EncodeToString(b)
}
