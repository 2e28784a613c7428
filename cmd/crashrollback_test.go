//go:build crashpoints

package cmd

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/redrive"
)

// crashBack are the rows once what a run did is taken back: of one that had queued
// them, and of one that had only meant to.
var crashBack = map[bool][]string{
	true:  {"failed 2", "failed 1", "failed 2"},
	false: {"failed 2", "failed 2", "failed 2"},
}

// TestCrashRollback kills a rollback at each of its boundaries, of a run that was
// over or that had died at a boundary of its own. Typed again it finishes, whatever
// it had done: no worker claims anything, what was published comes back, nothing is
// lost, and another plan sends each job once.
func TestCrashRollback(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, run := range []string{"", "run.3.intended", "run.4.queued", "run.5.published", "run.5.recorded", "run.6.acknowledged"} {
		for _, at := range points(t, "rollback.") {
			t.Run(run+" then "+at, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", "--rate", "1000/s")
				if run == "" {
					w.ask(nil, exitDone, "run", p.Plan, "--yes")
				} else {
					w.killed(run, "run", p.Plan, "--yes")
					w.pass(10 * time.Minute)
				}
				id := w.onlyRun().Run
				w.killed(at, "rollback", id, "--reason", "wrong plan", "--yes")
				w.pass(10 * time.Minute)
				w.takenBack(id, run != "run.3.intended")
				w.recoveredFromRollback()
			})
		}
	}
}

// TestCrashRollbackSettles kills a rollback on its way through what the run left
// open. A resume sends nothing, and neither does the rollback typed again.
func TestCrashRollbackSettles(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{"resume.0.begun", "resume.1.closed", "resume.2.acknowledged", "run.7.ending"} {
		for _, again := range []string{"resume", "rollback"} {
			t.Run(at+" then "+again, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", "--rate", "1000/s")
				w.killed("run.5.published", "run", p.Plan, "--yes")
				w.pass(10 * time.Minute)
				id, sent := w.onlyRun().Run, w.depth("digests")
				w.killed(at, "rollback", id, "--reason", "wrong plan", "--yes")
				w.pass(10 * time.Minute)
				if again == "resume" {
					w.ask(nil, exitRefused, "resume", id, "--yes")
				}
				w.takenBack(id, true)
				if n := w.depth("digests"); n != sent {
					t.Errorf("%d were sent, then %d", sent, n)
				}
				w.recoveredFromRollback()
			})
		}
	}
}

// takenBack rolls back once more, and demands that all is taken back then.
func (w *crashWorld) takenBack(id string, queued bool) {
	w.t.Helper()
	var v rollbackView
	w.ask(&v, exitDone, "rollback", id, "--reason", "wrong plan", "--yes")
	if v.Back+v.Before != 3 || v.Settled != 2 || v.Claimed+v.Left+v.Unknown+v.NotBegun != 0 {
		w.t.Errorf("rollback: %+v", v)
	}
	r := w.onlyRun()
	r.adds(w.t)
	if !redrive.RunState(r.State).Ended() {
		w.t.Errorf("run: %+v", r)
	}
	if d := cmp.Diff(crashBack[queued], []string{w.state("failed"), w.state("queued"), w.state("fenced-no")}); d != "" {
		w.t.Errorf("ledger: %s", d)
	}
	w.verified(0)
}

// recoveredFromRollback lets the worker meet what was taken back, and sends all of
// it by another plan.
func (w *crashWorld) recoveredFromRollback() {
	w.t.Helper()
	w.drain()
	w.sentOnce("sent", "fenced-yes", "held")
	w.accounted(append(slices.Clone(crashPlanned), crashHeld))
	w.pass(10 * time.Minute)
	w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
	w.drain()
	w.sentOnce("failed", "queued", "sent", "fenced-no", "fenced-yes", "held")
	w.accounted(append(slices.Clone(crashPlanned), crashHeld))
	w.verified(0)
}
