package tui

import (
	"fmt"
	"maps"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// reconcile asks first, and shows what is found as it comes.
func (s *Screen) reconcile(queue string, sc scope) tea.Cmd {
	act := Act{Do: DoReconcile, On: queue, Select: sc.sel}
	return s.propose(act, func(d *doing) tea.Cmd {
		s.push(&reconcilePane{of: d, words: sc.words})
		return nil
	})
}

// reconcilePane shows a reconciliation: how far it has come, and its verdicts.
type reconcilePane struct {
	pager
	of    *doing
	words string
}

func (p *reconcilePane) name() string                          { return paneReconcile }
func (p *reconcilePane) title() string                         { return "reconcile " + p.words }
func (p *reconcilePane) told(*Screen, tea.Msg) tea.Cmd         { return nil }
func (p *reconcilePane) key(_ *Screen, msg tea.KeyMsg) tea.Cmd { p.move(msg); return nil }

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

func (p *reconcilePane) view(s *Screen, w, h int) []string {
	lines := []string{}
	n := map[string]int{}
	for _, v := range p.of.verdicts {
		n[v.Verdict]++
	}
	for _, v := range slices.Sorted(maps.Keys(n)) {
		lines = append(lines, s.styles.head.Render(pad(fmt.Sprintf("%6d  %s", n[v], v), w)))
	}
	lines = append(lines, "")
	for _, v := range p.of.verdicts {
		lines = append(lines, pad("  "+pad(v.Verdict, 14)+"  "+pad(cutMiddle(v.JobKey, 36), 36)+"  "+v.Because, w))
	}
	for _, r := range p.of.done.Rows {
		lines = append(lines, layRows([]Row{r}, w)...)
	}
	for _, text := range p.of.news {
		lines = append(lines, wrappedLines("! "+text, w)...)
	}
	return p.show(lines, h)
}
