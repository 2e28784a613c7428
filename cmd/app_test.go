package cmd

import (
	"bufio"
	"io"
	"os"
	"os/user"
	"strings"
	"testing"
	"time"
)

func TestAccountNameIsTheSystems(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("USER", "somebody-else")
	t.Setenv("LOGNAME", "somebody-else")
	if got := accountName(me.Uid); got != me.Username {
		t.Errorf("my account: %s, want %s", got, me.Username)
	}
	if got := accountName("4000000001"); got != "uid 4000000001" {
		t.Errorf("an account without a name: %s", got)
	}
}

// On a terminal a list that is empty says so, where nothing else does.
func TestEmptyTable(t *testing.T) {
	t.Parallel()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { pty.Close() })
	for _, c := range []struct {
		to   io.Writer
		r    result
		want string
	}{
		{pty, result{Headers: []string{"run"}}, "nothing to list\n"},
		{pty, result{Headers: []string{"plan"}, After: []string{"no plan waits"}}, "no plan waits\n"},
		{io.Discard, result{Headers: []string{"run"}}, ""},
	} {
		var b strings.Builder
		w := bufio.NewWriter(&b)
		if err := newApp(Env{Stdout: c.to, Getenv: func(string) string { return "" }}).writeTable(w, c.r); err != nil || w.Flush() != nil || b.String() != c.want {
			t.Errorf("%+v prints %q, want %q: %v", c.r, b.String(), c.want, err)
		}
	}
}

// What is told on a terminal does not stand before rows that come out of a pipe
// onto the same terminal.
func TestProgressBesidePipe(t *testing.T) {
	t.Parallel()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pty.Close(); r.Close(); w.Close() })
	for _, c := range []struct {
		stdout, stderr io.Writer
		silent         bool
	}{
		{w, pty, true},
		{w, io.Discard, false},
		{pty, pty, false},
		{io.Discard, pty, false},
	} {
		a := newApp(Env{Stdout: c.stdout, Stderr: c.stderr, Getenv: func(string) string { return "" }, Now: time.Now})
		a.progress()
		newStream(a, "jobs", nil)
		if silent := a.live == nil; silent != c.silent {
			t.Errorf("rows to %T, progress to %T: silent %v, want %v", c.stdout, c.stderr, silent, c.silent)
		}
	}
}
