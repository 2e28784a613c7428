package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// demoCommand runs the real entry point in a process of its own, with a home of
// its own.
func demoCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	c := exec.CommandContext(t.Context(), "redrivectl", args...)
	c.Dir = home
	c.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "REDRIVECTL_") || strings.HasPrefix(s, "XDG_") || strings.HasPrefix(s, "HOME=")
	}), "HOME="+home)
	return c
}

// demoOutput is a finished command's two streams and exit code.
func demoOutput(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := demoCommand(t, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	stdout, stderr, code := demoOutput(t, "demo", "--dir", dir, "--jobs", "40", "--seed", "3", "-o", "json")
	if code != exitDone {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	var s demoSummary
	d := json.NewDecoder(strings.NewReader(stdout))
	if err := d.Decode(&s); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("standard output holds more than the summary:\n%s", stdout)
	}
	if s.Jobs != 40 || len(s.problems()) > 0 || s.Redriven == 0 || s.Settled == 0 || s.Discarded == 0 || s.AuditRecords == 0 || s.Dir != dir || s.Seed != "3" {
		t.Errorf("summary %+v", s)
	}
	checkDemoHeld(t, s)
	for _, line := range []string{
		"$ REDRIVECTL_ACTOR=requester redrivectl list digests", "$ REDRIVECTL_ACTOR=approver redrivectl approve",
		"$ REDRIVECTL_ACTOR=requester redrivectl run", "--fixed \"credential rotated\"",
	} {
		if !strings.Contains(stderr, line) {
			t.Errorf("the demo does not show %q", line)
		}
	}
	checkDemoFolder(t, dir, s)
}

// What processes have complained of since one began is said with its end.
func TestDemoComplaints(t *testing.T) {
	t.Parallel()
	p := &demoProcess{log: filepath.Join(t.TempDir(), demoProcessLog)}
	before := "redrivectl: of another\n"
	if err := os.WriteFile(p.log, []byte(before+"worker 1: noted\nredrivectl: port 1 is taken\nhint: take another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.said = int64(len(before))
	if got := p.complaints(); got != "; port 1 is taken" {
		t.Errorf("complaints %q", got)
	}
}

// TestDemoOutage: the recovery is left to whoever asked for it.
func TestDemoOutage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	stdout, stderr, code := demoOutput(t, "demo", "--dir", dir, "--jobs", "20", "--outage", "-o", "json")
	var s demoSummary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || code != exitDone {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, stdout, stderr)
	}
	if s.Jobs != 20 || s.Held != 20 || len(s.HeldJobs) != 20 || s.AuditRecords != 0 || len(s.problems()) > 0 {
		t.Errorf("summary %+v", s)
	}
	if !strings.Contains(stderr, "redrivectl reconcile digests --apply") {
		t.Errorf("no word of what comes next:\n%s", stderr)
	}
	checkGuardedPort(t, dir)
}

// checkGuardedPort: the provider of a demo that has ended is not started on a port that
// another demo has taken since, though nobody may listen there right now.
func checkGuardedPort(t *testing.T, dir string) {
	t.Helper()
	port := ownPort(t, dir)
	c := demoCommand(t, "demo", "provider", "--dir", dir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop() // it would serve for ever
	_ = c.Wait()                                                              // the code is looked at
	if code := c.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(stderr.String(), "another demo has port "+port) {
		t.Errorf("a provider beside another demo exits %d: %s", code, &stderr)
	}
}

// checkDemoHeld: what is safe to send was sent, and what is left says what it
// needs.
func checkDemoHeld(t *testing.T, s demoSummary) {
	t.Helper()
	if len(s.HeldJobs) != s.Held {
		t.Errorf("%d held jobs are listed, %d counted", len(s.HeldJobs), s.Held)
	}
	classes := map[string]bool{}
	for _, h := range s.HeldJobs {
		classes[h.Class] = true
		if h.Needs == "" || h.MessageID == "" {
			t.Errorf("held job %+v does not say what it needs", h)
		}
	}
	for class, want := range map[string]bool{
		"invalid_destination": true, "rejected_payload": true, "schema_mismatch": true, "malformed": true, "not_supported": true,
		"unknown": true, "stale": false, "expired": false,
		"throttled": false, "unavailable": false, "server_error": false, "timeout": false, "auth": false,
	} {
		if classes[class] != want {
			t.Errorf("held jobs of class %s: %v, want %v", class, classes[class], want)
		}
	}
}

// checkDemoFolder tries commands by hand in the folder that was left.
func checkDemoFolder(t *testing.T, dir string, s demoSummary) {
	t.Helper()
	stdout, stderr, code := demoOutput(t, "list", demoQueue, "--config", filepath.Join(dir, "redrivectl.yaml"), "-o", "json")
	var v struct {
		Total    int  `json:"total"`
		Complete bool `json:"complete"`
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitDone || v.Total != s.Held || !v.Complete {
		t.Errorf("list exits %d (%v):\n%s\n%s", code, err, stdout, stderr)
	}
	if _, stderr, code := demoOutput(t, "demo", "--dir", dir); code != exitRefused || !strings.Contains(stderr, "not empty") {
		t.Errorf("a second demo in the same folder exits %d: %s", code, stderr)
	}
	base, stop := startDemoProvider(t, dir)
	resp, err := http.Get(base + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var log struct{ Entries []struct{ Accepted bool } }
	if err := json.NewDecoder(resp.Body).Decode(&log); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range log.Entries {
		if e.Accepted {
			n++
		}
	}
	if n < s.Redriven+s.Settled {
		t.Errorf("the provider remembers %d sends of at least %d", n, s.Redriven+s.Settled)
	}
	stop()
	if !refused(base) {
		t.Errorf("something still listens at %s", base)
	}
}

func startDemoProvider(t *testing.T, dir string) (base string, stop func()) {
	t.Helper()
	ownPort(t, dir)
	c := demoCommand(t, "demo", "provider", "--dir", dir, "--until-eof")
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, demoListening)), func() {
		if err := errors.Join(stdin.Close(), c.Wait()); err != nil {
			t.Errorf("provider: %v", err)
		}
	}
}

// ownPort gives the provider of an ended demo a port that no other demo takes while
// the test lasts: one may have taken its own meanwhile.
func ownPort(t *testing.T, dir string) string {
	t.Helper()
	port, guard, err := demoPort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = guard.Close() })
	file := filepath.Join(dir, "redrivectl.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	base := regexp.MustCompile(`(base_url: http://127\.0\.0\.1:)[0-9]+`)
	if len(base.FindAll(text, -1)) != 1 {
		t.Fatalf("not one provider in\n%s", text)
	}
	if err := os.WriteFile(file, base.ReplaceAll(text, fmt.Appendf(nil, "${1}%d", port)), 0o600); err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

func refused(base string) bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err == nil {
		_ = c.Close()
	}
	return err != nil
}

// An interrupt ends the demo and every process that it has started.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no process can be interrupted by another there")
	}
	dir := filepath.Join(t.TempDir(), "world")
	c := demoCommand(t, "demo", "--dir", dir)
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Then it misbehaves") {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait() // the exit code says how it ended
	if got := c.ProcessState.ExitCode(); got != exitInterrupted {
		t.Errorf("exit code %d, want %d", got, exitInterrupted)
	}
	config, err := os.ReadFile(filepath.Join(dir, "redrivectl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var port int
	_, after, _ := strings.Cut(string(config), "base_url: http://127.0.0.1:")
	if _, err := fmt.Sscanf(after, "%d", &port); err != nil {
		t.Fatal(err)
	}
	if !refused(fmt.Sprintf("http://127.0.0.1:%d", port)) {
		t.Error("the provider outlives the demo")
	}
}

func TestDemoUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"demo", "bogus"}, exitUsage},
		{[]string{"demo", "--jobs", "3"}, exitUsage},
		{[]string{"demo", "--jobs", "39", "--scenario", "breaker"}, exitUsage},
		{[]string{"demo", "--config", "x.yaml"}, exitUsage},
		{[]string{"demo", "provider", "extra"}, exitUsage},
		{[]string{"demo", "worker", "--lease", "1s"}, exitUsage},
		{[]string{"demo", "provider", "--dir", "nowhere"}, exitFailed},
	} {
		if _, stderr, code := demoOutput(t, c.args...); code != c.want || stderr == "" {
			t.Errorf("%v exits %d, want %d: %s", c.args, code, c.want, stderr)
		}
	}
}

// What the demo starts ends with it, also when nobody can ask it to.
func TestDemoProcessesEndWithTheirStandardInput(t *testing.T) {
	t.Parallel()
	until := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := untilEOF(t.Context(), strings.NewReader("anything"), until); err != nil {
		t.Errorf("the end of the input is taken for %v", err)
	}
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := untilEOF(ctx, in, until); !errors.Is(err, context.Canceled) {
		t.Errorf("an interruption is taken for %v", err)
	}
}

// A worker that is asked to end while it begins has nothing to do, which is no failure.
func TestDemoWorkerEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	if stdout, stderr, code := demoOutput(t, "demo", "--dir", dir, "--jobs", "40", "--outage"); code != exitDone {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	for range 5 {
		// The standard input of a command that is given none has ended.
		if stdout, stderr, code := demoOutput(t, "demo", "worker", "--dir", dir, "--until-eof"); code != exitDone {
			t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
		}
	}
}
