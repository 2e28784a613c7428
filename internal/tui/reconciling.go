package tui

import (
	"maps"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/redrivectl/redrivectl/internal/term"
)

// reconcile asks first, and shows what is found as it comes.
func (s *Screen) reconcile(queue string, sc scope) tea.Cmd {
	act := Act{Do: DoReconcile, On: queue, Select: sc.sel}
	return s.propose(act, func(d *doing) tea.Cmd {
		s.push(&reconcilePane{of: d, words: sc.words})
		return nil
	})
}

// reconcilePane shows a reconciliation: how far it has come, and its verdicts, which
// may be many.
type reconcilePane struct {
	grid
	of    *doing
	words string
}

func (p *reconcilePane) name() string                  { return paneReconcile }
func (p *reconcilePane) title() string                 { return "reconcile " + p.words }
func (p *reconcilePane) told(*Screen, tea.Msg) tea.Cmd { return nil }

func (p *reconcilePane) key(_ *Screen, msg tea.KeyMsg) tea.Cmd {
	p.move(msg, len(p.of.verdicts))
	return nil
}

func (p *reconcilePane) status(*Screen) string {
	switch {
	case p.of.err != "":
		return "ended: " + p.of.err
	case p.of.over:
		return "done, " + plural(len(p.of.verdicts), "verdict")
	default:
		return p.of.step.words()
	}
}

var verdictColumns = []column{
	{head: "verdict", least: 14},
	{head: "job", least: 16, grow: 2, name: true},
	{head: "because", least: 20, grow: 1},
}

func (p *reconcilePane) view(s *Screen, w, h int) []string {
	lines := p.above(s, w)
	lines = lines[:min(len(lines), max(h/2, 1))]
	v := gridView{columns: verdictColumns, n: len(p.of.verdicts), empty: "no verdict yet"}
	if p.of.over {
		v.empty = "no verdict"
	}
	v.cells = func(i int) []string {
		x := p.of.verdicts[i]
		return []string{x.Verdict, x.JobKey, x.Because}
	}
	var below []string
	if p.cursor < len(p.of.verdicts) {
		x := p.of.verdicts[p.cursor]
		below = s.footnotes(w, h, x.JobKey+": "+x.Verdict, or(x.Because))
	}
	lines = append(lines, p.draw(v, w, h-len(lines)-len(below), s.styles)...)
	return append(lines, below...)
}

// above says how many there are of each verdict, and what else was told.
func (p *reconcilePane) above(s *Screen, w int) []string {
	var lines []string
	for _, v := range slices.Sorted(maps.Keys(p.of.found)) {
		lines = append(lines, s.styles.head.Render(pad(padLeft(term.Count(int64(p.of.found[v])), 6)+"  "+v, w)))
	}
	for _, text := range p.of.news[max(len(p.of.news)-mostAbove, 0):] {
		lines = append(lines, s.styles.warn.Render(fewLines("! "+text, w, 1)[0]))
	}
	return append(lines, "")
}

// mostAbove is how many of the news stand above the verdicts.
const mostAbove = 3
