package cmd

import (
	"errors"

	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/reconcile"
)

// listener stands in the place of the terminal while the screen is shown: it hears
// what a command tells, answers what it asks, and keeps what it prints.
type listener struct {
	tell tui.Tell
	// agreed is the question that the person said yes to; empty: none was asked yet,
	// and a command that asks stops there.
	agreed string
	// loosely takes any question for the agreed one, where its counts move on.
	loosely bool

	asked   string // the question at which the command stopped
	printed []result
}

// errAsks stops a command at its question.
var errAsks = errors.New("a question waits for an answer")

func (l *listener) step(s term.Step) {
	if l.tell != nil {
		l.tell(tui.Step{What: s.What, Done: s.Done, Total: s.Total})
	}
}

func (l *listener) note(text string) {
	if l.tell != nil {
		l.tell(tui.Step{Note: term.Mask(text)})
	}
}

// found tells verdicts as they come; the nil listener hears nothing.
func (l *listener) found(fs []reconcile.Found) {
	if l == nil || l.tell == nil || len(fs) == 0 {
		return
	}
	s := tui.Step{}
	for _, f := range fs {
		s.Verdicts = append(s.Verdicts, tui.Verdict{JobKey: f.JobKey, Verdict: string(f.Verdict), Because: term.Mask(f.Evidence.Why)})
	}
	l.tell(s)
}

// confirm answers with what the person said on the screen. Where the question is
// another one by now, the answer does not count.
func (l *listener) confirm(question string) error {
	l.asked = question
	switch {
	case l.agreed == "":
		return errAsks
	case l.agreed != question && !l.loosely:
		return fail(exitRefused, "look at it and say so again", "it has changed since you agreed; it would ask now: %s", question)
	default:
		return nil
	}
}

// rows are what was printed, as lines of a name and a value.
func (l *listener) rows() []tui.Row {
	var rows []tui.Row
	for _, r := range l.printed {
		rows = append(rows, rowsOf(r)...)
	}
	return rows
}

func rowsOf(r result) []tui.Row {
	var rows []tui.Row
	for _, line := range r.Before {
		rows = append(rows, tui.Row{Value: line})
	}
	if len(r.Headers) == 2 {
		rows = append(rows, toRows(r.Rows)...)
	}
	return rows
}
