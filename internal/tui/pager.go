package tui

import tea "github.com/charmbracelet/bubbletea"

// pager shows lines, as many as fit, and walks through them. It keeps them as they
// were laid out.
type pager struct {
	top, height, total int

	lines []string
	width int // for which they were laid out; 0: for none
}

// lay is the lines of a width, laid out anew where that is another one or the pager
// was told to forget them.
func (p *pager) lay(w int, rows func() []string) []string {
	if p.width != w {
		p.lines, p.width = rows(), w
	}
	return p.lines
}

// forget has the lines laid out anew: what they say has changed.
func (p *pager) forget() { p.lines, p.width = nil, 0 }

// move takes the keys that walk; it reports whether this was one.
func (p *pager) move(msg tea.KeyMsg) bool {
	g := grid{cursor: p.top, rows: max(p.height-1, 1)}
	if !g.move(msg, p.total-p.height+1) {
		return false
	}
	p.top = g.cursor
	return true
}

// show gives exactly h of the lines; none where h is below one.
func (p *pager) show(lines []string, h int) []string {
	h = max(h, 0)
	p.height, p.total = h, len(lines)
	p.top = max(min(p.top, len(lines)-h), 0)
	shown := append([]string{}, lines[p.top:min(p.top+h, len(lines))]...)
	for len(shown) < h {
		shown = append(shown, "")
	}
	return shown
}

// mostName is how many columns a row's name has at most.
const mostName = 19

// layRows writes out rows, one below the other, with their names in as many columns as
// the longest one takes, within reason.
func layRows(rows []Row, w int) []string {
	names := 0
	for _, r := range rows {
		names = max(names, min(width(r.Name), mostName))
	}
	var lines []string
	for _, r := range rows {
		if r.Name == "" {
			lines = append(lines, wrappedLines(r.Value, w)...)
		} else {
			lines = append(lines, layRow(r, names, w)...)
		}
	}
	return lines
}
