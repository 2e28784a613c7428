package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCommandsAskTheTerminalNothing: a command that shows no screen asks the terminal
// nothing when it starts. One that does not answer, as here, would hold it up for
// seconds, and the answer of one that does is typed into the next prompt. Its
// environment is what it was given.
func TestCommandsAskTheTerminalNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	if _, stderr, code := demoOutput(t, "demo", "--outage", "--dir", dir, "--jobs", "20"); code != exitDone {
		t.Fatalf("demo: exit code %d: %s", code, stderr)
	}
	config := filepath.Join(dir, "redrivectl.yaml")
	for _, args := range [][]string{
		{"--help"}, {"version"}, {"list", "digests", "--config", config}, {"triage", "--help"}, {"plan", "list", "--config", config},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			t.Parallel()
			c := demoCommand(t, args...)
			c.Env = append(slices.DeleteFunc(c.Env, func(s string) bool { return strings.HasPrefix(s, "CI=") }),
				"TERM=xterm-256color", "NO_COLOR=1", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
			if out := onTerminal(t, c); len(out) == 0 || terminalQuery.Match(out) {
				t.Errorf("the terminal was given %q", out)
			}
		})
	}
}

// terminalQuery is what a terminal would answer: a request for a colour, for where the
// cursor is, or for what the terminal can do.
var terminalQuery = regexp.MustCompile(`\x1b(\]|P|\[[0-9;?>=$]*[cnpq])`)

// onTerminal runs a command at a terminal that answers nothing, and is what the
// terminal was given.
func onTerminal(t *testing.T, c *exec.Cmd) []byte {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Stdin, c.Stdout, c.Stderr = theirs, theirs, theirs
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(c.Start(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(ours)
	if err != nil && !errors.Is(err, syscall.EIO) { // its other side is closed
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", c, err, out)
	}
	return out
}
