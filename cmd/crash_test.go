//go:build crashpoints

package cmd

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// The jobs of the worlds, one for each way in which a job comes to a run.
var (
	crashFailed    = crashJob{key: "failed", state: ledger.Failed, copies: 1, reason: crashThrottled}
	crashQueued    = crashJob{key: "queued", state: ledger.Queued, copies: 1, reason: crashThrottled}
	crashSent      = crashJob{key: "sent", state: ledger.Sent, sent: true, copies: 1, reason: crashTimeout}
	crashFencedNo  = crashJob{key: "fenced-no", state: ledger.Sending, copies: 1, reason: crashTimeout}
	crashFencedYes = crashJob{key: "fenced-yes", state: ledger.Sending, sent: true, copies: 1, reason: crashTimeout}
	crashHeld      = crashJob{key: "held", state: ledger.Sending, sent: true, copies: 1, reason: crashTimeout}
	crashOrphan    = crashJob{key: "orphan", state: ledger.Sending, sent: true}
	crashControl   = crashJob{key: "control", state: ledger.Sent, sent: true}

	crashPlanned = []crashJob{crashFailed, crashQueued, crashSent, crashFencedNo, crashFencedYes}
)

// crashTemplate makes a world, closes it, and returns its folder.
func crashTemplate(t *testing.T, bin string, fill func(w *crashWorld)) string {
	t.Helper()
	dir := t.TempDir()
	w := openCrashWorld(t, bin, dir, -2*time.Hour)
	w.makeQueues()
	fill(w)
	w.close()
	return dir
}

// runWorld has jobs in every state that a plan can take, and one that it must
// not. A reconciliation that was killed before it moved the rows leaves them
// fenced, with their verdicts on record.
func runWorld(w *crashWorld) {
	for _, j := range crashPlanned {
		w.add(j)
	}
	w.pass(time.Hour)
	w.add(crashControl)
	w.pass(time.Hour)
	w.killed("reconcile.verdict.saved", "reconcile", "digests", "--apply", "--yes")
	w.ahead = -time.Hour
	w.add(crashHeld)
	for _, key := range []string{"p1", "p2", "p3"} {
		w.dead("plain", crashJob{key: key, reason: crashTimeout})
	}
}

// points are the boundaries whose names begin so.
func points(t *testing.T, prefix string) []string {
	t.Helper()
	ps := slices.DeleteFunc(crash.Names(), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(ps) == 0 {
		t.Fatalf("no crash point begins with %s", prefix)
	}
	return ps
}

// TestCrashPointsAllTried: every boundary belongs to one of the tests below,
// each of which demands that the program dies at every boundary it tries.
func TestCrashPointsAllTried(t *testing.T) {
	t.Parallel()
	for _, n := range crash.Names() {
		prefix, _, _ := strings.Cut(n, ".")
		if !slices.Contains([]string{"worker", "reconcile", "run", "control", "gate", "breaker", "resume", "rollback", "export", "import"}, prefix) {
			t.Errorf("no test kills the program at %s", n)
		}
	}
}

// TestCrashPointsInVersion: the build that can be killed says so.
func TestCrashPointsInVersion(t *testing.T) {
	bin := crashBinary(t)
	t.Parallel()
	var v versionView
	if err := json.Unmarshal(crashRun(t, exec.Command(bin, "version", "-o", "json")).stdout, &v); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(crash.Names(), v.CrashPoints); d != "" {
		t.Error(d)
	}
}

// TestCrashRun kills a run at each of its boundaries, and resumes it. The worker
// works either before the resume or only after it.
func TestCrashRun(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	cases := points(t, "run.")
	for _, p := range []string{"run.3.intended", "run.4.queued", "run.5.published", "run.6.acknowledged"} {
		cases = append(cases, p+"#2")
	}
	for _, at := range cases {
		for _, worker := range []string{"worker before resume", "worker after resume"} {
			t.Run(at+" "+worker, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				rate := "1000/s"
				if strings.HasSuffix(at, "#2") {
					rate = "3/s" // two batches
				}
				p := w.approved("digests", "--rate", rate)
				w.killed(at, "run", p.Plan, "--yes")
				if worker == "worker before resume" {
					w.drain()
				}
				w.resumed(at)
				w.drain()
				w.recovered()
			})
		}
	}
}

// TestCrashResume kills a run, and then its resume at each boundary that a
// resume passes, and resumes again.
func TestCrashResume(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	first := map[string][]string{
		"run.3.intended":  {"resume.", "run.1", "run.2", "run.4", "run.5", "run.6"},
		"run.4.queued":    {"run.3", "run.5"},
		"run.5.published": {"resume.", "run.5", "run.6"},
		"run.5.recorded":  {"resume.", "run.6", "run.7"},
	}
	for at, prefixes := range first {
		for _, prefix := range prefixes {
			for _, again := range points(t, prefix) {
				if again == "resume.2.stopped" {
					continue // TestCrashRevoked
				}
				t.Run(at+" then "+again, func(t *testing.T) {
					t.Parallel()
					w := copyCrashWorld(t, bin, dir)
					p := w.approved("digests", "--rate", "1000/s")
					w.killed(at, "run", p.Plan, "--yes")
					w.pass(10 * time.Minute)
					w.killed(again, "resume", w.onlyRun().Run, "--yes")
					w.resumed(again)
					w.drain()
					w.recovered()
				})
			}
		}
	}
}

// crashResumeCode is how a resume ends that is not simply done. What was
// acknowledged without a record is unknown, since its copies are gone; and after
// the end there is nothing to resume.
var crashResumeCode = map[string]int{
	"run.6.acknowledged": exitPartly, "run.6.acknowledged#2": exitPartly, "run.7.ended": exitRefused,
}

// resumed resumes the world's one run, which died at a boundary, once its leases
// have ended. Everything planned is done then.
func (w *crashWorld) resumed(at string) {
	w.t.Helper()
	w.pass(10 * time.Minute)
	code := crashResumeCode[at]
	w.ask(nil, code, "resume", w.onlyRun().Run, "--yes")
	r := w.onlyRun()
	r.adds(w.t)
	done := r.Redriven + r.Settled
	if code == exitPartly {
		done += r.Unknown
	}
	if r.State != string(redrive.RunFinished) || done != len(crashPlanned) {
		w.t.Errorf("run: %+v", r.runView)
	}
}

// recovered is how the world ends, wherever it was interrupted: each job has its
// effect once, the held one is where it was, and the log is whole.
func (w *crashWorld) recovered() {
	w.t.Helper()
	w.sentOnce("failed", "queued", "sent", "fenced-no", "fenced-yes", "held")
	if d := cmp.Diff([]string{"held"}, w.keys("digests-dlq")); d != "" {
		w.t.Errorf("dead-letter queue: %s", d)
	}
	states := map[string]string{}
	for _, j := range append(slices.Clone(crashPlanned), crashHeld) {
		states[j.key] = w.state(j.key)
	}
	want := map[string]string{
		"failed": "sent 2", "queued": "sent 1", "sent": "sent 1", "fenced-no": "sent 2", "fenced-yes": "reconciled 1", "held": "sending 1",
	}
	if d := cmp.Diff(want, states); d != "" {
		w.t.Errorf("ledger: %s", d)
	}
	if a := w.archived(crashPlanned...); !a["sent"] || !a["fenced-yes"] {
		w.t.Errorf("archived: %v", a)
	}
	w.accounted(append(slices.Clone(crashPlanned), crashHeld))
	w.verified(0)
}

// TestCrashRevoked: after a crash between intent and publish the plan is
// revoked. Its resume sends nothing, and dies once more on its way; the jobs are
// free for another plan, at the attempt at which they were left.
func TestCrashRevoked(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{"run.3.intended", "run.4.queued"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			w.killed(at, "run", p.Plan, "--yes")
			c := w.command([]string{"revoke", p.Plan, "--reason", "wrong plan"})
			c.Env = w.environment("approver")
			if e := crashRun(t, c); e.code != exitDone {
				t.Fatal(e)
			}
			w.pass(10 * time.Minute)
			w.killed("resume.2.stopped", "resume", w.onlyRun().Run, "--yes")
			w.pass(10 * time.Minute)
			w.ask(nil, exitRefused, "resume", w.onlyRun().Run, "--yes")
			if n := w.depth("digests"); n != 0 {
				t.Errorf("%d jobs were sent for a revoked plan", n)
			}
			w.pass(10 * time.Minute)
			w.ask(nil, exitDone, "reconcile", "digests", "--apply", "--yes")
			w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
			w.drain()
			w.sentOnce("failed", "queued", "sent", "fenced-no", "fenced-yes", "held")
			if d := cmp.Diff([]string{"sent 2", "sent 1"}, []string{w.state("failed"), w.state("queued")}); d != "" {
				t.Errorf("ledger: %s", d)
			}
			if n := w.depth("digests-dlq"); n != 0 {
				t.Errorf("%d dead copies are left", n)
			}
			w.accounted(append(slices.Clone(crashPlanned), crashHeld))
			w.verified(0)
		})
	}
}

// TestCrashWithoutLedger kills a run on a queue that has no ledger and whose
// effects are declared idempotent: nothing is lost, and what may have been
// published is published again.
func TestCrashWithoutLedger(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range points(t, "run.") {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("plain", "--rate", "1000/s")
			w.killed(at, "run", p.Plan, "--yes")
			w.pass(10 * time.Minute)
			w.ask(nil, crashResumeCode[at], "resume", w.onlyRun().Run, "--yes")
			w.onlyRun().adds(t)
			want := []string{"p1", "p2", "p3"}
			if at == "run.5.published" {
				want = []string{"p1", "p1", "p2", "p2", "p3", "p3"}
			}
			if d := cmp.Diff(want, w.keys("plain")); d != "" {
				t.Errorf("source: %s", d)
			}
			if n := w.depth("plain-dlq"); n != 0 {
				t.Errorf("%d dead copies are left", n)
			}
			w.verified(0)
		})
	}
}

// TestCrashReconcile kills a reconciliation at each of its boundaries, repeats
// it, and then redrives and settles by what it found.
func TestCrashReconcile(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, reconcileWorld)
	t.Parallel()
	for _, at := range points(t, "reconcile.") {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			reconcile := []string{"reconcile", "digests", "--apply", "--yes"}
			if at == "reconcile.open.closed" {
				w.killed("reconcile.move.ledger", reconcile...) // leaves intents to close
			}
			w.killed(at, reconcile...)
			w.ask(nil, exitDone, reconcile...)
			w.reconciled()
			w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
			w.drain()
			w.sentOnce("fenced-no", "fenced-yes", "orphan")
			w.accounted(crashReconciled)
			if n := w.depth("digests-dlq"); n != 0 {
				t.Errorf("%d dead copies are left", n)
			}
			w.verified(0)
		})
	}
}

// TestCrashWorker kills a worker, a process of its own, around its send and its
// acknowledgement. What it left is found out, and settled or sent.
func TestCrashWorker(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, func(w *crashWorld) {
		w.pass(2 * time.Hour)
		w.add(crashJob{key: "j", state: ledger.Queued})
		w.publish("digests", crashJob{key: "j"})
	})
	t.Parallel()
	for _, at := range points(t, "worker.") {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			w.killedWorker(at)
			w.pass(10 * time.Minute) // its claim and its lease are over
			w.drain()
			dead := w.keys("digests-dlq")
			w.pass(time.Minute)
			w.add(crashControl)
			w.pass(time.Minute)
			w.ask(nil, exitDone, "reconcile", "digests", "--apply", "--yes")
			if len(dead) > 0 {
				w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
				w.drain()
			}
			w.sentOnce("j")
			if got := len(dead) > 0; got != (at == "worker.before_send" || at == "worker.after_send") {
				t.Errorf("quarantined: %v", got)
			}
			w.accounted([]crashJob{{key: "j"}})
			w.verified(0)
		})
	}
}

// killedWorker runs the demo's worker process until it dies at a boundary.
func (w *crashWorld) killedWorker(at string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, w.bin, "demo", "worker", "--dir", w.dir, "--until-eof", "--workers", "1")
	c.Dir, c.Env = w.dir, w.environment("", "REDRIVECTL_CRASH_AT="+at)
	in, err := c.StdinPipe() // the worker ends with its standard input
	crashMust(w.t, err)
	defer in.Close()
	if e := crashRun(w.t, c); !e.killed || ctx.Err() != nil {
		w.t.Fatalf("%s was not reached: %s", at, e)
	}
}

// TestCrashFaithful: what a resume publishes again has the bytes and attributes
// that the application published.
func TestCrashFaithful(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", "--rate", "1000/s")
	w.killed("run.5.published", "run", p.Plan, "--yes")
	w.pass(10 * time.Minute)
	w.ask(nil, exitDone, "resume", w.onlyRun().Run, "--yes")
	_, err := w.queues.Queue("digests").Browse(t.Context(), 0, func(m broker.Message) error {
		want := crashJob{key: job.Decode(m, "digests").JobKey}.message()
		if d := cmp.Diff(want.Body, m.Body); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want.Attributes, m.Attributes); d != "" {
			t.Error(d)
		}
		return nil
	})
	crashMust(t, err)
}
