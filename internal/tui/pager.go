package tui

import tea "github.com/charmbracelet/bubbletea"

// pager shows lines, as many as fit, and walks through them.
type pager struct {
	top, height, total int
}

// move takes the keys that walk; it reports whether this was one.
func (p *pager) move(msg tea.KeyMsg) bool {
	g := grid{cursor: p.top, rows: max(p.height-1, 1)}
	if !g.move(msg, p.total-p.height+1) {
		return false
	}
	p.top = g.cursor
	return true
}

// show gives exactly h of the lines.
func (p *pager) show(lines []string, h int) []string {
	p.height, p.total = h, len(lines)
	p.top = max(min(p.top, len(lines)-h), 0)
	shown := append([]string{}, lines[p.top:min(p.top+h, len(lines))]...)
	for len(shown) < h {
		shown = append(shown, "")
	}
	return shown
}

// layRows writes out rows, one below the other.
func layRows(rows []Row, w int) []string {
	var lines []string
	for _, r := range rows {
		if r.Name == "" {
			lines = append(lines, wrappedLines(r.Value, w)...)
		} else {
			lines = append(lines, layRow(r, 14, w)...)
		}
	}
	return lines
}
