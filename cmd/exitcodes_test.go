package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

// Requirement C25: a failure never ends with code 0, and each command ends with
// the codes that its help names. These tests are over the tree of commands, so a
// new command is in them from the first day.

// leafCommands are the commands that do something, by name.
func leafCommands(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, c := range commands(t) {
		if !c.HasSubCommands() && !c.Hidden {
			all[path] = c.Long
		}
	}
	return all
}

var exitLine = regexp.MustCompile(`(?m)^  (\d+) +\S`)

// codesOf are the codes that a command's help names.
func codesOf(help string) []string {
	_, list, _ := strings.Cut(help, "Exit codes:\n")
	var codes []string
	for _, m := range exitLine.FindAllStringSubmatch(list, -1) {
		codes = append(codes, m[1])
	}
	return codes
}

// failed demands that a command ended badly, with a code that its help names, and
// said so as docs/json-output.md says.
func failed(t *testing.T, help string, code int, stdout, stderr string) {
	t.Helper()
	if code == exitDone || !slices.Contains(codesOf(help), fmt.Sprint(code)) {
		t.Errorf("exit %d, the help names %v", code, codesOf(help))
	}
	if stderr == "" && json.Valid([]byte(stdout)) {
		return // its findings are what failed
	}
	if stdout != "" {
		t.Errorf("standard output has %q", stdout)
	}
	lines := strings.Split(strings.TrimRight(stderr, "\n"), "\n")
	var v any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		t.Fatalf("standard error ends with no JSON: %v: %q", err, stderr)
	}
	all, err := readShapes()
	if err != nil {
		t.Fatal(err)
	}
	if err := all.check("error", v); err != nil {
		t.Error(err)
	}
	if e := v.(map[string]any); e["code"] != float64(code) || e["error"] == "" {
		t.Errorf("exit %d says %v", code, e)
	}
}

// TestC25WrongUsage: what cannot be meant is refused by every command.
func TestC25WrongUsage(t *testing.T) {
	t.Parallel()
	for path, help := range leafCommands(t) {
		for _, wrong := range [][]string{{"--no-such-flag"}, {"a", "b", "c", "--store"}} {
			t.Run(path+strings.Join(wrong, " "), func(t *testing.T) {
				t.Parallel()
				code, stdout, stderr := runCLI(t, nil, append(append([]string{"-o", "json"}, strings.Fields(path)...), wrong...)...)
				failed(t, help, code, stdout, stderr)
				if code != exitUsage {
					t.Errorf("exit %d", code)
				}
			})
		}
	}
}

// needsNothing are examples that work without a store and without a queue, or
// whose queue need not be there.
var needsNothing = []string{
	"list -", "list - --jobs -o json", "policy window --queue digests -o json", "policy window --queue digests --retention 96h",
	"completion bash", "completion fish", "completion powershell", "completion zsh", "version", "version -o json",
	"init", "init --file config/redrivectl.yaml", "init --print", "init --schema > redrivectl.schema.json",
	"ledger init --print", "policy check --print > policy.yaml", "policy explain",
	"demo", "demo --dir /tmp/world --jobs 1000 --seed 7", "demo --dir /tmp/world --outage", "demo --scenario failing-canary", "demo -o json",
}

// TestC25BrokenWorld: where the store is no store, or the queue is none, no example
// of any command ends with 0.
func TestC25BrokenWorld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("broken.db", strings.Repeat("this is no store\n", 1000))
	// The last is a build runner's, whose disk keeps no audit log.
	worlds := map[string]string{
		"broken store": write("broken.yaml", "queues: {digests: {path: none.db}}\nledgers: {app: {path: none.db}}\nstore: {path: broken.db}\n"),
		"no queue":     write("none.yaml", "queues: {other: {path: none.db}}\nstore: {path: new.db}\n"),
		"no store":     write("unnamed.yaml", "queues: {digests: {path: none.db}}\nledgers: {app: {path: none.db}}\n"),
	}
	for path, c := range commands(t) {
		for line := range strings.Lines(c.Example) {
			_, typed, _ := strings.Cut(strings.TrimSpace(line), "redrivectl ")
			if c.HasSubCommands() || c.Hidden || slices.Contains(needsNothing, typed) || !strings.HasPrefix(typed, path) {
				continue
			}
			typed, _, _ = strings.Cut(typed, " > ")
			for world, config := range worlds {
				if world == "no queue" && !slices.Contains(words(typed), "digests") {
					continue // an empty store is nothing to fail for
				}
				t.Run(world+"/"+typed, func(t *testing.T) {
					t.Parallel()
					args := append(words(typed), "--yes", "--config", config, "-o", "json")
					code, stdout, stderr := runCLI(t, map[string]string{"CI": map[bool]string{true: "true"}[world == "no store"]}, args...)
					if path == "doctor" && code == exitFailed {
						return // what is broken is what it was asked for
					}
					failed(t, c.Long, code, stdout, stderr)
				})
			}
		}
	}
}

// shownElsewhere are the codes that no script can show, with the test that does.
var shownElsewhere = map[string]string{
	"list 130":          "TestC25Interrupted",
	"status 130":        "TestC25Interrupted",
	"plan create 130":   "TestC25Interrupted",
	"plan wait 130":     "TestC25Interrupted",
	"abort 130":         "TestC25Interrupted",
	"rollback 130":      "TestC25Interrupted",
	"reconcile 130":     "TestC25Interrupted",
	"trace 130":         "TestC25Interrupted",
	"runs report 130":   "TestC25Interrupted",
	"evidence 130":      "TestC25Interrupted",
	"metrics 130":       "TestC25Interrupted",
	"doctor 130":        "TestC25Interrupted",
	"export 130":        "TestC25Interrupted",
	"import 130":        "TestC25Interrupted",
	"store prune 3":     "TestPruneWhileRead",
	"demo provider 0":   "TestDemoProcessesEndWithTheirStandardInput",
	"demo provider 130": "TestDemoProcessesEndWithTheirStandardInput",
	"demo worker 0":     "TestDemoProcessesEndWithTheirStandardInput",
	"demo worker 130":   "TestDemoProcessesEndWithTheirStandardInput",
	// A screen needs a terminal, which a script has none of. What its run ends with
	// is the code of the function that carries out run.
	"triage 0":   "TestTriageToAFinishedRun",
	"triage 3":   "as run 3",
	"triage 4":   "as run 4",
	"triage 5":   "as run 5",
	"triage 6":   "as run 6",
	"triage 130": "TestTriageInterruptsItsRun",
}

var shownCode = regexp.MustCompile(`(?m)^(?:exits|interrupted)(?: -[a-z]+)? (\d+) redrivectl (.+)$`)

// TestC25EachCodeIsShown: for every command, a script shows it end with each of
// the codes that its help names, and none with another. Codes 1 and 2 are shown for all of them by
// TestC25BrokenWorld and TestC25WrongUsage.
func TestC25EachCodeIsShown(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := leafCommands(t)
	shown := map[string]bool{}
	for _, s := range scripts {
		for _, m := range shownCode.FindAllStringSubmatch(readFile(t, s), -1) {
			w := strings.Fields(m[2])
			for n := min(2, len(w)); n > 0; n-- {
				path := strings.Join(w[:n], " ")
				if all[path] == "" {
					continue
				}
				shown[path+" "+m[1]] = true
				if !slices.Contains(codesOf(all[path]), m[1]) {
					t.Errorf("%s: the help of %s does not name its code %s", s, path, m[1])
				}
				break
			}
		}
	}
	for path, help := range all {
		for _, code := range codesOf(help) {
			what := path + " " + code
			switch {
			case code == "1", code == "2": // of all commands above
			case !shown[what] && shownElsewhere[what] == "":
				t.Errorf("no script shows \"exits %s redrivectl %s\"", code, path)
			case shown[what] && shownElsewhere[what] != "":
				t.Errorf("a script shows %q: it is no exception", what)
			}
		}
	}
}

// TestC25Interrupted: Ctrl-C ends with 130 what would have been done.
func TestC25Interrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := local.Open(filepath.Join(dir, "queue.db"), local.Options{Create: true, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "digests-dlq"}); err != nil {
		t.Fatal(err)
	}
	m := broker.Message{Body: []byte(`{"job_key":"d-1"}`)}
	if err := f.Queue("digests-dlq").Publish(t.Context(), "digests-dlq", []broker.Outgoing{{Message: m}})[0].Err; err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "redrivectl.yaml")
	text := "queues: {digests: {path: queue.db, dead_letter: digests-dlq, source: digests, effects: {kind: idempotent, owner: team, reason: upserts}}}\nstore: {path: store.db}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Run(ctx, Env{
			Args: append(args, "--config", config), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
			Getenv: func(name string) string {
				return map[string]string{"HOME": dir, "XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir}[name]
			},
		})
		return code, out.String(), errs.String()
	}
	create := slices.Clip([]string{"plan", "create", "digests", "--all", "--as", "throttled", "--max", "5", "--reason", "outage"})
	code, stdout, stderr := run(t.Context(), append(create, "-o", "json")...)
	var plan planView
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	file := filepath.Join(dir, "export.jsonl")
	if code, _, stderr := run(t.Context(), "export", "digests", "--out", file); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{
		{"list", "digests"},
		{"status"},
		create,
		{"plan", "wait", plan.Plan},
		{"abort", "81c2", "--reason", "enough", "--yes"},
		{"rollback", "81c2", "--reason", "enough", "--yes"},
		{"reconcile", "digests"},
		{"trace", "d-1"},
		{"runs", "report", "81c2"},
		{"evidence", "d-1", "--out", filepath.Join(dir, "evidence")},
		{"metrics"},
		{"doctor"},
		{"export", "digests"},
		{"import", file, "--queue", "digests", "--yes"},
	} {
		code, stdout, stderr := run(interrupted, args...)
		if code != exitInterrupted || stdout != "" || !strings.Contains(stderr, "redrivectl: interrupted\n") {
			t.Errorf("%v: exit %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
