package tui

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitOutlastsWhatBegins: a wait is also for what begins meanwhile, as a look that
// is asked for while a suspension waits.
func TestWaitOutlastsWhatBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorks()
		began := time.Now()
		w.begin()
		go func() {
			time.Sleep(time.Second)
			w.done()
			w.begin() // before who waits has woken
			time.Sleep(time.Second)
			w.done()
		}()
		w.wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it returned after %s", took)
		}
		if w.finish(); w.begin() {
			t.Error("something begins after the end")
		}
	})
}
