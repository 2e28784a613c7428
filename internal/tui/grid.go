package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// column is one column of a grid.
type column struct {
	head  string
	least int  // columns of the terminal
	grow  int  // share of what is left over
	from  int  // shown on screens at least so wide
	right bool // for numbers
	name  bool // cut in the middle
}

// grid is a list of rows with a cursor. It knows no row: those that are on the
// screen are asked for when it is drawn, so that the others cost nothing.
type grid struct {
	cursor, top int
	rows        int // that were shown last
}

// move takes the keys that walk a list; it reports whether this was one.
func (g *grid) move(msg tea.KeyMsg, n int) bool {
	page := max(g.rows, 1)
	switch {
	case keys.Up.is(msg):
		g.cursor--
	case keys.Down.is(msg):
		g.cursor++
	case keys.PageUp.is(msg):
		g.cursor -= page
	case keys.PageDown.is(msg):
		g.cursor += page
	case keys.Top.is(msg):
		g.cursor = 0
	case keys.Bottom.is(msg):
		g.cursor = n - 1
	default:
		return false
	}
	g.clamp(n)
	return true
}

func (g *grid) clamp(n int) { g.cursor = max(min(g.cursor, n-1), 0) }

// scroll keeps the cursor in sight.
func (g *grid) scroll(n, height int) {
	g.rows = height
	g.clamp(n)
	g.top = max(min(g.top, g.cursor, n-height), g.cursor-height+1, 0)
}

// gridView is what a grid draws.
type gridView struct {
	columns []column
	n       int
	cells   func(i int) []string // a value for each column, cleaned
	marked  func(i int) bool     // nil: nothing can be marked
	tone    func(i int) tone     // nil: all alike
	empty   string               // what stands where there is no row
}

// tone is how a row stands out.
type tone int

const (
	toneNone tone = iota
	toneGood
	toneWarn
	toneBad
)

// draw gives exactly h lines, a head and the rows in sight, each w columns wide; none
// where h is below one.
func (g *grid) draw(v gridView, w, h int, st styles) []string {
	h = max(h, 0)
	widths := fit(v.columns, w-2)
	heads := make([]string, len(v.columns))
	for j, c := range v.columns {
		heads[j] = c.head
	}
	lines := make([]string, 0, h)
	lines = append(lines, st.head.Render("  "+line(v.columns, widths, heads)))
	g.scroll(v.n, max(h-1, 1))
	if v.n == 0 {
		lines = append(lines, "  "+pad(v.empty, w-2))
	}
	for i := g.top; i < min(g.top+g.rows, v.n); i++ {
		lines = append(lines, g.row(v, widths, i, st))
	}
	for len(lines) < h {
		lines = append(lines, "")
	}
	return lines[:h]
}

func (g *grid) row(v gridView, widths []int, i int, st styles) string {
	front := []byte("  ")
	if i == g.cursor {
		front[0] = '>'
	}
	if v.marked != nil && v.marked(i) {
		front[1] = '*'
	}
	text := string(front) + line(v.columns, widths, v.cells(i))
	if i == g.cursor {
		return st.cursor.Render(text)
	}
	if v.tone == nil {
		return text
	}
	switch v.tone(i) {
	case toneGood:
		return st.good.Render(text)
	case toneWarn:
		return st.warn.Render(text)
	case toneBad:
		return st.bad.Render(text)
	default:
		return text
	}
}

const gap = 2 // between two columns

// fit gives each column its width, 0 to those that the screen has no room for.
func fit(cs []column, w int) []int {
	widths, spare, shares := make([]int, len(cs)), w+gap, 0
	for j, c := range cs {
		if w+2 < c.from {
			continue
		}
		widths[j] = c.least
		spare -= c.least + gap
		shares += c.grow
	}
	for j, c := range cs {
		if widths[j] == 0 || c.grow == 0 || spare <= 0 {
			continue
		}
		more := spare * c.grow / shares
		widths[j] += more
		spare, shares = spare-more, shares-c.grow
	}
	for j := len(cs) - 1; spare < 0 && j >= 0; j-- { // narrower than anything was made for
		less := min(-spare, widths[j])
		widths[j] -= less
		spare += less
	}
	return widths
}

func line(cs []column, widths []int, cells []string) string {
	var b strings.Builder
	for j, c := range cs {
		if widths[j] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		switch {
		case c.right:
			b.WriteString(padLeft(cells[j], widths[j]))
		case c.name:
			b.WriteString(pad(cutMiddle(cells[j], widths[j]), widths[j]))
		default:
			b.WriteString(pad(cells[j], widths[j]))
		}
	}
	return b.String()
}
