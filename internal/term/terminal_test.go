package term

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func environment(m map[string]string) LookupEnv {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want Terminal
	}{
		"not a file":        {nil, Terminal{Width: DefaultWidth}},
		"COLUMNS":           {map[string]string{"COLUMNS": "120"}, Terminal{Width: 120}},
		"COLUMNS too small": {map[string]string{"COLUMNS": "3"}, Terminal{Width: minWidth}},
		"COLUMNS not valid": {map[string]string{"COLUMNS": "wide"}, Terminal{Width: DefaultWidth}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Detect(&strings.Builder{}, environment(c.env), false)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Detect(io.Discard, nil, false); got.Color || got.IsTTY {
		t.Errorf("without an environment: %+v", got)
	}
}

func TestWantsColor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"NO_COLOR": ""}, true},
		{map[string]string{"NO_COLOR": "0"}, false},
		{map[string]string{"TERM": "dumb"}, false},
		{nil, true},
	} {
		if got := wantsColor(environment(c.env)); got != c.want {
			t.Errorf("with %v: %v, want %v", c.env, got, c.want)
		}
	}
}

// A pseudo-terminal's own end is a terminal as well, and good enough to ask.
func TestDetectTerminal(t *testing.T) {
	t.Parallel()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { pty.Close() })
	env := environment(map[string]string{"COLUMNS": "100", "TERM": "xterm"})
	got := []Terminal{Detect(pty, env, false), Detect(pty, env, true), Detect(pty, nil, true)}
	want := []Terminal{{IsTTY: true, Width: 100, Color: true}, {IsTTY: true, Width: 100}, {IsTTY: true, Width: DefaultWidth}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPaint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		color bool
		style Style
		in    string
		want  string
	}{
		{true, Good, "ok", "\x1b[32mok\x1b[0m"},
		{false, Good, "ok", "ok"},
		{true, Plain, "ok", "ok"},
		{true, Good, "", ""},
		{true, Style(99), "ok", "ok"},
	} {
		if got := Paint(c.color, c.style, c.in); got != c.want {
			t.Errorf("Paint(%v, %d, %q) = %q, want %q", c.color, c.style, c.in, got, c.want)
		}
	}
}

// ticker is a clock that a test moves.
type ticker struct{ at time.Time }

func (c *ticker) now() time.Time { return c.at }

func TestProgressInLog(t *testing.T) {
	t.Parallel()
	clock := &ticker{at: time.Unix(1000, 0)}
	var out strings.Builder
	p := NewProgress(&out, Terminal{Width: 80}, false, clock.now)
	for i := range int64(31) {
		p.Update(Step{What: "redriving digests\x1b", Done: i * 10, Total: 400, Note: "2 skipped"})
		clock.at = clock.at.Add(time.Second)
	}
	p.Finish()
	want := "redriving digests\\x1b: 100 of 400 (25%), 10/s, 30s left, 2 skipped\n" +
		"redriving digests\\x1b: 200 of 400 (50%), 10/s, 20s left, 2 skipped\n" +
		"redriving digests\\x1b: 300 of 400 (75%), 10/s, 10s left, 2 skipped\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	clock := &ticker{at: time.Unix(1000, 0)}
	var out strings.Builder
	p := NewProgress(&out, Terminal{IsTTY: true, Width: 20}, false, clock.now)
	p.Update(Step{What: "looking", Done: 1})
	p.Update(Step{What: "too soon after it", Done: 2})
	clock.at = clock.at.Add(redrawEvery)
	p.Update(Step{What: "looking at many messages", Done: 3})
	p.Finish()
	p.End()
	clock.at = clock.at.Add(redrawEvery)
	p.Update(Step{What: "after its end", Done: 4})
	want := "\r\x1b[Klooking: 1\r\x1b[Klooking at many me…\r\x1b[K"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgressQuietAndBroken(t *testing.T) {
	t.Parallel()
	clock := &ticker{at: time.Unix(1000, 0)}
	quiet := NewProgress(failingWriter{}, Terminal{IsTTY: true}, true, clock.now)
	quiet.Update(Step{What: "x"})
	quiet.Finish()
	quiet.End()
	broken := NewProgress(failingWriter{}, Terminal{IsTTY: true, Width: 80}, false, clock.now)
	broken.Update(Step{What: "x"})
	broken.Finish()
	if !broken.broken {
		t.Error("a failed write went unnoticed")
	}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	in := strings.NewReader("yes\nno\n\n  last  ")
	var out strings.Builder
	var got []any
	for range 3 {
		ok, err := Confirm(in, &out, "Run 3 jobs?")
		got = append(got, ok, err)
	}
	answer, err := Ask(in, &out, "Why?")
	got = append(got, answer, err)
	want := []any{true, nil, false, nil, false, nil, "last", nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if _, err := Ask(in, &out, "More?"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("at the end of the input: %v, want %v", err, ErrNoAnswer)
	}
	if want := "Run 3 jobs? [y/N] Run 3 jobs? [y/N] Run 3 jobs? [y/N] " +
		"Why? More? "; out.String() != want {
		t.Errorf("questions: %q", out.String())
	}
	if _, err := Ask(strings.NewReader(strings.Repeat("x", maxAnswer+1)), &out, "?"); err == nil {
		t.Error("an endless answer was accepted")
	}
}

func TestHuman(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                             "0s",
		time.Microsecond:              "<1ms",
		350 * time.Millisecond:        "350ms",
		45 * time.Second:              "45s",
		90 * time.Second:              "1m30s",
		2*time.Hour + 5*time.Minute:   "2h5m",
		3 * time.Hour:                 "3h",
		76*time.Hour + 59*time.Minute: "3d4h",
		-time.Minute:                  "-1m",
		math.MinInt64:                 "-0s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%d) = %q, want %q", d, got, want)
		}
	}
	counts := []string{
		Count(0), Count(999), Count(12345), Count(-1234567),
		Bytes(512), Bytes(1536), Bytes(math.MaxInt64),
	}
	want := []string{
		"0", "999", "12,345", "-1,234,567",
		"512 B", "1.5 KiB", "8.0 EiB",
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
