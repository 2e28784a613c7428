//go:build crashpoints

package cmd

import (
	"slices"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// TestCrashBreaker kills a run whose circuit breaker has tripped, since nobody works
// on what it sends: before and after that is on record. Every start finds it stopped,
// the first at the latest once it has seen the same again, until a person decides.
func TestCrashBreaker(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for at, recorded := range map[string]bool{"breaker.1.tripped": false, "gate.4.recorded": true, "breaker.2.recorded": true} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "0.5/s", "--observe", "1s", "--min-success", "100%")
			w.killed(at, "run", p.Plan, "--yes")
			sent := w.depth("digests")
			w.pass(10 * time.Minute)
			id := w.onlyRun().Run
			for range 2 {
				var v runView
				w.ask(&v, exitGate, "resume", id, "--yes")
				if v.State != string(redrive.RunPaused) || v.Gate.Verdict != string(redrive.VerdictTripped) || v.Unknown != 0 || v.Remaining == 0 {
					t.Errorf("run: %+v", v)
				}
				if n := w.depth("digests"); n != sent && recorded {
					t.Errorf("%d jobs were sent after it tripped", n-sent)
				}
				sent, recorded = w.depth("digests"), true
			}
			w.ask(nil, exitDone, "abort", id, "--reason", "nobody works", "--yes")
			w.drain()
			w.pass(10 * time.Minute)
			w.ask(nil, exitDone, "reconcile", "digests", "--apply", "--yes")
			w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
			w.drain()
			w.sentOnce("failed", "queued", "sent", "fenced-no", "fenced-yes", "held")
			w.accounted(append(slices.Clone(crashPlanned), crashHeld))
			w.verified(0)
		})
	}
}
