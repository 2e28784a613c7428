//go:build crashpoints

package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// crashDropped are the jobs of runWorld that a plan which discards takes. What has
// had its effect is left out, and what may have had it is held.
var crashDropped = []crashJob{crashFailed, crashQueued, crashFencedNo}

// discardPoints are the boundaries that such a run passes: it publishes nothing.
func discardPoints(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(points(t, "run."), func(p string) bool { return p == "run.5.published" })
}

// TestCrashDiscard kills a run that discards at each of its boundaries, and
// resumes it. Wherever it dies, each job is in its queue or in the archive.
func TestCrashDiscard(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	cases := discardPoints(t)
	for _, p := range []string{"run.2.archived", "run.3.intended", "run.4.queued", "run.6.acknowledged"} {
		cases = append(cases, p+"#2")
	}
	for _, at := range cases {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			rate := "1000/s"
			if strings.HasSuffix(at, "#2") {
				rate = "2/s" // two batches
			}
			p := w.approved("digests", "--action", "discard", "--rate", rate)
			w.killed(at, "run", p.Plan, "--yes")
			w.accounted(crashDropped)
			w.pass(10 * time.Minute)
			w.ask(nil, crashResumeCode[at], "resume", w.onlyRun().Run, "--yes")
			w.discarded()
		})
	}
}

// TestCrashDiscardResume kills the resume as well.
func TestCrashDiscardResume(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	again := append(discardPoints(t), points(t, "resume.")...)
	for _, at := range []string{"run.3.intended", "run.4.queued"} {
		for _, again := range again {
			if again == "resume.2.stopped" || again == "run.0.begun" {
				continue // the first is of a plan that is not in force, the second of the first start
			}
			t.Run(at+" then "+again, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", "--action", "discard", "--rate", "1000/s")
				w.killed(at, "run", p.Plan, "--yes")
				w.pass(10 * time.Minute)
				w.killed(again, "resume", w.onlyRun().Run, "--yes")
				w.accounted(crashDropped)
				w.pass(10 * time.Minute)
				w.ask(nil, crashResumeCode[again], "resume", w.onlyRun().Run, "--yes")
				w.discarded()
			})
		}
	}
}

// TestCrashDiscardStoreFault breaks the store's file in the middle of a run that
// discards: what leaves the queue is in the archive.
func TestCrashDiscardStoreFault(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for n := 0; n < 200; n += 5 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--action", "discard", "--rate", "1000/s")
			e := crashRun(t, w.command([]string{"run", p.Plan, "--yes"}, fmt.Sprintf("REDRIVECTL_STORE_FAULT=full@%d", n)))
			if e.code != exitDone {
				w.closedFail(e)
			}
			w.accounted(crashDropped)
			w.pass(10 * time.Minute)
			switch {
			case len(w.runs()) == 0:
				w.ask(nil, exitDone, "run", p.Plan, "--yes")
			case w.onlyRun().State != string(redrive.RunFinished):
				if e := crashRun(t, w.command([]string{"resume", w.onlyRun().Run, "--yes"})); e.code != exitDone && e.code != exitPartly {
					t.Errorf("resume: %s", e)
				}
			}
			w.discarded()
		})
	}
}

// discarded is how the world ends: what was to be dropped is in the archive and
// nowhere else, closed in the ledger, and never sent.
func (w *crashWorld) discarded() {
	w.t.Helper()
	r := w.onlyRun()
	r.adds(w.t)
	if r.State != string(redrive.RunFinished) || r.Discarded+r.Unknown != len(crashDropped) {
		w.t.Errorf("run: %+v", r.runView)
	}
	kept := w.archived(crashDropped...)
	for _, j := range crashDropped {
		row := w.ledger.Get(w.t.Context(), []ledger.Key{crashKey(j.key)})[0].Row
		if !kept[j.key] || row.State != ledger.Failed || row.Retryable || row.Reason != "discarded" {
			w.t.Errorf("%s: archived %t, row %+v", j.key, kept[j.key], row)
		}
	}
	if d := cmp.Diff([]string{"fenced-yes", "held", "sent"}, w.keys("digests-dlq")); d != "" {
		w.t.Errorf("dead-letter queue: %s", d)
	}
	if n := w.depth("digests"); n != 0 {
		w.t.Errorf("%d jobs were published", n)
	}
	w.sentOnce("sent", "fenced-yes", "held")
	w.verified(0)
}
