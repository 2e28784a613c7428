// Package cmd is the command line: one flat file per command. It is the only
// package that wires concrete parts together, reads the environment, prints and
// decides how the process ends.
package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redrivectl/redrivectl/internal/term"
)

// Env is everything that the program takes from its surroundings, so that a
// test can run the whole of it with its own.
type Env struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time
	// Bound bounds the memory of the process, in bytes; nil: it is others' too.
	Bound func(limit int64)
}

// Main runs the program on the process's own surroundings and returns its exit
// code. The first interrupt finishes the batch in flight; the second ends the
// process at once and leaves its intents to resume. A terminal that is lost is a
// first interrupt and never a second, since more than one may tell of it.
func Main() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Whoever reads the output may stop reading: that is an error of the write, so
	// that a look gives back what it holds, and not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	go func() {
		<-signals
		cancel()
		for s := range signals {
			if s != syscall.SIGHUP {
				os.Exit(exitInterrupted)
			}
		}
	}()
	armCrash()
	return Run(ctx, Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: clock(), Bound: boundMemory,
	})
}

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, env Env) int {
	a := newApp(env)
	root := newRootCmd(a)
	root.SetArgs(env.Args)
	c, err := root.ExecuteContextC(ctx)
	if cerr := a.close(); err == nil {
		err = cerr
	}
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	if ctx.Err() != nil && code == exitFailed {
		code = exitInterrupted
	}
	if code != exitInterrupted {
		err = withHint(err, c.CommandPath()+" --help")
	}
	a.reportError(err, code)
	return code
}

// reportError prints one line and a hint, or with -o json an object. An error
// whose text is empty was reported by the command's own output.
func (a *app) reportError(err error, code int) {
	if errors.Is(err, errSilent) {
		return
	}
	// What was joined of several errors stands in one line.
	text := term.Clean(strings.ReplaceAll(term.Mask(err.Error()), "\n", "; "))
	if errors.Is(err, context.Canceled) && code == exitInterrupted {
		text = "interrupted"
	}
	hint := term.Clean(hintOf(err))
	if a.output.isJSON() {
		_ = json.NewEncoder(a.stderr).Encode(struct {
			Error string `json:"error"`
			Hint  string `json:"hint"`
			Code  int    `json:"code"`
		}{text, hint, code})
		return
	}
	_, _ = fmt.Fprintf(a.stderr, "redrivectl: %s\n", text) // nowhere is left to tell of a failure
	if hint != "" {
		_, _ = fmt.Fprintf(a.stderr, "hint: %s\n", hint)
	}
}

// errSilent ends the process with a code whose reason the output has stated.
var errSilent = errors.New("")

func silently(code int) error { return &failure{code: code, err: errSilent} }
