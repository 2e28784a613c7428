package cmd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// gateOptions are what plan create takes about the first sample. What is not typed
// is the policy's.
type gateOptions struct {
	canary                                *int
	kind                                  string
	observe                               time.Duration
	minSuccess, maxReturned, maxThrottled *float64
	maxP95                                *time.Duration
}

func (o *gateOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.Var(parsedFlag[int]{&o.canary, classify.ParseCanary, strconv.Itoa, "N|auto"}, "canary",
		"so many redrives first, as a sample; auto: the smaller of 10 and 5 % (default: the policy's, else 0)")
	f.StringVar(&o.kind, "gate", "", "what judges the sample: ledger, or dlq-only: nothing came back (default: by what the queue has)")
	f.Var(lengthFlag{to: &o.observe}, "observe", "how long the gate waits for what becomes of the sample (default: the policy's, else 5m)")
	share := func(to **float64, name, usage string) {
		f.Var(parsedFlag[float64]{to, classify.ParseShare, classify.FormatShare, "share"}, name, usage)
	}
	share(&o.minSuccess, "min-success", "least share that must reach sent (default: the policy's, else 95%)")
	share(&o.maxReturned, "max-returned", "most that may come back to the dead-letter queue (default: the policy's, else 5%)")
	share(&o.maxThrottled, "max-throttled", "most that the provider may throttle (default: the policy's, else 10%)")
	f.Var(parsedFlag[time.Duration]{&o.maxP95, config.ParseDuration, config.FormatDuration, "duration"}, "max-p95",
		"longest time from publish to sent for 95 of 100; 0s: not asked for (default: the policy's)")
	must(c.RegisterFlagCompletionFunc("canary", cobra.FixedCompletions([]string{"auto", "0", "5", "10"}, cobra.ShellCompDirectiveNoFileComp)))
	must(c.RegisterFlagCompletionFunc("gate", cobra.FixedCompletions([]string{redrive.GateLedger, redrive.GateDLQOnly}, cobra.ShellCompDirectiveNoFileComp)))
}

// validate refuses a gate of a plan that sends nothing, and one that is no kind.
func (o *gateOptions) validate(action string) error {
	switch {
	case o.kind != "" && o.kind != redrive.GateLedger && o.kind != redrive.GateDLQOnly:
		return usagef("--gate %s: use ledger or dlq-only", o.kind)
	case action != "" && action != string(reconcile.Redrive) && (o.typed() || o.canary != nil && *o.canary != 0 || o.kind != ""):
		return usagef("--action %s sends nothing: leave out what is for a first sample (--canary, --gate, thresholds)", action)
	case o.kind != "" && o.canary != nil && *o.canary == 0:
		return usagef("--gate %s judges a sample, and --canary 0 has none", o.kind)
	}
	return nil
}

// typed reports that a threshold was given.
func (o *gateOptions) typed() bool {
	return o.observe > 0 || o.minSuccess != nil || o.maxReturned != nil || o.maxThrottled != nil || o.maxP95 != nil
}

// request is what the plan asks for, under what the policy asks for.
func (o *gateOptions) request(policy classify.Gate, action string) redrive.GateRequest {
	g := redrive.GateRequest{Policy: thresholdsOf(policy), PolicyCanary: policy.Canary, Canary: policy.Canary, Kind: o.kind}
	if action != "" && action != string(reconcile.Redrive) {
		return redrive.GateRequest{}
	}
	if o.canary != nil {
		g.Canary = *o.canary
	}
	if g.Canary == 0 && !o.typed() && !policy.Stated {
		return g
	}
	t := g.Policy
	if o.observe > 0 {
		t.ObserveSeconds = seconds(o.observe)
	}
	for to, from := range map[*float64]*float64{&t.MinSuccess: o.minSuccess, &t.MaxReturned: o.maxReturned, &t.MaxThrottled: o.maxThrottled} {
		if from != nil {
			*to = *from
		}
	}
	if o.maxP95 != nil {
		t.MaxP95Seconds = o.maxP95.Seconds()
	}
	g.Thresholds = &t
	return g
}

func thresholdsOf(g classify.Gate) redrive.Thresholds {
	return redrive.Thresholds{
		ObserveSeconds: seconds(g.Observe), MinSuccess: g.MinSuccess, MaxReturned: g.MaxReturned, MaxThrottled: g.MaxThrottled,
		MaxP95Seconds: g.MaxP95.Seconds(),
	}
}

// seconds rounds up, so that a wait is never shorter than what was typed.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// gateRows say in a table what a plan's first sample is and must meet.
func gateRows(p redrive.Plan) [][]string {
	var rows [][]string
	if p.Canary > 0 {
		rows = append(rows, []string{"canary", fmt.Sprintf("%d first, judged by %s", p.Canary, p.Gate)})
	}
	if t := p.Thresholds; t != nil {
		rows = append(rows, []string{"thresholds", thresholdText(*t)})
	}
	return rows
}

func thresholdText(t redrive.Thresholds) string {
	s := fmt.Sprintf("sent ≥ %s, returned ≤ %s, throttled ≤ %s", classify.FormatShare(t.MinSuccess), classify.FormatShare(t.MaxReturned), classify.FormatShare(t.MaxThrottled))
	if t.MaxP95Seconds > 0 {
		s += ", p95 ≤ " + span(t.MaxP95Seconds)
	}
	return s + ", observed for " + span(float64(t.ObserveSeconds))
}
