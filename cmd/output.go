package cmd

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"

	"github.com/redrivectl/redrivectl/internal/term"
)

// outputForm is how results are written to standard output.
type outputForm string

const (
	outputTable = "table"
	outputJSON  = "json"
	outputJSONL = "jsonl"
	outputCSV   = "csv"
)

var outputForms = []string{outputTable, outputJSON, outputJSONL, outputCSV}

// forPeople reports that a person reads the results, and no program.
func (a *app) forPeople() bool { return a.output == outputTable && a.terminal().IsTTY }

// isJSON reports whether a program reads the output as JSON, which says in it what
// people are told beside it.
func (f outputForm) isJSON() bool { return f == outputJSON || f == outputJSONL }

// result is what a command found, in every form that it can be printed in.
type result struct {
	// Object is the JSON document; with -o jsonl it is the last line.
	Object any
	// Elements are the lines before it with -o jsonl.
	Elements []any
	// Headers and Rows are the table, for a program and on a terminal.
	Headers []string
	Rows    [][]string
	// Wide are the same rows for a terminal, where all columns of Rows fit none;
	// without headers, Rows stand there.
	WideHeaders []string
	Wide        [][]string
	// Wrap names the columns that a terminal shows whole, on several lines; nil:
	// the last one.
	Wrap []int
	// Brief are the same rows for a terminal narrower than roomy; without
	// headers, the others stand there too.
	BriefHeaders []string
	Brief        [][]string
	// Before and After are lines for people around the table, on standard
	// output; they are left out in a pipe, so that rows stay rows.
	Before, After []string
}

// asIs refuses -o for what has one form of its own, so that no script takes that
// for the form it asked for.
func (a *app) asIs(what string) error {
	if a.output == outputTable {
		return nil
	}
	return usagef("%s has one form: leave -o %s out", what, string(a.output))
}

// print writes r in the form that was asked for. Texts are cleaned here, in the
// one place that all of them pass; free text was masked when its view was made.
func (a *app) print(r result) error {
	a.live.Finish()
	if a.screen != nil {
		a.screen.printed = append(a.screen.printed, r)
		return nil
	}
	w := bufio.NewWriter(a.stdout)
	var err error
	switch a.output {
	case outputJSON:
		err = writeJSON(w, r)
	case outputJSONL:
		err = writeJSONL(w, r)
	case outputCSV:
		err = writeCSV(w, r)
	default:
		err = a.writeTable(w, r)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, r result) error {
	b, err := json.MarshalIndent(r.Object, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.CleanJSON(b), '\n'))
	return err
}

func writeJSONL(w io.Writer, r result) error {
	for _, e := range append(r.Elements[:len(r.Elements):len(r.Elements)], r.Object) {
		if err := writeLine(w, e); err != nil {
			return err
		}
	}
	return nil
}

func writeLine(w io.Writer, e any) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.CleanJSON(b), '\n'))
	return err
}

func writeCSV(w io.Writer, r result) error {
	c := csv.NewWriter(w)
	if err := c.Write(r.Headers); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if err := c.Write(cells(row, csvCell)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func (a *app) writeTable(w *bufio.Writer, r result) error {
	t := a.terminal()
	headers, rows := r.Headers, r.Rows
	switch {
	case t.IsTTY && t.Width < roomy && r.BriefHeaders != nil:
		headers, rows = r.BriefHeaders, r.Brief
	case t.IsTTY && r.WideHeaders != nil:
		headers, rows = r.WideHeaders, r.Wide
	}
	if t.IsTTY {
		for _, line := range r.Before {
			fmt.Fprintln(w, term.Clean(line))
		}
	}
	layout := term.Layout{Keep: []int{0}, Wrap: r.Wrap}
	if err := layout.Table(w, headers, rows, t); err != nil {
		return err
	}
	if t.IsTTY {
		if len(rows)+len(r.Before)+len(r.After) == 0 {
			fmt.Fprintln(w, "nothing to list")
		}
		for _, line := range r.After {
			fmt.Fprintln(w, term.Clean(line))
		}
	}
	return nil
}

// csvCell is a cell for a program: the dash that tells people of nothing is
// nothing there.
func csvCell(s string) string {
	if s == nothing {
		return ""
	}
	return term.CleanCSV(s)
}

func cells(row []string, clean func(string) string) []string {
	out := make([]string, len(row))
	for i, cell := range row {
		out[i] = clean(cell)
	}
	return out
}
