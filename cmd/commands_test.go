package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// commands are all commands of the program with the words that name each.
func commands(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	found := map[string]*cobra.Command{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "no-help" { // it only keeps cobra's help command away
			return
		}
		found[strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "redrivectl"))] = c
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(newApp(Env{Now: time.Now, Getenv: func(string) string { return "" }})))
	if len(found) < 30 {
		t.Fatalf("only %d commands were found", len(found))
	}
	return found
}

// TestExtraArguments: a group refuses an unknown subcommand, and a leaf an
// argument too many, before anything is opened.
func TestExtraArguments(t *testing.T) {
	t.Parallel()
	for path, c := range commands(t) {
		if strings.Contains(c.Use, "...") {
			continue // it takes as many as are given
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			args := append(strings.Fields(path), "bogus")
			if !c.HasSubCommands() {
				args = append(args, "bogus", "bogus")
			}
			code, stdout, stderr := runCLI(t, nil, args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, "hint: redrivectl") {
				t.Errorf("%v: exit %d, %q, %q", args, code, stdout, stderr)
			}
		})
	}
}

// TestHelp: the help of each command says what it is for, how it is typed and
// which exit codes it can end with.
func TestHelp(t *testing.T) {
	t.Parallel()
	for path, c := range commands(t) {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runCLI(t, nil, append(strings.Fields(path), "--help")...)
			if code != exitDone || stderr != "" {
				t.Fatalf("exit %d, %q", code, stderr)
			}
			for _, code := range []int{exitDone, exitFailed, exitUsage} {
				if line := fmt.Sprintf("  %-3d  %s\n", code, exitMeaning[code]); !strings.Contains(stdout, line) {
					t.Errorf("no line %q in\n%s", line, stdout)
				}
			}
			if !c.HasSubCommands() && !c.Hidden && c.Example == "" {
				t.Error("no example")
			}
			if n := len(c.Short); c.HasParent() && n > 64 {
				t.Errorf("its line in the list of commands is %d columns too long for a terminal of 80", n-64)
			}
			for line := range strings.Lines(stdout) {
				if n := len(strings.TrimRight(line, "\n")); n > 120 && !strings.HasPrefix(line, "      ") {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
}

// TestExamples: what the examples type is a command with flags that it has.
func TestExamples(t *testing.T) {
	t.Parallel()
	for path, c := range commands(t) {
		for line := range strings.Lines(c.Example) {
			_, typed, ok := strings.Cut(line, "redrivectl ")
			if !ok {
				continue
			}
			typed, _, _ = strings.Cut(typed, " > ")
			found, rest, err := c.Root().Find(words(typed))
			if err != nil || found == c.Root() {
				t.Errorf("%s: %q is no command: %v", path, typed, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", path, typed, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", path, typed, err)
			}
		}
	}
}

// words splits a typed line as a shell would, as far as examples need it.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(strings.TrimSpace(line), `"`) {
		if quoted := i%2 == 1; quoted {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// TestExitCodesPage: docs/exit-codes.md has the words of the program.
func TestExitCodesPage(t *testing.T) {
	t.Parallel()
	page := readFile(t, "../docs/exit-codes.md")
	for code, meaning := range exitMeaning {
		if row := fmt.Sprintf("| %d | %s |\n", code, meaning); !strings.Contains(page, row) {
			t.Errorf("no row %q", row)
		}
	}
}

// TestEveryExitCodeIsShown: a script produces each exit code of this version.
func TestEveryExitCodeIsShown(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var all strings.Builder
	for _, s := range scripts {
		all.WriteString(readFile(t, s))
	}
	for code := range exitMeaning {
		if !strings.Contains(all.String(), fmt.Sprintf("\nexits %d ", code)) && !strings.Contains(all.String(), fmt.Sprintf("\ninterrupted %d ", code)) {
			t.Errorf("no script shows exit code %d", code)
		}
	}
}

// TestGenerated: command and manual pages, completions and schema in the repository are what
// this version generates.
func TestGenerated(t *testing.T) {
	t.Parallel()
	files, err := generated(newRootCmd(newApp(Env{Now: time.Now, Getenv: func(string) string { return "" }})))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is generated now (%v): run go run . gen .", name, err)
		}
	}
	var committed []string
	for _, folder := range []string{"docs/commands", "docs/man", "completions"} {
		paths, err := filepath.Glob("../" + folder + "/*")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%d files in %s: %v", len(paths), folder, err)
		}
		committed = append(committed, paths...)
	}
	for _, path := range committed {
		name := filepath.ToSlash(strings.TrimPrefix(path, "../"))
		if _, ok := files[name]; !ok {
			t.Errorf("%s is not generated any more: remove it", name)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
