package tui

import (
	"context"
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// list is what a listPane lists.
type list[T any] struct {
	pane    string // also its title
	ask     func(context.Context, Desk) ([]T, error)
	tidy    func(*T)
	id      func(*T) string // by which the cursor stays with it
	says    func([]T) string
	empty   string
	columns []column
	cells   func(s *Screen, x *T) []string
	tone    func(x *T) tone
	below   func(x *T) string // all that the columns may cut
	open    func(s *Screen, x *T) tea.Cmd
}

// listPane shows a list that is asked for again and again.
type listPane[T any] struct {
	grid
	polled[[]T]
	list[T]
	at string // what the cursor is on
}

// openList shows a list: the one that is open already, else a new one.
func openList[T any](s *Screen, l list[T]) tea.Cmd {
	i := slices.IndexFunc(s.panes, func(p pane) bool { return p.name() == l.pane })
	if i < 0 {
		i = len(s.panes)
		s.push(&listPane[T]{list: l})
	}
	s.panes = s.panes[:i+1]
	return s.panes[i].(watching).again(s) //nolint:forcetypeassert // A list is.
}

func (p *listPane[T]) name() string  { return p.pane }
func (p *listPane[T]) title() string { return p.pane }

func (p *listPane[T]) status(*Screen) string {
	if !p.known {
		return oneMoment
	}
	return p.says(p.value)
}

func (p *listPane[T]) again(s *Screen) tea.Cmd {
	return p.poll(s, func(ctx context.Context) ([]T, error) {
		xs, err := p.ask(ctx, s.desk)
		for i := range xs {
			p.tidy(&xs[i])
		}
		return xs, err
	})
}

func (p *listPane[T]) told(s *Screen, msg tea.Msg) tea.Cmd {
	if !p.take(s, msg) {
		return nil
	}
	if i := slices.IndexFunc(p.value, func(x T) bool { return p.id(&x) == p.at }); i >= 0 {
		p.cursor = i
	}
	p.clamp(len(p.value))
	p.mind()
	return nil
}

// mind remembers what the cursor is on.
func (p *listPane[T]) mind() {
	if p.cursor < len(p.value) {
		p.at = p.id(&p.value[p.cursor])
	}
}

func (p *listPane[T]) key(s *Screen, msg tea.KeyMsg) tea.Cmd {
	switch {
	case p.move(msg, len(p.value)):
		p.mind()
	case keys.Again.is(msg):
		return p.again(s)
	case keys.Open.is(msg) && p.cursor < len(p.value):
		return p.open(s, &p.value[p.cursor])
	}
	return nil
}

func (p *listPane[T]) view(s *Screen, w, h int) []string {
	v := gridView{
		columns: p.columns, n: len(p.value), empty: p.empty,
		cells: func(i int) []string { return p.cells(s, &p.value[i]) },
		tone:  func(i int) tone { return p.tone(&p.value[i]) },
	}
	if !p.known {
		v.empty = oneMoment
	}
	var below []string
	if p.cursor < len(p.value) {
		below = s.footnotes(w, h, p.below(&p.value[p.cursor]))
	}
	return append(p.draw(v, w, h-len(below), s.styles), below...)
}
