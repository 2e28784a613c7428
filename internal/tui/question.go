package tui

import (
	tea "github.com/charmbracelet/bubbletea"
)

// question waits for a yes or a no. Every key that changes something asks one
// first, in words that say what will be done.
type question struct {
	text string
	yes  func() tea.Cmd
}

// confirm asks before something is done.
func (s *Screen) confirm(text string, yes func() tea.Cmd) { s.question = &question{text, yes} }

func (s *Screen) answer(msg tea.KeyMsg) tea.Cmd {
	q := s.question
	switch {
	case keys.Yes.is(msg):
		s.question = nil
		return q.yes()
	case keys.No.is(msg):
		s.question = nil
		s.say("not confirmed; nothing was changed")
	}
	return nil
}

func (q *question) lines(s *Screen) []string {
	lines := wrappedLines(q.text+" [y/n]", s.width)
	for i := range lines {
		lines[i] = s.styles.warn.Render(lines[i])
	}
	return lines
}
