package tui

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// styles are how texts stand out: in the colours that every theme defines, so that
// they are read on light and on dark ground alike. Without colour all of them leave
// a text as it is, and a mark in front says what a colour would.
type styles struct {
	title, faint, head, cursor, good, warn, bad lipgloss.Style
}

func newStyles(out io.Writer, color bool) styles {
	r := lipgloss.NewRenderer(out)
	r.SetHasDarkBackground(true) // else the terminal would be asked; no colour here depends on it
	r.SetColorProfile(termenv.Ascii)
	if color {
		r.SetColorProfile(termenv.ANSI)
	}
	s := r.NewStyle()
	return styles{
		title: s.Bold(true), faint: s.Faint(true), head: s.Bold(true), cursor: s.Reverse(true),
		good: s.Foreground(lipgloss.Color("2")), warn: s.Foreground(lipgloss.Color("3")), bad: s.Foreground(lipgloss.Color("1")),
	}
}
