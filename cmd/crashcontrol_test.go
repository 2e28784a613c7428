//go:build crashpoints

package cmd

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/redrive"
)

// awaited asks until the world's one run is as it should be.
func (w *crashWorld) awaited(is func(runRecordView) bool) runRecordView {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if rs := w.runs(); len(rs) == 1 && is(rs[0]) {
			return rs[0]
		}
	}
	w.t.Fatal("the run is not as it should be")
	return runRecordView{}
}

func begun(r runRecordView) bool { return r.Redriven+r.Settled > 0 }

func isPausedRun(r runRecordView) bool { return r.State == string(redrive.RunPaused) }

// TestCrashPaused kills a run when it has paused, and when it goes on again. Its
// lease ends, and resume takes it over.
func TestCrashPaused(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{"control.paused", "control.continued"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1/s")
			run := w.start([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_CRASH_AT="+at)
			id := w.awaited(begun).Run
			w.ask(nil, exitDone, "pause", id, "--reason", "look first")
			if at == "control.continued" {
				w.awaited(isPausedRun)
				w.ask(nil, exitDone, "resume", id, "--yes")
			}
			if e := run.wait(); !e.killed {
				t.Fatalf("it was not killed: %s", e)
			}
			r := w.onlyRun()
			r.adds(t)
			if r.Remaining == 0 || r.Unknown != 0 || isPausedRun(r) != (at == "control.paused") {
				t.Errorf("run: %+v", r)
			}
			w.resumed(at)
			w.drain()
			w.recovered()
		})
	}
}

// TestCrashAbort kills a run that is to be aborted: in the batch in flight, or
// before it has closed. Whoever asks again ends it, is killed on his way too, and
// nothing more is sent; the jobs are free for another plan.
func TestCrashAbort(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for at, later := range map[string][]string{
		"control.aborting":        {"", "resume.2.stopped", "run.7.ending", "run.7.ended"},
		"stop:run.4.queued":       {"", "resume.1.closed", "resume.2.stopped"},
		"stop:run.5.published":    {"", "resume.2.stopped"},
		"stop:run.6.acknowledged": {"", "resume.2.acknowledged"},
	} {
		for _, again := range later {
			t.Run(at+" then "+again, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", "--rate", "2/s")
				run := w.start([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_CRASH_AT="+at)
				id := w.abortUnderWay(run, at)
				sent := w.depth("digests")
				w.pass(10 * time.Minute)
				if again != "" {
					w.killed(again, "abort", id, "--reason", "wrong plan", "--yes")
					w.pass(10 * time.Minute)
				}
				w.abortedAgain(id, again)
				if n := w.depth("digests"); n != sent {
					t.Errorf("%d jobs were sent after the abort", n-sent)
				}
				w.drain() // what was handed over has its outcome before anybody plans again
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
}

// abortUnderWay asks the run to abort, and sees it die.
func (w *crashWorld) abortUnderWay(run *crashProcess, at string) (id string) {
	w.t.Helper()
	if at == "control.aborting" {
		id = w.awaited(begun).Run
		w.ask(nil, exitDone, "abort", id, "--reason", "wrong plan", "--yes")
	} else {
		run.suspended()
		id = w.onlyRun().Run
		w.ask(nil, exitDone, "abort", id, "--reason", "wrong plan", "--yes")
		run.signal(syscall.SIGKILL)
	}
	if e := run.wait(); !e.killed {
		w.t.Fatalf("it was not killed: %s", e)
	}
	return id
}

// abortedAgain aborts the run whose process died, unless that got to its end.
func (w *crashWorld) abortedAgain(id, again string) {
	w.t.Helper()
	code := exitDone
	if again == "run.7.ended" {
		code = exitRefused
	}
	e := crashRun(w.t, w.command([]string{"abort", id, "--reason", "wrong plan", "--yes", "-o", "json"}))
	r := w.onlyRun()
	if r.Unknown > 0 && code == exitDone {
		code = exitPartly
	}
	r.adds(w.t)
	if e.code != code || r.State != string(redrive.RunAborted) {
		w.t.Errorf("exit %d, want %d; %+v\n%s", e.code, code, r, e)
	}
}
