package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tmux is a real terminal of its own, in which programs run and keys are typed.
type tmux struct {
	t      *testing.T
	socket string
}

// newTmux starts a terminal server that nobody else has. Without tmux the test is
// skipped, or fails where services are required.
func newTmux(t *testing.T) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("REDRIVECTL_REQUIRE_SERVICES") != "" {
			t.Fatal("tmux is needed for a real terminal, and is not installed")
		}
		t.Skip("tmux is not installed: no real terminal to test in")
	}
	m := &tmux{t: t, socket: filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", m.socket, "kill-server").Run() })
	return m
}

func (m *tmux) run(args ...string) string {
	m.t.Helper()
	c := exec.CommandContext(m.t.Context(), "tmux", append([]string{"-S", m.socket, "-f", "/dev/null"}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// window runs a shell command in a window of 80 by 24, as somebody in a world. The
// window stays when it has ended, with its exit code on the screen.
type window struct {
	*tmux
	name string
}

func (m *tmux) open(name, dir, person, command string) window {
	m.t.Helper()
	script := fmt.Sprintf("export HISTFILE=/dev/null REDRIVECTL_ACTOR=%s XDG_STATE_HOME=%s/state HOME=%s; unset NO_COLOR CI; cd %s; %s; echo; echo exit code $?; stty -a | grep -o '[-]*icanon'; exec cat",
		person, dir, dir, dir, command)
	m.run("new-session", "-d", "-s", name, "-x", "80", "-y", "24", "sh", "-c", script)
	return window{m, name}
}

func (w window) keys(keys ...string) {
	w.t.Helper()
	for _, k := range keys {
		w.run("send-keys", "-t", w.name, k)
	}
}

func (w window) text(text string) {
	w.t.Helper()
	w.run("send-keys", "-t", w.name, "-l", text)
}

// sees waits until the window shows what the expression finds, and returns its group.
func (w window) sees(pattern string) string {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(triagePatience); ; time.Sleep(100 * time.Millisecond) {
		shown := w.run("capture-pane", "-p", "-t", w.name)
		if m := re.FindStringSubmatch(shown); m != nil {
			return m[len(m)-1]
		}
		if time.Now().After(end) {
			w.t.Fatalf("%q is not in window %s:\n%s", pattern, w.name, shown)
		}
	}
}

// yes answers a question, once the screen takes an answer.
func (w window) yes(question string) {
	w.t.Helper()
	w.sees(`(?s)` + question + `.*\[y/n\]`)
	w.keys("y")
}

// TestTriageInATerminal: in a real terminal of 80 by 24, a class is filtered,
// reconciled, planned, approved by the second person from another terminal, run,
// paused, resumed and finished.
func TestTriageInATerminal(t *testing.T) {
	t.Parallel()
	m := newTmux(t)
	dir := triageWorld(t, "60")
	a := m.open("requester", dir, "requester", "redrivectl triage digests")
	b := m.open("approver", dir, "approver", "redrivectl triage")
	a.sees(`> throttled +\d+`)
	a.keys("Enter")
	a.sees("shown, sorted by oldest")
	a.keys("/")
	a.keys("C-u")
	a.text("class:timeout")
	a.keys("Enter")
	a.sees(`digests › class:timeout`)
	a.keys("c")
	a.yes("Fence and move ledger rows")
	a.sees("reconcile: done")
	a.keys("Escape")
	a.sees("shown, sorted by oldest")
	a.keys("n")
	a.sees(`items +\d+`)
	a.keys("Down", "Down", "Enter")
	a.sees("rate: most jobs")
	a.keys("C-u")
	a.text("1/s")
	a.keys("Enter")
	a.sees("1/s, about")
	a.keys("End", "Enter")
	a.sees("reason: why")
	a.text("the outage is over, ticket 4711")
	a.keys("Enter")
	items := a.sees(`items +(\d+)`)
	a.keys("F")
	a.yes("Freeze a plan")
	a.sees("waiting, 0 of 1 approvals")

	b.sees("> digests")
	b.keys("a")
	b.sees("1 waiting for your approval")
	b.keys("Enter")
	b.sees("it waits for your approval: A")
	b.keys("A")
	b.sees("how many items")
	b.text(items)
	b.keys("Enter")
	b.sees("why you agree")
	b.text("looked at it")
	b.keys("Enter")
	b.yes("You state that you agree")
	b.sees("approved; S carries it out")

	a.sees("approved; S carries it out")
	a.keys("S")
	a.yes("Run plan")
	a.sees(`running: [1-9]\d* of `)
	a.keys("p")
	a.sees("why the run is to pause")
	a.text("look first")
	a.keys("Enter")
	a.yes("Pause run")
	a.sees("(?m)^paused: ")
	a.keys("o")
	a.yes("go on[?] It was paused by requester: look first")
	a.sees("finished: " + items + " of " + items)
	b.keys("w")
	b.sees("> [0-9a-f]{12} .*finished")
	b.keys("q")
	b.sees("exit code 0")
	a.keys("q")
	a.sees("exit code 0")
	a.sees("(?m)^icanon") // the terminal takes lines again
	checkAuditOf(t, dir)
}

// TestTriageSuspends: Ctrl-Z stops the process with the terminal as it was, and fg
// brings the screen back.
func TestTriageSuspends(t *testing.T) {
	t.Parallel()
	m := newTmux(t)
	dir := triageWorld(t, "20")
	w := m.open("suspending", dir, "requester", "bash --norc -i")
	w.text("PS1='shell> '")
	w.keys("Enter")
	w.sees("(?m)^shell>$")
	w.text("redrivectl triage digests")
	w.keys("Enter")
	w.sees(`> \w+ +\d+`)
	w.keys("C-z")
	w.sees("Stopped")
	w.text("stty -a | grep -o '[-]*icanon'")
	w.keys("Enter")
	w.sees("(?m)^icanon")
	w.text("fg")
	w.keys("Enter")
	w.sees("back again")
	w.keys("q")
	w.sees("(?m)^shell>$")
	w.text("exit")
	w.keys("Enter")
	w.sees("exit code 0")
}
