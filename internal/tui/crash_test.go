package tui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// crashingDesk fails as only a mistake in the program can.
type crashingDesk struct{ *fakeDesk }

func (crashingDesk) Look(context.Context, string, Tell) (Look, error) {
	panic("index out of range [7]")
}

// drawingPane panics when it is drawn.
type drawingPane struct{ *queuesPane }

func (drawingPane) view(*Screen, int, int) []string { panic("drawn badly") }

// crashOf shows a screen until it ends by itself.
func crashOf(t *testing.T, d Desk, queue string) (screen string, err error) {
	t.Helper()
	in, keys := io.Pipe()
	defer keys.Close()
	var out bytes.Buffer
	err = Show(t.Context(), d, Options{Queue: queue, Now: time.Now, Input: in, Output: &out})
	return out.String(), err
}

// TestCrash: a mistake in the program puts the terminal back first, and is told with
// where it was.
func TestCrash(t *testing.T) {
	t.Parallel()
	out, err := crashOf(t, crashingDesk{newFakeDesk()}, "digests")
	var crash *CrashError
	if !errors.As(err, &crash) {
		t.Fatalf("the error is %v", err)
	}
	if !strings.Contains(crash.Error(), "index out of range [7]") || !bytes.Contains(crash.Stack, []byte("crashingDesk.Look")) {
		t.Errorf("the report is %v\n%s", crash, crash.Stack)
	}
	if i, j := strings.LastIndex(out, "\x1b[?1049l"), strings.LastIndex(out, "\x1b[?1049h"); i < 0 || i < j || !strings.Contains(out[j:], "\x1b[?25h") {
		t.Errorf("the terminal was not put back: %q", out)
	}
	if strings.Contains(out, "goroutine") {
		t.Error("the report went to the screen")
	}
}

func TestCrashInDrawing(t *testing.T) {
	t.Parallel()
	s := newScreen(t.Context(), newFakeDesk(), Options{Now: time.Now, Output: io.Discard})
	s.panes = []pane{drawingPane{newQueuesPane()}}
	quit := make(chan struct{})
	g := &guarded{Screen: s, quit: func() { close(quit) }}
	if text := g.View(); text != "" || g.crash() == nil {
		t.Errorf("the view is %q, the crash %v", text, g.crash())
	}
	<-quit
	if text := g.View(); text != "" {
		t.Errorf("it is drawn again: %q", text)
	}
}

func TestCrashInUpdate(t *testing.T) {
	t.Parallel()
	s := newScreen(t.Context(), newFakeDesk(), Options{Now: time.Now, Output: io.Discard})
	s.panes = nil // no pane to ask
	quit := make(chan struct{})
	g := &guarded{Screen: s, quit: func() { close(quit) }}
	if _, cmd := g.Update(tea.KeyMsg{Type: tea.KeyDown}); cmd != nil || g.crash() == nil {
		t.Errorf("the crash is %v", g.crash())
	}
	<-quit
}

// TestShowEndsWithItsContext: whoever ends the context ends the screen, and nothing is
// under way after it.
func TestShowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, keys := io.Pipe()
	defer keys.Close()
	drawn := make(chan struct{}, 1)
	ended := make(chan error)
	go func() {
		ended <- Show(ctx, newFakeDesk(), Options{Queue: "digests", Now: time.Now, Input: in, Output: io.Discard, Frame: func(string) {
			select {
			case drawn <- struct{}{}:
			default:
			}
		}})
	}()
	<-drawn
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
