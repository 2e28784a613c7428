package redrive_test

import (
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/redrive"
)

// canary asks for a first sample of n under the default thresholds.
func canary(n int) redrive.GateRequest {
	t := redrive.Thresholds{ObserveSeconds: 60, MinSuccess: 0.95, MaxReturned: 0.05, MaxThrottled: 0.1}
	return redrive.GateRequest{Canary: n, Thresholds: &t, Policy: t}
}

// A plan without thresholds has the bytes that it had before there were any.
func TestPlanWithoutGateKeepsItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	d, err := w.planner().Draft(w.ctx, w.request())
	w.must(err)
	if text := string(d.Bytes); strings.Contains(text, "thresholds") || !strings.Contains(text, `"canary":0`) || !strings.Contains(text, `"gate":"none"`) {
		t.Error(text)
	}
}

// What a plan asks for less than its policy needs another person.
func TestWeakerGateNeedsAnother(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*redrive.GateRequest)
		weaker bool
	}{
		"as the policy":         {func(*redrive.GateRequest) {}, false},
		"stricter":              {func(g *redrive.GateRequest) { g.Thresholds.MinSuccess, g.Thresholds.MaxP95Seconds, g.Canary = 1, 5, 2 }, false},
		"no canary, none asked": {func(g *redrive.GateRequest) { g.Canary, g.PolicyCanary = 0, 0 }, false},
		"no canary":             {func(g *redrive.GateRequest) { g.Canary = 0 }, true},
		"smaller canary":        {func(g *redrive.GateRequest) { g.PolicyCanary = 2 }, true},
		"success":               {func(g *redrive.GateRequest) { g.Thresholds.MinSuccess = 0.9 }, true},
		"returned":              {func(g *redrive.GateRequest) { g.Thresholds.MaxReturned = 0.06 }, true},
		"throttled":             {func(g *redrive.GateRequest) { g.Thresholds.MaxThrottled = 0.2 }, true},
		"observation":           {func(g *redrive.GateRequest) { g.Thresholds.ObserveSeconds = 59 }, true},
		"no latency asked":      {func(g *redrive.GateRequest) { g.Policy.MaxP95Seconds = 5 }, true},
		"longer latency":        {func(g *redrive.GateRequest) { g.Policy.MaxP95Seconds, g.Thresholds.MaxP95Seconds = 5, 6 }, true},
		"no look at the ledger": {func(g *redrive.GateRequest) { g.Kind = redrive.GateDLQOnly }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2", "k3")
			req := w.request()
			req.Gate = canary(1)
			req.Gate.PolicyCanary = 1
			tt.change(&req.Gate)
			d, err := w.planner().Draft(w.ctx, req)
			w.must(err)
			if got := strings.Contains(strings.Join(d.Plan.TierWhy, " "), "weaker_gate"); got != tt.weaker {
				t.Errorf("tier %s %v, weaker %t", d.Plan.Tier, d.Plan.TierWhy, tt.weaker)
			}
		})
	}
}
