package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/spf13/cobra"
)

type doctorOptions struct {
	app      *app
	queues   []string
	provider string
	strict   bool
}

func newDoctorCmd(a *app) *cobra.Command {
	o := &doctorOptions{app: a}
	c := &cobra.Command{
		Use:   "doctor [QUEUE...]",
		Short: "Examine what a recovery rests on, before you need it",
		Long: `Examine what a recovery will rest on: the dead-letter queue and its sources, the
ledger, the provider's look-up, the audit log. Nothing is changed, no message is
read, and nothing is sent.

Without QUEUE all configured queues are examined. A finding is an error when a
redrive could not work or would not be safe, and a warning when it may be meant. An
error ends with exit code 1.`,
		Example: "  redrivectl doctor\n  redrivectl doctor orders-dlq --strict\n  redrivectl doctor --provider mail -o json",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: a.completeQueues,
		RunE: func(c *cobra.Command, args []string) error {
			o.queues = args
			return o.run(c.Context())
		},
	}
	c.Flags().StringVar(&o.provider, "provider", "", "examine this provider alone")
	c.Flags().BoolVar(&o.strict, "strict", false, "count warnings as errors, for a deployment gate")
	return exits(c, exitInterrupted)
}

// findings gathers what examinations find, each about one part.
type findings struct {
	views []partFinding
	bad   bool
	doubt bool
}

// partFinding is a finding with the part that it is about.
type partFinding struct {
	Part     string `json:"part"` // "queue orders", "ledger app", …
	Severity string `json:"severity"`
	What     string `json:"what"`
	Detail   string `json:"detail"`
}

func (f *findings) add(part string, one broker.Finding) {
	f.views = append(f.views, partFinding{part, string(one.Severity), one.What, term.Mask(one.Detail)})
	f.bad = f.bad || one.Severity == broker.Bad
	f.doubt = f.doubt || one.Severity == broker.Doubtful
}

func (f *findings) say(part string, s broker.Severity, what, format string, args ...any) {
	f.add(part, broker.Finding{Severity: s, What: what, Detail: fmt.Sprintf(format, args...)})
}

func (o *doctorOptions) run(ctx context.Context) error {
	cfg, err := o.app.config()
	if err != nil {
		return err
	}
	f := &findings{}
	switch {
	case o.provider != "" && len(o.queues) > 0:
		return usagef("give QUEUE or --provider, not both")
	case o.provider != "":
		if _, ok := cfg.Providers[o.provider]; !ok {
			return fail(exitFailed, "", "provider %s is not configured", o.provider)
		}
		o.examineProvider(ctx, f, o.provider)
	default:
		if o.queues, err = o.app.queueNames(o.queues); err != nil {
			return err
		}
		if err := o.examineAll(ctx, f); err != nil {
			return err
		}
	}
	return o.print(f)
}

// examineAll looks at each queue, and once at each ledger and provider that they
// name, and at the store.
func (o *doctorOptions) examineAll(ctx context.Context, f *findings) error {
	ledgers, providers := map[string]bool{}, map[string]bool{}
	for _, arg := range o.queues {
		name, qc, err := o.app.queueConfig(arg)
		if err != nil {
			return err
		}
		o.examineQueue(ctx, f, name)
		ledgers[qc.Ledger], providers[qc.Provider] = true, true
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ledgers)) {
		if name != "" {
			o.examineLedger(ctx, f, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if name != "" {
			o.examineProvider(ctx, f, name)
		}
	}
	o.examineStore(ctx, f)
	return ctx.Err()
}

func (o *doctorOptions) examineQueue(ctx context.Context, f *findings, name string) {
	part := "queue " + name
	q, err := o.app.queue(ctx, name)
	if err != nil {
		f.say(part, broker.Bad, "open", "%v", err)
		return
	}
	d, err := q.broker.Describe(ctx)
	if err != nil {
		f.say(part, broker.Bad, "describe", "%v", err)
		return
	}
	f.say(part, broker.Good, "depth", "%d visible, %d in flight, %d delayed (%s)", d.Depth.Visible, d.Depth.InFlight, d.Depth.Delayed, countedHow(d.Depth))
	o.examineAge(ctx, f, part, name, d)
	if q.ledger == nil && q.provider == nil && q.cfg.Effects == nil {
		f.say(part, broker.Doubtful, "proof", "neither ledger, provider nor declared effects: without --effects nothing of unknown effect can be redriven")
	}
	e, ok := q.broker.(broker.Examiner)
	if !ok {
		return
	}
	found, err := e.Examine(ctx, broker.Worker{ClaimLife: q.cfg.Worker.ClaimLife, MaxPause: q.cfg.Worker.MaxPause})
	if err != nil {
		f.say(part, broker.Bad, "examine", "%v", err)
	}
	for _, one := range found {
		f.add(part, one)
	}
}

// examineAge says when the oldest copy will be lost: by what the broker tells, or
// by the last look that the store keeps.
func (o *doctorOptions) examineAge(ctx context.Context, f *findings, part, name string, d broker.Description) {
	oldest, from := d.OldestAt, "now"
	if st, err := o.app.storeIfAny(ctx); oldest.IsZero() && err == nil && st != nil {
		c, found, err := st.LatestCapture(ctx, name)
		if err == nil && found {
			from = "the look at " + utc(c.CapturedAt)
			for _, j := range c.Jobs {
				if at := j.Message.SentAt; !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
					oldest = at
				}
			}
		}
	}
	switch left := oldest.Add(d.Retention).Sub(o.app.now()); {
	case d.Retention == 0:
		f.say(part, broker.Good, "retention", "messages are kept until they are taken off")
	case oldest.IsZero() && d.Depth.Total() == 0:
		f.say(part, broker.Good, "retention", "messages are kept for %s; there is none", d.Retention)
	case oldest.IsZero():
		f.say(part, broker.Doubtful, "retention", "messages are lost after %s, and the age of the oldest is not known: redrivectl list %s", d.Retention, name)
	case left < d.Retention/4:
		f.say(part, broker.Bad, "retention", "the oldest message (of %s) is lost in %s", from, left.Round(time.Minute))
	default:
		f.say(part, broker.Good, "retention", "the oldest message (of %s) is lost in %s", from, left.Round(time.Minute))
	}
}

func (o *doctorOptions) examineLedger(ctx context.Context, f *findings, name string) {
	part := "ledger " + name
	l, err := o.app.openLedger(ctx, name, "")
	if err != nil {
		f.say(part, broker.Bad, "open", "%v", err)
		return
	}
	found, err := l.Check(ctx)
	if err != nil {
		f.say(part, broker.Bad, "check", "%v", err)
	}
	for _, one := range found {
		f.add(part, ledgerFinding(one))
	}
	if len(found) == 0 && err == nil {
		f.say(part, broker.Good, "check", "it is what the config says")
	}
}

func ledgerFinding(x sqlledger.Finding) broker.Finding {
	s := broker.Doubtful
	if x.Severity == "error" {
		s = broker.Bad
	}
	return broker.Finding{Severity: s, What: x.What, Detail: x.Detail}
}

// examineProvider asks for a job that nobody ever sent: the answer must be a
// plain no.
func (o *doctorOptions) examineProvider(ctx context.Context, f *findings, name string) {
	part := "provider " + name
	p, err := o.app.openProvider(name)
	if err != nil {
		f.say(part, broker.Bad, "open", "%v", err)
		return
	}
	now := o.app.now()
	a := p.Lookup(ctx, []provider.Send{{JobKey: "redrivectl-doctor-" + randomHex(), From: now.Add(-time.Hour), To: now}})[0]
	caps := p.Capabilities()
	switch {
	case a.Err != nil:
		f.say(part, broker.Bad, "look_up", "%v", a.Err)
		return
	case len(a.Hits) > 0:
		f.say(part, broker.Bad, "look_up", "it found a job that was never sent: the contract's found condition is too wide")
	case !a.NotFound && caps.Can(provider.ProvesNotAccepted):
		f.say(part, broker.Bad, "look_up", "its answer for a job that was never sent is not what the contract calls not found")
	default:
		f.say(part, broker.Good, "look_up", "a job that was never sent is not found")
	}
	if margin := o.app.cfg.Reconcile.ClockMargin; a.ClockOffset.Abs() > margin {
		f.say(part, broker.Bad, "clock", "its clock is %s off, more than reconcile.clock_margin of %s", a.ClockOffset, margin)
	} else {
		f.say(part, broker.Good, "clock", "its clock is %s off", a.ClockOffset)
	}
}

func (o *doctorOptions) examineStore(ctx context.Context, f *findings) {
	st, err := o.app.storeToRead(ctx)
	switch {
	case err != nil:
		f.say("store", broker.Bad, "open", "%v", err)
		return
	case st == nil:
		f.say("store", broker.Good, "audit", "there is none yet; the first plan makes it")
		return
	}
	r, err := st.VerifyAudit(ctx)
	switch {
	case err != nil:
		f.say("store", broker.Bad, "audit", "%v", err)
	case !r.OK:
		f.say("store", broker.Bad, "audit", "the audit log does not verify: redrivectl audit verify")
	default:
		f.say("store", broker.Good, "audit", "%d records verify", r.Records)
	}
}

func (o *doctorOptions) print(f *findings) error {
	failed := f.bad || o.strict && f.doubt
	r := result{
		Object:  map[string]any{"ok": !failed, "findings": f.views},
		Headers: []string{"severity", "part", "what", "detail"},
	}
	for _, v := range f.views {
		r.Elements = append(r.Elements, v)
		r.Rows = append(r.Rows, []string{v.Severity, v.Part, v.What, v.Detail})
	}
	if err := o.app.print(r); err != nil {
		return err
	}
	if failed {
		return silently(exitFailed)
	}
	return nil
}
