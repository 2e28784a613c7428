package tui

import (
	"errors"
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/redrive"
)

// input is a line being typed. It stays until what was typed is taken, so that a
// fault can be mended where it is.
type input struct {
	label  string
	line   textinput.Model
	accept func(text string) (tea.Cmd, error)
	waits  bool   // what was typed is being looked at
	fault  string // what is wrong with it
	column int    // where, from 1; 0: not known
}

// ask lets the person type a line; accept takes it, or says what is wrong.
func (s *Screen) ask(label, text string, accept func(string) (tea.Cmd, error)) {
	line := textinput.New()
	line.SetValue(text)
	line.Focus()
	line.CursorEnd()
	s.input = &input{label: label, line: line, accept: accept}
}

func (s *Screen) typed(msg tea.KeyMsg) tea.Cmd {
	in := s.input
	switch {
	case keys.Cancel.is(msg):
		s.input = nil
		return nil
	case keys.Accept.is(msg):
		cmd, err := in.accept(strings.TrimSpace(in.line.Value()))
		switch {
		case err != nil:
			in.refused(err)
		case s.input != in: // it asked for something else
		case cmd == nil:
			s.input = nil
		default:
			in.waits = true
		}
		return cmd
	default:
		in.fault, in.column = "", 0
		in.line, _ = in.line.Update(msg) // its command blinks the cursor
		return nil
	}
}

// refused says what is wrong with what was typed; false: nothing was typed.
func (in *input) refused(err error) bool {
	in.waits, in.fault, in.column = false, why(err), 0
	var where *redrive.WhereError
	if errors.As(err, &where) {
		in.fault = tidy(where.Message)
		if where.Line == 1 {
			in.column = where.Column
		}
	}
	return true
}

// lines are the line being typed, and below it what is wrong where it is wrong.
func (in *input) lines(s *Screen) []string {
	label, head := in.label+" ", []string{}
	if width(label) > 2 {
		label, head = "> ", wrappedLines(in.label, s.width)
	}
	room := max(s.width-width(label)-1, 1)
	runes, at := []rune(in.line.Value()), in.line.Position()
	from := 0
	if at >= room {
		from = at - room + 1
	}
	before, after := term.Clean(string(runes[from:at])), term.Clean(string(runes[at:]))
	lines := append(head, pad(label+before+"▏"+after, s.width))
	if in.fault != "" {
		point := ""
		if col := in.column - 1 - from; in.column > 0 && col >= 0 && col < room {
			point = strings.Repeat(" ", width(label)+col) + "^ "
		}
		for _, l := range append([]string{pad(point, s.width)}, fewLines("! "+in.fault, s.width, 3)...) {
			lines = append(lines, s.styles.bad.Render(l))
		}
	}
	return lines
}
