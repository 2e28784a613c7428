//go:build crashpoints

package cmd

import (
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/redrive"
)

// gatedPlan asks for a canary of one job of each class, which is observed for a
// second.
func (w *crashWorld) gatedPlan() string {
	w.t.Helper()
	p := w.approved("digests", "--rate", "1000/s", "--canary", "1", "--observe", "1s")
	if p.Canary != 2 {
		w.t.Fatalf("a canary of %d", p.Canary)
	}
	return p.Plan
}

func isAtGate(r runRecordView) bool {
	return isPausedRun(r) && r.Gate.Verdict == string(redrive.VerdictInconclusive)
}

// onlyCanary demands that nothing but the canary was sent.
func (w *crashWorld) onlyCanary() {
	w.t.Helper()
	if n := w.depth("digests"); n != 2 {
		w.t.Errorf("%d jobs were sent, the canary has 2", n)
	}
}

// TestCrashGate kills a run while it sends its canary, observes it, judges it and
// waits for a person, and resumes it. The canary is sent once, and nothing of the
// rest before the gate lets it.
func TestCrashGate(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	sending := []string{"run.4.queued", "run.5.published", "run.6.recorded"}
	observing := []string{"gate.1.sent", "gate.2.observing", "gate.3.judged", "gate.4.recorded"}
	for _, at := range append(sending, observing...) {
		t.Run(at+", then the worker works", func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			w.killed(at, "run", w.gatedPlan(), "--yes")
			if at == "run.4.queued" { // nothing is with the worker yet: its resume hands it over
				w.pass(10 * time.Minute)
				w.killed("gate.1.sent", "resume", w.onlyRun().Run, "--yes")
			}
			w.onlyCanary()
			w.drain()
			w.resumed(at)
			if g := w.onlyRun().Gate; g.Verdict != string(redrive.VerdictPass) {
				t.Errorf("gate: %+v", g)
			}
			w.drain()
			w.recovered()
		})
		t.Run(at+", then nobody works", func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			w.killed(at, "run", w.gatedPlan(), "--yes")
			w.pass(10 * time.Minute)
			id := w.onlyRun().Run
			w.ask(nil, exitGate, "resume", id, "--yes")
			if at != "run.5.published" { // published again: the claim makes the second copy harmless
				w.onlyCanary()
			}
			if r := w.onlyRun(); !isAtGate(r) || r.Lives {
				t.Errorf("run: %+v", r)
			}
			w.promoted(id)
		})
	}
}

// promoted lets the run go on at its gate, and demands that all is as it should be.
func (w *crashWorld) promoted(id string) {
	w.t.Helper()
	w.ask(nil, exitDone, "resume", id, "--promote", "--reason", "seen by hand", "--yes")
	r := w.onlyRun()
	r.adds(w.t)
	if r.State != string(redrive.RunFinished) || r.Redriven+r.Settled != len(crashPlanned) || r.Gate.Promoted == nil {
		w.t.Errorf("run: %+v", r)
	}
	w.drain()
	w.recovered()
}

// TestCrashGateWaits kills a run that waits at its gate, and one that was promoted
// there. The promotion stands for the next start.
func TestCrashGateWaits(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{"gate.5.paused", "gate.6.promoted"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			run := w.start([]string{"run", w.gatedPlan(), "--yes", "--wait"}, "REDRIVECTL_CRASH_AT="+at)
			id := w.awaited(isAtGate).Run
			if at == "gate.6.promoted" {
				w.ask(nil, exitDone, "resume", id, "--promote", "--reason", "seen by hand", "--yes")
			}
			if e := run.wait(); !e.killed {
				t.Fatalf("it was not killed: %s", e)
			}
			w.onlyCanary()
			w.pass(10 * time.Minute)
			if at == "gate.5.paused" {
				w.promoted(id)
				return
			}
			w.resumed(at)
			w.drain()
			w.recovered()
		})
	}
}

// TestCrashGateVerdict kills a resume once its verdict is on record: a pass lets the
// next one go on, a fail ends it with nothing more sent.
func TestCrashGateVerdict(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, verdict := range []redrive.Verdict{redrive.VerdictPass, redrive.VerdictFail} {
		t.Run(string(verdict), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			w.killed("gate.1.sent", "run", w.gatedPlan(), "--yes")
			if verdict == redrive.VerdictFail {
				w.provider.Set(providertest.Fault{On: providertest.OnSend, Kind: providertest.Refuse})
			}
			w.drain()
			w.pass(10 * time.Minute)
			id := w.onlyRun().Run
			w.killed("gate.4.recorded", "resume", id, "--yes")
			if g := w.onlyRun().Gate; g.Verdict != string(verdict) {
				t.Fatalf("gate: %+v", g)
			}
			if verdict == redrive.VerdictPass {
				w.resumed("gate.4.recorded")
				w.drain()
				w.recovered()
				return
			}
			w.pass(10 * time.Minute)
			w.ask(nil, exitGate, "resume", id, "--yes")
			r := w.onlyRun()
			r.adds(t)
			if r.State != string(redrive.RunAborted) || r.Redriven != 2 || r.Remaining != len(crashPlanned)-2 || w.depth("digests") != 0 {
				t.Errorf("%d sent, run: %+v", w.depth("digests"), r)
			}
			w.verified(0)
		})
	}
}
