package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redrivectl/redrivectl/internal/config"
)

// fence is a block of code of a page with its language.
var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// TestAdoptionPageCommands: what docs/adoption.md has people type are commands
// with flags that they have.
func TestAdoptionPageCommands(t *testing.T) {
	t.Parallel()
	root := newRootCmd(newApp(Env{Now: time.Now, Getenv: func(string) string { return "" }}))
	n := 0
	for _, block := range fence.FindAllStringSubmatch(readFile(t, "../docs/adoption.md"), -1) {
		if block[1] != "sh" {
			continue
		}
		for line := range strings.Lines(block[2]) {
			typed, _, _ := strings.Cut(strings.TrimPrefix(line, "redrivectl "), " > ")
			c, rest, err := root.Find(words(typed))
			if err != nil || c == root {
				t.Errorf("%q is no command: %v", line, err)
				continue
			}
			if err := c.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := c.ValidateArgs(c.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			n++
		}
	}
	if n < 25 {
		t.Errorf("only %d commands", n)
	}
}

// limitRow is a row of docs/limits.md about what this version has not: a setting,
// or a flag.
var limitRow = regexp.MustCompile("(?m)^\\| `((?:--)?)([^`]+)` \\| ")

// TestLimitsPage: what docs/limits.md says is not in this version is refused.
// Whoever builds it takes the row away.
func TestLimitsPage(t *testing.T) {
	t.Parallel()
	_, version, _ := strings.Cut(readFile(t, "../docs/limits.md"), "## Limits of this version")
	settings, flags := 0, 0
	for _, row := range limitRow.FindAllStringSubmatch(version, -1) {
		if row[1] == "--" {
			flags++
			args := append([]string{"plan", "create", "q", "--all", "--max", "1", "--reason", "r", "--" + strings.Fields(row[2])[0]}, strings.Fields(row[2])[1:]...)
			if code, _, stderr := runCLI(t, nil, args...); code != exitUsage && code != exitRefused || !strings.Contains(stderr, strings.Fields(row[2])[0]) {
				t.Errorf("--%s is not refused: exit %d, %s", row[2], code, stderr)
			}
			continue
		}
		settings++
		path := filepath.Join(t.TempDir(), "redrivectl.yaml")
		if err := os.WriteFile(path, []byte(row[2]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path, func(string) string { return "" }); err == nil {
			t.Errorf("%s is not refused", row[2])
		}
	}
	if settings < 3 {
		t.Errorf("%d settings and %d flags were tried", settings, flags)
	}
}

// pageblock PAGE NAME writes the block of a page whose first line is "# NAME" to
// the file of that name.
func scriptPageBlock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pageblock PAGE NAME")
	}
	page, err := os.ReadFile(filepath.Join(ts.Getenv("DOCS"), args[0]))
	ts.Check(err)
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[2], "# "+args[1]+"\n") {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(block[2]), 0o600))
			return
		}
	}
	ts.Fatalf("%s has no block %s", args[0], args[1])
}

// TestRehearsal: the script plays exactly what the runbook says of a rollback.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 11. Rehearse a rollback\n")
	section, _, _ = strings.Cut(section, "\n## ")
	script, err := os.ReadFile("testdata/script/rollback_rehearsal.txtar")
	if err != nil {
		t.Fatal(err)
	}
	forScripts := strings.NewReplacer("$PLAN", "PLAN", "$RUN", "RUN", "'", `"`, " --yes", "", " -o json", "")
	var said, played []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "redrivectl ") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(string(script)) {
		if m := shownCode.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			played = append(played, forScripts.Replace("redrivectl "+m[2]))
		}
	}
	if d := cmp.Diff(said, played); d != "" || len(said) == 0 {
		t.Error(d)
	}
}
