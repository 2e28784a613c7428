package reconcile_test

import (
	"errors"
	"testing"

	"github.com/redrivectl/redrivectl/internal/job"
)

// TestHoldsUnreadable: where the holds cannot be read nothing may be said of any
// job.
func TestHoldsUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.holdsErr = errors.New("disk is gone")
	as, err := w.r.Assess(t.Context(), []job.Job{{JobKey: "k"}})
	if !errors.Is(err, w.store.holdsErr) || as != nil {
		t.Errorf("%v, %v", as, err)
	}
}
