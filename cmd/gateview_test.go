package cmd

import (
	"testing"

	"github.com/redrivectl/redrivectl/redrive"
)

// A table says what a gate will judge by before it has judged.
func TestPendingGate(t *testing.T) {
	t.Parallel()
	limits := redrive.Thresholds{ObserveSeconds: 600, MinSuccess: 0.99}
	rows := newGateView(redrive.GateState{Exists: true, Kind: redrive.GateLedger, Thresholds: &limits}).rows()
	if len(rows) != 2 || rows[0][1] != "no verdict yet" || rows[1][1] != thresholdText(limits) {
		t.Errorf("%q", rows)
	}
	if rows := newGateView(redrive.GateState{}).rows(); rows != nil {
		t.Errorf("a plan without a canary: %q", rows)
	}
}
