// Package tui is the triage screen: what an engineer keeps open while an incident
// lasts. The engine runs headless behind a Desk and offers snapshots; the screen
// renders them and sends wishes. It is given no broker, no ledger and no store, so
// that nothing can be done here that the commands cannot do, by the same functions
// and with the same records.
//
// Nothing in Update or View waits: whatever asks the desk runs in a command of
// bubbletea, under a context that ends with the screen. Both cost the same with
// 1,000 jobs as with 100,000, since sorting and filtering run beside them.
package tui

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Options are what the screen needs to know of its surroundings.
type Options struct {
	// Queue opens this queue at once; empty: the list of all.
	Queue string
	// Color says whether anything may be coloured. Nothing is said by colour alone.
	Color bool
	// Every is how long after a look the next one follows by itself, on queues
	// where a look leaves no trace; 0: looks are by key alone.
	Every time.Duration
	// EveryCounted is the same for queues where a look counts as a receive.
	EveryCounted time.Duration
	Now          func() time.Time

	Input  io.Reader
	Output io.Writer
	// Width and Height are the screen's until the terminal tells its own; 0: 80 by 24.
	Width, Height int
	// Frame is given what is drawn, each time; nil: nobody looks on. Pictures and
	// tests are made of it.
	Frame func(text string)

	later func(time.Duration, tea.Msg) tea.Cmd // in place of the clock, for tests
}

// CrashError is a mistake in this program that ended the screen. The terminal was
// put back first.
type CrashError struct {
	Cause any
	Stack []byte
}

func (e *CrashError) Error() string { return fmt.Sprintf("the screen crashed: %v", e.Cause) }

// Show shows the screen until the person leaves it, the terminal is lost or ctx
// ends, and puts the terminal back. When it returns nothing that it began is under
// way any more: looks have given back what they held, and a run has finished its
// batch and freed its lease. The error is a *CrashError, ctx's, or the terminal's.
func Show(ctx context.Context, d Desk, o Options) error {
	s := newScreen(ctx, d, o)
	g := &guarded{Screen: s}
	p := tea.NewProgram(g, tea.WithAltScreen(), tea.WithInput(o.Input), tea.WithOutput(o.Output),
		tea.WithoutSignalHandler(), tea.WithoutCatchPanics())
	s.send = p.Send
	g.quit = p.Quit
	stop := context.AfterFunc(ctx, p.Quit)
	defer stop()
	_, err := p.Run()
	s.close()
	switch {
	case g.crash() != nil:
		return g.crash()
	case err != nil:
		return fmt.Errorf("show the screen: %w", err)
	default:
		return ctx.Err()
	}
}

// crashed tells of a panic in whatever runs beside Update.
type crashed struct{ err *CrashError }

// guarded is the screen with its mistakes caught, so that the terminal is put back
// before they are told.
type guarded struct {
	*Screen
	err  *CrashError
	quit func()
}

func (g *guarded) crash() error {
	if g.err == nil {
		return nil
	}
	return g.err
}

// catch keeps the first panic and ends the screen.
func (g *guarded) catch() {
	if cause := recover(); cause != nil {
		g.failed(&CrashError{Cause: cause, Stack: debug.Stack()})
	}
}

func (g *guarded) failed(err *CrashError) {
	if g.err == nil {
		g.err = err
	}
	go g.quit() // it waits for Update
}

// Init begins what the screen shows first.
func (g *guarded) Init() (cmd tea.Cmd) {
	defer g.catch()
	return safe(g.Screen.Init())
}

// Update is the screen's.
func (g *guarded) Update(msg tea.Msg) (m tea.Model, cmd tea.Cmd) {
	defer g.catch()
	m = g
	if c, ok := msg.(crashed); ok {
		g.failed(c.err)
		return m, nil
	}
	return m, safe(g.Screen.update(msg))
}

// View is the screen's; nothing once it has crashed.
func (g *guarded) View() (text string) {
	defer g.catch()
	if g.err != nil {
		return ""
	}
	text = g.Screen.View()
	if g.options.Frame != nil {
		g.options.Frame(text)
	}
	return text
}

// safe makes a message of a command's panic.
func safe(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		defer func() {
			if cause := recover(); cause != nil {
				msg = crashed{&CrashError{Cause: cause, Stack: debug.Stack()}}
			}
		}()
		msg = cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			for i, c := range batch {
				batch[i] = safe(c)
			}
		}
		return msg
	}
}
