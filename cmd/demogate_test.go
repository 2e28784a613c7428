package cmd

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDemoFailingCanary: the gate stops the run, and nothing of the bulk was sent.
func TestDemoFailingCanary(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	stdout, stderr, code := demoOutput(t, "demo", "--dir", dir, "--jobs", "40", "--scenario", "failing-canary", "-o", "json")
	if code != exitGate {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	var s demoSummary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if s.Jobs != 40 || s.Held != 40 || s.Redriven != 0 || len(s.problems()) > 0 {
		t.Errorf("summary %+v", s)
	}
	for _, part := range []string{
		"the gate says fail: ", "The run ended with exit code 6. The canary of 5 was refused", "jobs were not touched",
	} {
		if !strings.Contains(stderr, part) {
			t.Errorf("the demo does not say %q:\n%s", part, stderr)
		}
	}
}

// TestDemoInconclusive: the run waits at its gate, and goes on when the command that
// the demo prints is typed at another terminal.
func TestDemoInconclusive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	c := demoCommand(t, "demo", "--dir", dir, "--jobs", "40", "--scenario", "inconclusive", "-o", "json")
	var stdout strings.Builder
	c.Stdout = &stdout
	told, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`^  REDRIVECTL_ACTOR=(\w+) redrivectl (resume \w+ --promote --reason ".*")$`)
	var all strings.Builder
	promoted := false
	lines := bufio.NewScanner(io.TeeReader(told, &all))
	for lines.Scan() {
		m := printed.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		second := exec.CommandContext(t.Context(), "sh", "-c", "redrivectl "+m[2]+" --yes")
		second.Dir, second.Env = dir, append(c.Env, "REDRIVECTL_ACTOR="+m[1])
		if out, err := second.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", m[0], err, out)
		}
		promoted = true
	}
	err = c.Wait()
	var s demoSummary
	if jerr := json.Unmarshal([]byte(stdout.String()), &s); err != nil || jerr != nil || !promoted {
		t.Fatalf("%v, %v, promoted %t\n%s\n%s", err, jerr, promoted, stdout.String(), all.String())
	}
	if s.Jobs != 40 || s.Redriven == 0 || s.Redriven+s.Held != 40 || len(s.problems()) > 0 {
		t.Errorf("summary %+v", s)
	}
	for _, part := range []string{"Nobody works, so 5 canaries have no outcome", "promoted by colleague", "colleague let it go on"} {
		if !strings.Contains(all.String(), part) {
			t.Errorf("the demo does not say %q:\n%s", part, all.String())
		}
	}
}
