//go:build crashpoints

package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests build the program once, with the tag crashpoints, and run it as
// an operator does: several processes, one after the other or at the same time,
// on files that they share. Only the world around it lives in the test: the
// provider, and the worker.

var crashProgram struct {
	sync.Mutex
	users int
	path  string
}

// crashBinary builds the program. Each test asks for it before it becomes
// parallel, so that the file is there until the last of them has ended.
func crashBinary(t *testing.T) string {
	t.Helper()
	p := &crashProgram
	p.Lock()
	defer p.Unlock()
	if p.users == 0 {
		dir, err := os.MkdirTemp("", "redrivectl-crash-")
		crashMust(t, err)
		p.path = filepath.Join(dir, "redrivectl")
		crashBuild(t, p.path, "-tags", "crashpoints")
	}
	p.users++
	t.Cleanup(func() {
		p.Lock()
		defer p.Unlock()
		if p.users--; p.users == 0 {
			crashMust(t, os.RemoveAll(filepath.Dir(p.path)))
		}
	})
	return p.path
}

func crashBuild(t *testing.T, path string, args ...string) {
	t.Helper()
	args = append(append([]string{"build", "-o", path}, args...), "github.com/redrivectl/redrivectl")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

func crashMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// environment is the whole of a process's environment: nothing of the test's
// own, so that its remembered checkpoints and its person are the world's.
func (w *crashWorld) environment(actor string, more ...string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{
		"HOME=" + w.dir, "XDG_STATE_HOME=" + w.path("home"), "PATH=" + os.Getenv("PATH"),
		"REDRIVECTL_ACTOR=" + actor, "REDRIVECTL_CLOCK=" + w.ahead.String(),
	}, more...)
}

// ended is how a process ended and what it said.
type crashEnd struct {
	code   int // -1: by a signal
	killed bool
	stdout []byte
	stderr []byte
}

func (e crashEnd) String() string {
	return fmt.Sprintf("exit %d, killed %v\n%s%s", e.code, e.killed, e.stdout, e.stderr)
}

// command is the program with arguments, in the world's folder.
func (w *crashWorld) command(args []string, env ...string) *exec.Cmd {
	c := exec.Command(w.bin, args...)
	c.Dir, c.Env = w.dir, w.environment("requester", env...)
	return c
}

func crashRun(t *testing.T, c *exec.Cmd) crashEnd {
	t.Helper()
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	c.WaitDelay = time.Minute
	return crashEnded(t, c, c.Run(), &out, &problems)
}

func crashEnded(t *testing.T, c *exec.Cmd, err error, out, problems *bytes.Buffer) crashEnd {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	return crashEnd{
		code: c.ProcessState.ExitCode(), killed: s.Signaled() && s.Signal() == syscall.SIGKILL,
		stdout: out.Bytes(), stderr: problems.Bytes(),
	}
}

// killed runs a command that is armed to die at a boundary, and demands that it
// does: the boundary was reached.
func (w *crashWorld) killed(at string, args ...string) {
	w.t.Helper()
	if e := crashRun(w.t, w.command(args, "REDRIVECTL_CRASH_AT="+at)); !e.killed {
		w.t.Fatalf("%s was not reached by %v: %s", at, args, e)
	}
}

// ask runs a command for its JSON and demands an exit code.
func (w *crashWorld) ask(v any, code int, args ...string) {
	w.t.Helper()
	e := crashRun(w.t, w.command(append(args, "-o", "json")))
	if e.code != code {
		w.t.Fatalf("redrivectl %s: want exit %d: %s", strings.Join(args, " "), code, e)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(e.stdout, v); err != nil {
		w.t.Fatalf("redrivectl %s: %v: %s", strings.Join(args, " "), err, e)
	}
}

// approved makes a plan of everything that may go, approved by another person.
func (w *crashWorld) approved(queue string, more ...string) planView {
	w.t.Helper()
	var p planView
	w.ask(&p, exitDone, append([]string{"plan", "create", queue, "--all", "--max", "1000", "--reason", "outage over"}, more...)...)
	if p.Needed > 0 {
		c := w.command([]string{"approve", p.Plan, "--items", fmt.Sprint(p.ItemCount), "--reason", "agreed"})
		c.Env = w.environment("approver")
		if e := crashRun(w.t, c); e.code != exitDone {
			w.t.Fatalf("approve: %s", e)
		}
	}
	return p
}

// onlyRun is the world's one run.
func (w *crashWorld) onlyRun() runRecordView {
	w.t.Helper()
	rs := w.runs()
	if len(rs) != 1 {
		w.t.Fatalf("%d runs", len(rs))
	}
	return rs[0]
}

func (w *crashWorld) runs() []runRecordView {
	w.t.Helper()
	var out struct{ Runs []runRecordView }
	w.ask(&out, exitDone, "runs", "list")
	return out.Runs
}
