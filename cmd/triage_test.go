package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/tui"
)

// triageWorld makes the demo's world, in which jobs are quarantined, with its
// provider up again.
func triageWorld(t *testing.T, jobs string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "world")
	if stdout, stderr, code := demoOutput(t, "demo", "--outage", "--dir", dir, "--jobs", jobs, "--seed", "3"); code != exitDone {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	ownPort(t, dir)
	provider := demoCommand(t, "demo", "provider", "--dir", dir, "--until-eof")
	if _, err := provider.StdinPipe(); err != nil { // Wait closes it
		t.Fatal(err)
	}
	out, err := provider.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	provider.Stderr = provider.Stdout
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // its first line says that it listens
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = provider.Process.Kill()
		_ = provider.Wait() // it was killed
	})
	return dir
}

// seat is a person at a triage screen: keys go in, and each frame that is drawn can
// be read.
type seat struct {
	t    *testing.T
	keys io.Writer
	app  *app
	errs *bytes.Buffer
	out  *bytes.Buffer

	mu    sync.Mutex
	cond  *sync.Cond
	frame string
	ended bool
	err   error
}

const triagePatience = 2 * time.Minute // a loaded machine is no failure

// sitDown opens the screen as somebody in a world.
func sitDown(ctx context.Context, t *testing.T, dir, person string, o tui.Options) *seat {
	t.Helper()
	in, keys := io.Pipe()
	s := &seat{t: t, keys: keys, errs: &bytes.Buffer{}, out: &bytes.Buffer{}}
	s.cond = sync.NewCond(&s.mu)
	env := map[string]string{
		"REDRIVECTL_CONFIG": filepath.Join(dir, "redrivectl.yaml"), "REDRIVECTL_ACTOR": person, "HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, "state"),
	}
	s.app = newApp(Env{Stdin: in, Stdout: s.out, Stderr: s.errs, Getenv: func(n string) string { return env[n] }, Now: time.Now})
	d, err := newTriageDesk(s.app, o.Queue)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.Now, o.Input, o.Output, o.Frame = time.Now, in, io.Discard, s.draw
		err := tui.Show(ctx, d, o)
		err = d.end(err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended, s.err = true, errors.Join(err, s.app.close())
		s.cond.Broadcast()
	}()
	t.Cleanup(func() {
		_ = keys.Close()
		<-done
	})
	return s
}

func (s *seat) draw(frame string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame = frame
	s.cond.Broadcast()
}

// until waits until the frame, or the end of the screen, is as wanted.
func (s *seat) until(what string, ok func() bool) {
	s.t.Helper()
	late := false
	timer := time.AfterFunc(triagePatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.cond.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() {
		if late || s.ended {
			s.t.Fatalf("the screen never had %s (ended %v, %v):\n%s", what, s.ended, s.err, s.frame)
		}
		s.cond.Wait()
	}
}

// sees waits until a frame has what the expression finds, and returns its group.
func (s *seat) sees(pattern string) (found string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	s.until(strconv.Quote(pattern), func() bool {
		m := re.FindStringSubmatch(s.frame)
		if m != nil {
			found = m[len(m)-1]
		}
		return m != nil
	})
	return found
}

// yes answers a question, once the screen takes an answer.
func (s *seat) yes(question string) {
	s.t.Helper()
	s.sees(`(?s)` + question + `.*\[y/n\]`)
	s.types("y")
}

// types gives keys to the screen. Text is typed as it is; the others have names.
func (s *seat) types(keys ...string) {
	s.t.Helper()
	named := map[string]string{"enter": "\r", "esc": "\x1b", "end": "\x1b[F", "down": "\x1b[B", "space": " ", "clear": "\x15"}
	for _, k := range keys {
		if n, ok := named[k]; ok {
			k = n
		}
		if _, err := io.WriteString(s.keys, k); err != nil {
			s.t.Fatal(err)
		}
	}
}

// leaves quits, and is how the command would end. A run that was seen to finish may
// not have ended yet on this screen, which then asks: it is given the time.
func (s *seat) leaves() int {
	s.t.Helper()
	for {
		asked := false
		s.types("q")
		s.until("an end or a question", func() bool { asked = leavesRun.MatchString(s.frame); return asked || s.ended })
		if !asked {
			return s.ends()
		}
		s.types("n")
		s.until("an answer", func() bool { return !leavesRun.MatchString(s.frame) })
	}
}

// ends waits for the end of the screen, and is how the command would end.
func (s *seat) ends() int {
	s.t.Helper()
	s.until("an end", func() bool { return s.ended })
	return exitCode(s.err)
}

var leavesRun = regexp.MustCompile(`(?s)It would finish its batch in flight.*\[y/n\]`)

// TestTriageToAFinishedRun goes from what is quarantined to a finished run without
// leaving the screen; the approver sits at another one.
func TestTriageToAFinishedRun(t *testing.T) {
	t.Parallel()
	dir := triageWorld(t, "60")
	requester := sitDown(t.Context(), t, dir, "requester", tui.Options{Queue: "digests"})
	requester.sees(`  timeout +\d+`)
	requester.types("down")
	requester.sees(`> timeout +\d+`)

	requester.types("c")
	requester.yes(`Fence and move ledger rows of digests \(--class "timeout"\) by what`)
	requester.sees("reconcile: done")
	requester.sees(`\d+  accepted`)
	requester.types("esc")

	requester.types("n")
	requester.sees(`items +\d+`)
	requester.types("end", "enter")
	requester.sees("reason: why")
	requester.types("the outage is over, ticket 4711", "enter")
	items := requester.sees(`items +(\d+)`)
	requester.types("F")
	requester.yes(`Freeze a plan of ` + items + ` items on digests \(approval: one\)`)
	requester.sees("waiting, 0 of 1 approvals")

	approver := sitDown(t.Context(), t, dir, "approver", tui.Options{})
	approver.sees("> digests")
	approver.types("a")
	approver.sees("1 waiting for your approval")
	approver.types("enter")
	approver.sees("it waits for your approval: A")
	approver.types("A")
	approver.sees("how many items")
	approver.types("1", "enter")
	approver.sees("why you agree")
	approver.types("looked at it", "enter")
	approver.yes("1 items that you")
	approver.sees("it has " + items + " items, not 1")
	approver.types("A")
	approver.sees("how many items")
	approver.types(items, "enter")
	approver.sees("why you agree")
	approver.types("looked at it", "enter")
	approver.yes("You state that you agree")
	approver.sees("approved; S carries it out")
	if code := approver.leaves(); code != exitDone {
		t.Errorf("the approver's screen ends with %d: %s", code, approver.errs)
	}

	requester.sees("approved; S carries it out")
	requester.types("S")
	requester.yes(`Run plan [0-9a-f]{12} on digests: .* at most 50/s`)
	requester.sees("finished: " + items + " of " + items)
	requester.sees("timeout +.*redriven")
	if code := requester.leaves(); code != exitDone {
		t.Errorf("the requester's screen ends with %d: %s", code, requester.errs)
	}
	if out := requester.out.String(); !strings.Contains(out, "state\tfinished") || !strings.Contains(out, "planned\t"+items) {
		t.Errorf("after the screen was printed:\n%s", out)
	}
	checkAuditOf(t, dir)
}

// checkAuditOf verifies the world's audit log as anybody can.
func checkAuditOf(t *testing.T, dir string) {
	t.Helper()
	c := demoCommand(t, "audit", "verify", "--config", filepath.Join(dir, "redrivectl.yaml"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("audit verify: %v\n%s", err, out)
	}
}

// TestTriageInterruptsItsRun: leaving while the run is under way frees the queue, and
// ends as the run does.
func TestTriageInterruptsItsRun(t *testing.T) {
	t.Parallel()
	dir := triageWorld(t, "40")
	s := sitDown(t.Context(), t, dir, "requester", tui.Options{Queue: "digests"})
	s.sees(`throttled +\d+`)
	s.types("s") // by name
	s.types("end", "enter")
	s.sees(`shown, sorted by oldest`)
	s.types("x")
	s.sees("all jobs")
	s.types(":", `class == "throttled"`, "enter")
	s.sees("where class")
	s.types("n")
	s.sees(`items +\d+`)
	s.types("down", "down", "enter", "clear", "0.5/s", "enter")
	s.sees("0.5/s, about")
	s.types("end", "enter", "slowly", "enter")
	s.sees("reason +slowly")
	s.types("F")
	s.yes("Freeze a plan")
	plan := s.sees(`plan +([0-9a-f]{40,})`)
	approve := demoCommand(t, "approve", plan[:12], "--items", s.sees(`items +(\d+)`), "--reason", "seen", "--config", filepath.Join(dir, "redrivectl.yaml"))
	approve.Env = append(approve.Env, "REDRIVECTL_ACTOR=approver", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	if out, err := approve.CombinedOutput(); err != nil {
		t.Fatalf("approve: %v\n%s", err, out)
	}
	s.sees("approved; S carries it out")
	s.types("S")
	s.yes("Run plan")
	s.sees("running: [1-9]")
	s.types("q")
	s.yes("It would finish its batch in flight")
	if code := s.ends(); code != exitInterrupted {
		t.Errorf("the screen ends with %d", code)
	}
	if out := s.out.String(); !strings.Contains(out, "state\tinterrupted") {
		t.Errorf("after the screen was printed:\n%s", out)
	}
	// Nothing holds the queue: the run can be resumed at once, by anybody.
	abort := demoCommand(t, "abort", regexp.MustCompile(`run\t([0-9a-f]+)`).FindStringSubmatch(s.out.String())[1], "--reason", "enough", "--yes",
		"--config", filepath.Join(dir, "redrivectl.yaml"))
	abort.Env = append(abort.Env, "REDRIVECTL_ACTOR=approver", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	if out, err := abort.CombinedOutput(); err != nil {
		t.Errorf("abort: %v\n%s", err, out)
	}
}

// TestTriagePromotes: nobody sends, so the gate of a canary cannot tell, and the run
// waits on the screen until a person promotes it.
func TestTriagePromotes(t *testing.T) {
	t.Parallel()
	dir := triageWorld(t, "40")
	config := filepath.Join(dir, "redrivectl.yaml")
	c := demoCommand(t, "plan", "create", "digests", "--class", "throttled", "--max", "40", "--canary", "2", "--observe", "1s", "--reason", "x",
		"-o", "json", "--config", config)
	c.Env = append(c.Env, "REDRIVECTL_ACTOR=requester", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	out, err := c.Output()
	if err != nil {
		t.Fatalf("plan create: %v\n%s", err, out)
	}
	var plan planView
	if err := json.Unmarshal(out, &plan); err != nil {
		t.Fatal(err)
	}
	c = demoCommand(t, "approve", plan.Plan, "--items", strconv.Itoa(plan.ItemCount), "--reason", "seen", "--config", config)
	c.Env = append(c.Env, "REDRIVECTL_ACTOR=approver", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("approve: %v\n%s", err, out)
	}

	s := sitDown(t.Context(), t, dir, "requester", tui.Options{Queue: "digests"})
	s.sees(`throttled +\d+`)
	s.types("a")
	s.sees("approved")
	s.types("enter")
	s.sees("approved; S carries it out")
	s.types("S")
	s.yes("Run plan")
	s.sees("it waits for a person: P promotes it")
	s.sees(`canary +2 of 2 handed over: 0 sent, 0 failed, 2 without an outcome`)
	s.types("P")
	s.sees("why the run")
	s.types("looked at the inbox", "enter")
	s.yes("go on with all of its plan, though its gate is")
	s.sees(fmt.Sprintf("finished: %d of %d", plan.ItemCount, plan.ItemCount))
	s.sees("promoted by +requester at .*: looked at the inbox")
	if code := s.leaves(); code != exitDone {
		t.Errorf("the screen ends with %d: %s", code, s.errs)
	}
	checkAuditOf(t, dir)
}

// TestTriageOnATrippedRun: a run whose circuit breaker tripped waits for a person as
// one at its gate does, and is not said to be at its gate.
func TestTriageOnATrippedRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	if stdout, stderr, code := demoOutput(t, "demo", "--scenario", "breaker", "--dir", dir, "--jobs", "60", "--seed", "3"); code != exitGate {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	s := sitDown(t.Context(), t, dir, "approver", tui.Options{})
	s.sees("> digests")
	s.types("w")
	s.sees("paused by its circuit")
	s.types("enter")
	s.sees(`(?s)paused by its circuit breaker: .*it waits for a person: P promotes it, X\s+ends it.*circuit breaker +tripped: .*thresholds`)
	s.types("P")
	s.sees("why the run may go on all the same:")
	s.types("the credential is right again", "enter")
	s.sees(`(?s)go on with all of its plan, though its circuit\s+breaker\s+tripped: .*\[y/n\]`)
	s.types("n")
	s.sees("not confirmed; nothing was changed")
	if code := s.leaves(); code != exitDone {
		t.Errorf("the screen ends with %d: %s", code, s.errs)
	}
}
