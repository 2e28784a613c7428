package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/cobra"
)

// The exit codes. docs/exit-codes.md is written from the same words, and a test
// compares them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartly      = 3
	exitRefused     = 4
	exitAudit       = 5
	exitGate        = 6
	exitInterrupted = 130
)

var exitMeaning = map[int]string{
	exitDone:        "done",
	exitFailed:      "failed; nothing was changed unless the message says so",
	exitUsage:       "wrong usage",
	exitPartly:      "partly done, incomplete, or some outcomes unknown",
	exitRefused:     "refused: approval, expiry, changed plan, bound, confirmation, lease or plan taken, empty selection",
	exitAudit:       "audit log not writable, or fails verification",
	exitGate:        "gate failed or inconclusive, or circuit breaker tripped: stopped or paused",
	exitInterrupted: "interrupted",
}

// failure is an error with the exit code it ends the process with and a hint,
// which is a command to run or a thing to change.
type failure struct {
	code int
	hint string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

func usagef(format string, args ...any) error { return fail(exitUsage, "", format, args...) }

// withHint adds a hint to an error that has none, keeping its code.
func withHint(err error, hint string) error {
	if err == nil || hintOf(err) != "" {
		return err
	}
	return &failure{code: exitCode(err), hint: hint, err: err}
}

func hintOf(err error) string {
	var f *failure
	if errors.As(err, &f) {
		return f.hint
	}
	return ""
}

// exitCode maps an error to the exit code of the table.
func exitCode(err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, audit.ErrNotWritable), errors.Is(err, audit.ErrBroken):
		return exitAudit
	case errors.Is(err, redrive.ErrGate):
		return exitGate
	case errors.Is(err, redrive.ErrRefused), errors.Is(err, redrive.ErrChanged), errors.Is(err, audit.ErrFenced):
		return exitRefused
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	default:
		return exitFailed
	}
}

// exits appends the exit codes that a command can end with to its help.
func exits(c *cobra.Command, codes ...int) *cobra.Command {
	codes = append(codes, exitDone, exitFailed, exitUsage)
	slices.Sort(codes)
	codes = slices.Compact(codes)
	var b strings.Builder
	b.WriteString("\n\nExit codes:\n")
	for _, code := range codes {
		fmt.Fprintf(&b, "  %-3d  %s\n", code, exitMeaning[code])
	}
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	c.Long = strings.TrimRight(long, "\n") + strings.TrimRight(b.String(), "\n")
	return c
}

// whereToFind is the command that lists what a prefix may name.
var whereToFind = map[string]string{"plan": "redrivectl plan list --all", "run": "redrivectl runs list"}

// notFound words what a prefix did not find; it is a refusal to guess.
func notFound(what, prefix string, err error) error {
	switch {
	case errors.Is(err, redrive.ErrNotFound):
		return fail(exitFailed, whereToFind[what], "no %s begins with %q", what, prefix)
	case errors.Is(err, redrive.ErrAmbiguous):
		return fail(exitFailed, "type more of it", "several %ss begin with %q", what, prefix)
	default:
		return err
	}
}
