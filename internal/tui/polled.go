package tui

import (
	"context"

	tea "github.com/charmbracelet/bubbletea"
)

// watching is a pane that asks again at every tick while it is shown.
type watching interface {
	again(s *Screen) tea.Cmd
}

// polled is something that is asked for again and again.
type polled[T any] struct {
	value  T
	known  bool // an answer has come
	asking bool
}

// got is one answer.
type got[T any] struct {
	of    *polled[T]
	value T
	err   error
}

// poll asks, unless an answer is under way.
func (p *polled[T]) poll(s *Screen, ask func(context.Context) (T, error)) tea.Cmd {
	if p.asking {
		return nil
	}
	p.asking = true
	return s.run(func(ctx context.Context) tea.Msg {
		value, err := ask(ctx)
		return got[T]{p, value, err}
	})
}

// take keeps an answer to this, and reports whether it was one. A failed one leaves
// the one before in place.
func (p *polled[T]) take(s *Screen, msg tea.Msg) bool {
	g, ok := msg.(got[T])
	if !ok || g.of != p {
		return false
	}
	p.asking = false
	if g.err != nil {
		s.fail(g.err)
		return false
	}
	p.value, p.known = g.value, true
	return true
}
