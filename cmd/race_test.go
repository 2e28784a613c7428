//go:build crashpoints

package cmd

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// crashProcess is a process under way.
type crashProcess struct {
	t             *testing.T
	cmd           *exec.Cmd
	out, problems bytes.Buffer
}

func (w *crashWorld) start(args []string, env ...string) *crashProcess {
	w.t.Helper()
	p := &crashProcess{t: w.t, cmd: w.command(args, env...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.problems
	p.cmd.WaitDelay = time.Minute
	crashMust(w.t, p.cmd.Start())
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test failed
	return p
}

func (p *crashProcess) wait() crashEnd {
	p.t.Helper()
	return crashEnded(p.t, p.cmd, p.cmd.Wait(), &p.out, &p.problems)
}

// suspended waits until the process has stopped itself.
func (p *crashProcess) suspended() {
	p.t.Helper()
	var s syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &s, syscall.WUNTRACED, nil); err != nil || !s.Stopped() {
		p.t.Fatalf("the process did not stop (%v): %s%s", err, &p.out, &p.problems)
	}
}

func (p *crashProcess) signal(s syscall.Signal) {
	p.t.Helper()
	crashMust(p.t, p.cmd.Process.Signal(s))
}

// taken is how a refusal names who was first and since when.
var taken = regexp.MustCompile(`(plan|queue) is taken by run [0-9a-f]+ of requester@\S+ since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// TestCrashRaceOfOnePlan: of several runs of one plan that start together one
// runs, and each other is refused and told who was first.
func TestCrashRaceOfOnePlan(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			w.race([]string{"run", p.Plan, "--yes"}, []string{"run", p.Plan, "--yes"}, []string{"run", p.Plan, "--yes"})
			w.onlyRun().adds(t)
			w.drain()
			w.recovered()
		})
	}
}

// race starts commands together and demands that one is done and the others are
// refused, with the name of who was first.
func (w *crashWorld) race(commands ...[]string) {
	w.t.Helper()
	var ps []*crashProcess
	for _, args := range commands {
		ps = append(ps, w.start(args))
	}
	var codes []int
	for _, p := range ps {
		e := p.wait()
		codes = append(codes, e.code)
		if e.code == exitRefused && !taken.Match(e.stderr) {
			w.t.Errorf("the refusal does not say who was first: %s", e)
		}
	}
	slices.Sort(codes)
	want := append([]int{exitDone}, slices.Repeat([]int{exitRefused}, len(ps)-1)...)
	if d := cmp.Diff(want, codes); d != "" {
		w.t.Errorf("exit codes: %s", d)
	}
}

// TestCrashRaceOfDrop: of a drop and a run that start together one is done, and
// the other is refused.
func TestCrashRaceOfDrop(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			drop, run := []string{"plan", "drop", p.Plan, "--reason", "wrong selection", "--yes"}, []string{"run", p.Plan, "--yes"}
			var dropping, running *crashProcess
			if i%2 == 0 {
				running = w.start(run)
				dropping = w.start(drop)
			} else {
				dropping, running = w.start(drop), w.start(run)
			}
			dropped, ran := dropping.wait(), running.wait()
			w.ask(&p, exitDone, "plan", "show", p.Plan)
			got := fmt.Sprint(dropped.code, ran.code, p.State, len(w.runs()))
			switch got {
			case fmt.Sprint(exitDone, exitRefused, redrive.PlanDropped, 0):
				if len(w.keys("digests")) > 0 {
					t.Error("a dropped plan was run")
				}
			case fmt.Sprint(exitRefused, exitDone, redrive.PlanFinished, 1):
				w.onlyRun().adds(t)
				w.drain()
				w.recovered()
			default:
				t.Errorf("%s\ndrop: %s\nrun: %s", got, dropped, ran)
			}
		})
	}
}

// TestCrashDropOfARunningPlan: a plan whose run has begun is not dropped, also
// while the run does nothing.
func TestCrashDropOfARunningPlan(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", "--rate", "1000/s")
	run := w.start([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_CRASH_AT=stop:run.0.begun")
	run.suspended()
	w.ask(nil, exitRefused, "plan", "drop", p.Plan, "--reason", "too late", "--yes")
	run.signal(syscall.SIGCONT)
	if e := run.wait(); e.code != exitDone {
		t.Error(e)
	}
	w.drain()
	w.recovered()
}

// TestCrashRaceOnOneQueue: while a run holds the queue, no other plan of it
// runs, and no second resume; afterwards it does.
func TestCrashRaceOnOneQueue(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	first := w.approved("digests", "--class", "throttled")
	second := w.approved("digests", "--class", "timeout")
	p := w.start([]string{"run", first.Plan, "--yes"}, "REDRIVECTL_CRASH_AT=stop:run.3.intended")
	p.suspended()
	if r := w.onlyRun(); r.State != "running" || r.Planned == 0 || r.Remaining != r.Planned {
		t.Errorf("a run that has closed nothing yet is shown as %+v", r)
	}
	for _, args := range [][]string{{"run", second.Plan, "--yes"}, {"resume", w.onlyRun().Run, "--yes"}, {"run", first.Plan, "--yes"}} {
		e := crashRun(t, w.command(args))
		if e.code != exitRefused || !taken.Match(e.stderr) || !bytes.Contains(e.stderr, []byte("try again after")) {
			t.Errorf("%v: want exit %d, who was first, and until when: %s", args, exitRefused, e)
		}
	}
	p.signal(syscall.SIGCONT)
	if e := p.wait(); e.code != exitDone {
		t.Errorf("first: %s", e)
	}
	w.ask(nil, exitDone, "run", second.Plan, "--yes")
	w.drain()
	w.recovered()
}

// TestCrashSuspended stops a runner at each boundary until its lease has ended
// and another has taken over, and then lets it go on: it finds its lease gone
// before it does anything.
func TestCrashSuspended(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{
		"run.0.begun", "run.1.received", "run.2.rechecked", "run.2.archived", "run.3.intended", "run.4.queued",
		"run.5.published", "run.5.recorded", "run.6.acknowledged", "run.6.recorded", "run.7.gone", "run.7.ending",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			first := w.start([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_CRASH_AT=stop:"+at)
			first.suspended()
			time.Sleep(leaseTTL + time.Second) // its lease ends by its own clock, too
			w.pass(5 * time.Minute)            // and the others need not wait for its deliveries
			w.resumedAfter(at)
			before := w.lookAround()
			first.signal(syscall.SIGCONT)
			e := first.wait()
			if e.code != exitRefused || !strings.Contains(string(e.stderr), "lease") {
				t.Errorf("want exit %d and the lease named: %s", exitRefused, e)
			}
			for _, r := range orphanLines(t, e.stderr) {
				if r.Step != audit.StepClose && at != "run.5.published" && at != "run.6.acknowledged" {
					t.Errorf("the runner did a step that it could not record any more: %s of %s", r.Step, r.JobKey)
				}
			}
			if d := cmp.Diff(before, w.lookAround()); d != "" {
				t.Errorf("the runner acted after its lease was taken over: %s", d)
			}
			w.drain()
			w.recovered()
		})
	}
}

// resumedAfter lets another process take over.
func (w *crashWorld) resumedAfter(at string) {
	w.t.Helper()
	code := exitDone
	if at == "run.6.acknowledged" {
		code = exitPartly
	}
	w.ask(nil, code, "resume", w.onlyRun().Run, "--yes")
	if r := w.onlyRun(); r.State != string(redrive.RunFinished) {
		w.t.Errorf("run: %+v", r.runView)
	}
}

// around is all that a runner can change.
type around struct {
	Records      int
	Last         audit.Record
	Dead, Source []string
	States       map[string]string
}

func (w *crashWorld) lookAround() around {
	w.t.Helper()
	rs := w.records()
	a := around{Records: len(rs), Last: rs[len(rs)-1], Dead: w.keys("digests-dlq"), Source: w.keys("digests"), States: map[string]string{}}
	for _, j := range crashPlanned {
		a.States[j.key] = w.state(j.key)
	}
	return a
}

// TestCrashClocksDiffer: another machine whose clock is ahead takes a run over
// while the first, by its own clock, still holds the lease. The first cannot
// write its intents any more, so it acts on nothing.
func TestCrashClocksDiffer(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, at := range []string{"run.0.begun", "run.1.received", "run.2.archived"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			first := w.start([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_CRASH_AT=stop:"+at)
			first.suspended()
			w.pass(5 * time.Minute)
			w.resumedAfter(at)
			before := w.lookAround()
			first.signal(syscall.SIGCONT)
			if e := first.wait(); e.code != exitRefused {
				t.Errorf("want exit %d: %s", exitRefused, e)
			}
			if d := cmp.Diff(before, w.lookAround()); d != "" {
				t.Errorf("the runner acted after its lease was taken over: %s", d)
			}
			w.drain()
			w.recovered()
		})
	}
}

// TestCrashInterrupted: Ctrl-C finishes the batch in flight, and resume does the
// rest.
func TestCrashInterrupted(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", "--rate", "2/s")
	run := w.start([]string{"run", p.Plan, "--yes", "-o", "json"}, "REDRIVECTL_CRASH_AT=stop:run.5.published")
	run.suspended()
	run.signal(syscall.SIGINT)
	run.signal(syscall.SIGCONT)
	if e := run.wait(); e.code != exitInterrupted {
		t.Errorf("want exit %d: %s", exitInterrupted, e)
	}
	r := w.onlyRun()
	r.adds(t)
	if r.State != string(redrive.RunInterrupted) || r.Redriven+r.Settled == 0 || r.Remaining == 0 || r.Unknown != 0 {
		t.Errorf("run: %+v", r.runView)
	}
	w.ask(nil, exitDone, "resume", r.Run, "--yes") // nothing is under a lease
	w.drain()
	w.recovered()
}
