package cmd

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redrivectl/redrivectl/internal/term"
)

// stream writes a long list element by element in the form that was asked for,
// so that a list of a million needs the memory of one. Only a table on a
// terminal is collected, because its columns are fitted to what is in them.
type stream struct {
	app     *app
	key     string // of the array in the JSON object
	headers []string
	w       *bufio.Writer
	csv     *csv.Writer
	n       int
	rows    [][]string
}

func newStream(a *app, key string, headers []string) *stream {
	w := bufio.NewWriter(a.stdout)
	if isPipe(a.stdout) && term.Detect(a.stderr, a.lookupEnv, a.noColor).IsTTY {
		a.live.End() // else it stands before the rows that a pager or a grep shows
		a.live = nil
	}
	return &stream{app: a, key: key, headers: headers, w: w, csv: csv.NewWriter(w)}
}

func isPipe(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// add writes one element: as JSON, or as the cells of its row.
func (s *stream) add(element any, row []string) error {
	s.n++
	switch s.app.output {
	case outputJSON:
		return s.addJSON(element)
	case outputJSONL:
		return writeLine(s.w, element)
	case outputCSV:
		if s.n == 1 {
			if err := s.csv.Write(s.headers); err != nil {
				return err
			}
		}
		return s.csv.Write(cells(row, csvCell))
	}
	if s.app.terminal().IsTTY {
		s.rows = append(s.rows, row)
		return nil
	}
	_, err := fmt.Fprintln(s.w, strings.Join(cells(row, term.Clean), "\t"))
	return err
}

func (s *stream) addJSON(element any) error {
	lead := ",\n    "
	if s.n == 1 {
		lead = fmt.Sprintf("{\n  %q: [\n    ", s.key)
	}
	b, err := json.Marshal(element)
	if err != nil {
		return err
	}
	if _, err := s.w.WriteString(lead); err != nil {
		return err
	}
	_, err = s.w.Write(term.CleanJSON(b))
	return err
}

// finish writes what is known of the list as a whole; envelope becomes a JSON
// object with at least one key.
func (s *stream) finish(envelope any) error {
	s.app.live.Finish()
	if err := s.writeEnd(envelope); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if err := s.w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (s *stream) writeEnd(envelope any) error {
	switch s.app.output {
	case outputJSON:
		return s.endJSON(envelope)
	case outputJSONL:
		return writeLine(s.w, envelope)
	case outputCSV:
		if s.n == 0 {
			if err := s.csv.Write(s.headers); err != nil {
				return err
			}
		}
		s.csv.Flush()
		return s.csv.Error()
	}
	if len(s.rows) == 0 {
		return nil
	}
	return term.Layout{Keep: []int{0}, Wrap: []int{}}.Table(s.w, s.headers, s.rows, s.app.terminal())
}

// endJSON closes the array and lets the keys of the envelope follow it.
func (s *stream) endJSON(envelope any) error {
	lead := "\n  ],"
	if s.n == 0 {
		lead = fmt.Sprintf("{\n  %q: [],", s.key)
	}
	b, err := json.MarshalIndent(envelope, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.w, "%s%s\n", lead, term.CleanJSON(b[1:]))
	return err
}
