package cmd

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	_ "github.com/ncruces/go-sqlite3/driver" // the database/sql driver "sqlite3"
	"github.com/rogpeppe/go-internal/testscript"
)

// scriptCommands are what scripts have beside testscript's own commands.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":       scriptExits,
		"eventually":  scriptEventually,
		"exposition":  scriptExposition,
		"quiet":       scriptQuiet,
		"pageblock":   scriptPageBlock,
		"json":        scriptJSON,
		"let":         scriptLet,
		"pick":        scriptPick,
		"expand":      scriptExpand,
		"harmless":    scriptHarmless,
		"tamper":      scriptTamper,
		"edit":        scriptEdit,
		"seed":        scriptSeed,
		"shape":       scriptShape,
		"sqs":         scriptSQS,
		"copies":      scriptCopies,
		"gather":      scriptGather,
		"await":       scriptAwait,
		"awaitdead":   scriptAwaitDead,
		"awaitrun":    scriptAwaitRun,
		"hostile":     scriptHostile,
		"own":         scriptOwn,
		"nobody":      scriptNobody,
		"mixed":       scriptMixed,
		"interrupted": scriptInterrupted,
		"provider":    scriptProviderCmd,
		"worker":      scriptWorker,
	}
}

// exits CODE PROGRAM [ARGS...] runs a program and demands its exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s exits %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// eventually CEL PROGRAM [ARGS...] runs a program again and again until the
// condition over the JSON of its standard output holds.
func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually CEL PROGRAM [ARGS...]")
	}
	for end := time.Now().Add(scriptPatience); ; time.Sleep(200 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		it, _ := scriptDocument(ts, nil)
		if scriptEval(ts, args[0], it) == true {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s is false after %s in\n%s", args[0], scriptPatience, ts.ReadFile("stdout"))
		}
	}
}

// json [-stderr|-lines|-file FILE] CEL... checks conditions over "it", the JSON
// of the last command's standard output; with -lines "it" is the list of its
// lines.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	it, conditions := scriptDocument(ts, args)
	for _, c := range conditions {
		out := scriptEval(ts, c, it)
		if got, ok := out.(bool); !ok || got == neg {
			b, _ := json.MarshalIndent(it, "", "  ")
			ts.Fatalf("%s is %v in\n%s", c, out, b)
		}
	}
}

// let NAME CEL keeps a value of the last command's JSON as $NAME.
func scriptLet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: let NAME CEL")
	}
	it, _ := scriptDocument(ts, nil)
	ts.Setenv(args[0], fmt.Sprint(scriptEval(ts, args[1], it)))
}

// pick NAME REGEXP keeps what the expression's group found in the last command's
// standard output as $NAME, as a person copies it from the screen.
func scriptPick(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pick NAME REGEXP")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("%s is not in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

func scriptDocument(ts *testscript.TestScript, args []string) (it any, rest []string) {
	from, lines := "stdout", false
	for ; len(args) > 0 && strings.HasPrefix(args[0], "-"); args = args[1:] {
		switch args[0] {
		case "-stderr":
			from = "stderr"
		case "-lines":
			lines = true
		case "-file":
			from, args = args[1], args[1:]
		default:
			ts.Fatalf("unknown option %s", args[0])
		}
	}
	text := ts.ReadFile(from)
	if !lines {
		if err := json.Unmarshal([]byte(text), &it); err != nil {
			ts.Fatalf("%s is no JSON: %v\n%s", from, err, text)
		}
		return it, args
	}
	list := []any{}
	for line := range strings.Lines(text) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("a line of %s is no JSON: %v\n%s", from, err, line)
		}
		list = append(list, v)
	}
	return list, args
}

func scriptEval(ts *testscript.TestScript, expr string, it any) any {
	env, err := cel.NewEnv(cel.Variable("it", cel.DynType))
	ts.Check(err)
	ast, issues := env.Compile(expr)
	ts.Check(issues.Err())
	p, err := env.Program(ast)
	ts.Check(err)
	out, _, err := p.Eval(map[string]any{"it": it})
	if err != nil {
		b, _ := json.MarshalIndent(it, "", "  ")
		ts.Fatalf("%s: %v in\n%s", expr, err, b)
	}
	return out.Value()
}

// expand FILE... puts the values of the script's variables into files.
func scriptExpand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// edit FILE OLD NEW replaces a text that occurs once.
func scriptEdit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	text := ts.ReadFile(args[0])
	if n := strings.Count(text, args[1]); n != 1 {
		ts.Fatalf("%q occurs %d times in %s", args[1], n, args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o600))
}

// harmless stdout|stderr|FILE... demands UTF-8 without a control character (but
// the line feed, and the tab between cells), a bidirectional control or a
// separator that a terminal takes for a line.
func scriptHarmless(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		at, what := harmful([]byte(ts.ReadFile(name)))
		if (at >= 0) != neg {
			ts.Fatalf("%s: %s at byte %d", name, what, at)
		}
	}
}

func harmful(text []byte) (at int, what string) {
	if !utf8.Valid(text) {
		return bytes.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError }), "invalid UTF-8"
	}
	for i, r := range string(text) {
		switch {
		case r == '\n' || r == '\t':
		case unicode.IsControl(r):
			return i, fmt.Sprintf("control character %U", r)
		case unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029', r == '\ufeff':
			return i, fmt.Sprintf("character %U", r)
		}
	}
	return -1, "nothing harmful"
}

// tamper DATABASE SQL changes a SQLite file behind the program's back, with the
// guards of the audit log taken away.
func scriptTamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tamper DATABASE SQL")
	}
	db, err := sql.Open("sqlite3", "file:"+ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	res, err := db.Exec(args[1])
	ts.Check(err)
	if n, err := res.RowsAffected(); err == nil && n == 0 && !strings.HasPrefix(args[1], "DROP") && !strings.HasPrefix(args[1], "CREATE") {
		ts.Fatalf("%s changed nothing", args[1])
	}
}

// scriptPatience bounds how long a script waits for a real process. It is far
// longer than any should take: a loaded machine is no failure.
const scriptPatience = 2 * time.Minute

// await DATABASE QUEUE N waits until the queue holds at least N copies.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: await DATABASE QUEUE N")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	for end := time.Now().Add(scriptPatience); ; time.Sleep(20 * time.Millisecond) {
		n := len(scriptMessages(ts, args[0], args[1]))
		if n >= want {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s holds %d copies after %s, not %d", args[1], n, scriptPatience, want)
		}
	}
}

// interrupted [-twice|-hangup] CODE PROGRAM [ARGS...] runs a program, interrupts it
// once something has arrived in queue.db, or with --watch once it has said something,
// and demands its exit code. With -hangup its terminal is lost, of which both the
// system and a shell tell.
func scriptInterrupted(ts *testscript.TestScript, neg bool, args []string) {
	signals := []os.Signal{os.Interrupt}
	switch {
	case len(args) > 0 && args[0] == "-twice":
		signals, args = []os.Signal{os.Interrupt, os.Interrupt}, args[1:]
	case len(args) > 0 && args[0] == "-hangup":
		signals, args = []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupted [-twice|-hangup] CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	before := len(scriptMessages(ts, "queue.db", "digests"))
	c := exec.Command(args[1], args[2:]...)
	c.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "REDRIVECTL_ACTOR"} {
		c.Env = append(c.Env, name+"="+ts.Getenv(name))
	}
	heard := make(heardOnce, 1)
	c.Stdout = heard
	ts.Check(c.Start())
	if slices.Contains(args, "--watch") { // it listens for the signal by the time it says something
		select {
		case <-heard:
		case <-time.After(scriptPatience):
			ts.Fatalf("%s says nothing", strings.Join(args[1:], " "))
		}
	} else {
		scriptAwait(ts, false, []string{"queue.db", "digests", strconv.Itoa(before + 1)})
	}
	for _, s := range signals {
		ts.Check(c.Process.Signal(s))
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("%s ends with %v, want exit code %d", strings.Join(args[1:], " "), err, want)
	}
}

// heardOnce is told of a first output, and drops all.
type heardOnce chan struct{}

func (h heardOnce) Write(p []byte) (int, error) {
	select {
	case h <- struct{}{}:
	default:
	}
	return len(p), nil
}

// awaitdead RUN waits until the lease of a run whose process is gone has ended.
func scriptAwaitDead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: awaitdead RUN")
	}
	scriptAwaitRun(ts, neg, []string{args[0], "!it.lives"})
}

// awaitrun RUN CEL waits until a condition over "it" holds, which is what runs
// show says of the run.
func scriptAwaitRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaitrun RUN CEL")
	}
	for end := time.Now().Add(scriptPatience); ; time.Sleep(200 * time.Millisecond) {
		ts.Check(ts.Exec("redrivectl", "runs", "show", args[0], "-o", "json"))
		it, _ := scriptDocument(ts, nil)
		if scriptEval(ts, args[1], it) == true {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("after %s run %s is %v", scriptPatience, args[0], it)
		}
	}
}
