package tui

import "sync"

// works count what is under way. Once they are over nothing begins any more. Unlike
// of a sync.WaitGroup, something may begin while somebody waits.
type works struct {
	mu   sync.Mutex
	idle sync.Cond
	n    int
	over bool
}

func newWorks() *works {
	w := &works{}
	w.idle.L = &w.mu
	return w
}

// begin counts one more, unless they are over.
func (w *works) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.n++
	return true
}

func (w *works) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	w.idle.Broadcast()
}

// wait returns when nothing is under way.
func (w *works) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.n > 0 {
		w.idle.Wait()
	}
}

// finish waits for all, and lets nothing begin after it.
func (w *works) finish() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.wait()
}
