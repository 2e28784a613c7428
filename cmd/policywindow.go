package cmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/spf13/cobra"
)

type policyWindowOptions struct {
	app       *app
	file      string
	queue     string
	retention time.Duration
}

func newPolicyWindowCmd(a *app) *cobra.Command {
	o := &policyWindowOptions{app: a}
	c := &cobra.Command{
		Use: "window", Short: "Show when each retry begins, and whether all of them fit",
		Long: `Show when each attempt of the workers' retry policy can begin, counted from the
claim of the first, and check that the whole budget fits the deadline and the
maximum age. With --queue, also that it fits the time for which the provider
honours the job key, and the source queue's retention. Without --policy and
--queue, the shipped policy is shown.

The wait after attempt n is d = min(cap, base*2^(n-1)), or with full jitter any
time from 0 to d. Earliest sums the shortest waits (0 with full jitter), expected
the mean ones (d/2), latest the longest (d) and, with --queue, the claim life of
each attempt before. Where something does not fit the exit code is 1, so that a
deployment can be stopped by it.`,
		Example: "  redrivectl policy window --policy policy.yaml\n  redrivectl policy window --queue digests -o json\n" +
			"  redrivectl policy window --queue digests --retention 96h",
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.file, "policy", "", "policy file")
	a.queueFlag(c, &o.queue, "the policy and the bounds of this queue")
	f.Var(lengthFlag{to: &o.retention}, "retention", "the source queue's retention, in place of asking its broker")
	return exits(c)
}

func (o *policyWindowOptions) validate() error {
	switch {
	case o.file != "" && o.queue != "":
		return usagef("--policy and --queue both name a policy: give one")
	case o.retention > 0 && o.queue == "":
		return usagef("--retention speaks of a queue: add --queue")
	}
	return nil
}

// windowBounds are what a retry policy has to fit, beside its own deadline.
type windowBounds struct {
	attempt   time.Duration // the longest that one may take; 0: not known
	maxPause  time.Duration
	keyLife   time.Duration // of the provider; 0: it honours no key
	retention time.Duration // of the source queue; 0: for ever, or not known
}

func (o *policyWindowOptions) run(ctx context.Context) error {
	policy, bounds, err := o.load(ctx)
	if err != nil {
		return err
	}
	v := windowOf(policy, bounds)
	v.Queue = text(o.queue)
	if err := o.app.print(v.result()); err != nil {
		return err
	}
	if bad := v.tooLong(); len(bad) > 0 {
		return fail(exitFailed, "lower retry.budget or retry.cap of "+policy.Name(),
			"%d attempts of policy %s do not fit: %s", v.Budget, policy.Name(), strings.Join(bad, ", "))
	}
	return nil
}

func (o *policyWindowOptions) load(ctx context.Context) (*classify.Policy, windowBounds, error) {
	if o.queue == "" {
		policy, err := policyOrShipped(o.file)
		return policy, windowBounds{}, err
	}
	name, qc, err := o.app.queueConfig(o.queue)
	if err != nil {
		return nil, windowBounds{}, err
	}
	policy, err := o.app.policyFor(name)
	if err != nil {
		return nil, windowBounds{}, err
	}
	b := windowBounds{attempt: qc.Worker.ClaimLife, maxPause: qc.Worker.MaxPause, retention: o.retention}
	if i := o.app.cfg.Providers[qc.Provider].Idempotency; i != nil {
		b.keyLife = i.Life
	}
	if o.retention == 0 {
		b.retention, err = o.app.sourceRetention(ctx, name, qc)
	}
	return policy, b, err
}

// sourceRetention is the shortest retention of the queues that dead-letter into
// this one: where a copy waits for its next attempt. 0: for ever.
func (a *app) sourceRetention(ctx context.Context, name string, qc config.Queue) (shortest time.Duration, err error) {
	sources := qc.Sources
	if len(sources) == 0 {
		b, err := a.openBroker(ctx, name, qc)
		if err != nil {
			return 0, err
		}
		d, err := described(ctx, b, name)
		if err != nil {
			return 0, err
		}
		sources = d.Sources
	}
	for _, source := range sources {
		qc.DeadLetter = source
		b, err := a.openBroker(ctx, name, qc)
		if err != nil {
			return 0, withHint(err, "redrivectl policy window --queue "+name+" --retention DURATION")
		}
		d, err := described(ctx, b, source)
		if err != nil {
			return 0, err
		}
		if d.Retention > 0 && (shortest == 0 || d.Retention < shortest) {
			shortest = d.Retention
		}
	}
	return shortest, nil
}

type windowView struct {
	Policy     string              `json:"policy"`
	Queue      *string             `json:"queue"`
	Base       float64             `json:"base_seconds"`
	Cap        float64             `json:"cap_seconds"`
	Budget     int                 `json:"budget"`
	FullJitter bool                `json:"full_jitter"`
	Deadline   *float64            `json:"deadline_seconds"`
	Attempt    *float64            `json:"attempt_seconds"`
	Attempts   []windowAttemptView `json:"attempts"`
	Window     float64             `json:"window_seconds"`
	Checks     []windowCheckView   `json:"checks"`
	Fits       bool                `json:"fits"`
}

type windowAttemptView struct {
	Attempt  int     `json:"attempt"`
	Delay    float64 `json:"delay_seconds"`
	Earliest float64 `json:"earliest_seconds"`
	Expected float64 `json:"expected_seconds"`
	Latest   float64 `json:"latest_seconds"`
}

type windowCheckView struct {
	Check string  `json:"check"`
	Needs float64 `json:"needs_seconds"`
	Limit float64 `json:"limit_seconds"`
	Fits  bool    `json:"fits"`
}

func windowOf(p *classify.Policy, b windowBounds) windowView {
	r := p.Retry()
	v := windowView{
		Policy: p.Name(), Base: r.Base.Seconds(), Cap: r.Cap.Seconds(), Budget: r.Budget, FullJitter: r.FullJitter,
		Deadline: secondsOf(r.Deadline), Attempt: secondsOf(b.attempt), Fits: true,
		Attempts: []windowAttemptView{}, Checks: []windowCheckView{},
	}
	var last classify.Start
	for _, last = range r.Window(b.attempt) {
		v.Attempts = append(v.Attempts, windowAttemptView{
			last.Attempt, last.Delay.Seconds(), last.Earliest.Seconds(), last.Expected.Seconds(), last.Latest.Seconds(),
		})
	}
	window := r.LongestOfAll(b.attempt)
	v.Window = window.Seconds()
	v.check("deadline", last.Latest, r.Deadline)
	v.check("max_age", window, shortestMaxAge(p))
	v.check("retention", window, b.retention)
	if b.keyLife > 0 {
		v.check("key_life", window, max(b.keyLife-b.maxPause, 1))
	}
	return v
}

// check holds what is needed against a limit; a limit of 0 is none.
func (v *windowView) check(name string, needs, limit time.Duration) {
	if limit == 0 {
		return
	}
	fits := needs <= limit
	v.Fits = v.Fits && fits
	v.Checks = append(v.Checks, windowCheckView{name, needs.Seconds(), limit.Seconds(), fits})
}

func (v *windowView) tooLong() []string {
	var names []string
	for _, c := range v.Checks {
		if !c.Fits {
			names = append(names, c.Check)
		}
	}
	return names
}

// shortestMaxAge is the shortest maximum age of the classes that are retried.
func shortestMaxAge(p *classify.Policy) (shortest time.Duration) {
	for _, c := range p.Classes() {
		r := p.Of(c, "")
		if r.Disposition == classify.Retry && r.MaxAge > 0 && (shortest == 0 || r.MaxAge < shortest) {
			shortest = r.MaxAge
		}
	}
	return shortest
}

func (v *windowView) result() result {
	r := result{Object: v, Headers: []string{"what", "wait", "earliest", "expected", "latest", "limit", "fits"}, Wrap: []int{}}
	for _, at := range v.Attempts {
		r.Elements = append(r.Elements, at)
		r.Rows = append(r.Rows, []string{
			"attempt " + strconv.Itoa(at.Attempt), span(at.Delay), span(at.Earliest), span(at.Expected), span(at.Latest), nothing, nothing,
		})
	}
	for _, c := range v.Checks {
		r.Rows = append(r.Rows, []string{c.Check, nothing, nothing, nothing, span(c.Needs), span(c.Limit), yesNo(c.Fits)})
	}
	r.After = []string{"", "waits and times count from the claim of the first attempt; the longest window is " + span(v.Window)}
	return r
}
