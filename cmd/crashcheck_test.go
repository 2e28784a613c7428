//go:build crashpoints

package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// sentOnce demands that the provider's own log has each job accepted exactly
// once, and no other.
func (w *crashWorld) sentOnce(keys ...string) {
	w.t.Helper()
	want := map[string]int{"control": 1}
	for _, k := range keys {
		want[k] = 1
	}
	if d := cmp.Diff(want, w.provider.Accepted()); d != "" {
		w.t.Errorf("effects (want, got): %s", d)
	}
}

// verified demands a sound audit log with so many open intents.
func (w *crashWorld) verified(open int) {
	w.t.Helper()
	var v struct {
		OK          bool `json:"ok"`
		OpenIntents int  `json:"open_intents"`
	}
	w.ask(&v, exitDone, "audit", "verify")
	if !v.OK || v.OpenIntents != open {
		w.t.Errorf("audit log: %+v, want %d open intents", v, open)
	}
}

// archived are the job keys of the copies that runs were about to settle or to
// discard: each lies in the archive, whole, since its intent came after it.
func (w *crashWorld) archived(jobs ...crashJob) map[string]bool {
	w.t.Helper()
	bodies := map[string]string{}
	for _, j := range jobs {
		bodies[j.key] = string(j.message().Body)
	}
	found := map[string]bool{}
	for _, r := range w.records() {
		if r.Action == string(reconcile.Redrive) || r.Run == "" || r.CopyID == "" || r.JobKey == "" || r.Phase != audit.Intent {
			continue
		}
		found[r.JobKey] = true
		w.reading(func(ctx context.Context, st *store.Store) error {
			entity, id, _ := strings.Cut(r.CopyID, "/")
			a, err := st.Archived(ctx, redrive.RunID(r.Run), broker.CopyID{Entity: entity, ID: id})
			if err == nil && string(a.Job.Message.Body) != bodies[r.JobKey] {
				err = fmt.Errorf("it holds %q", a.Job.Message.Body)
			}
			if err != nil {
				return fmt.Errorf("archive of %s: %w", r.JobKey, err)
			}
			return nil
		})
	}
	return found
}

// accounted demands that every job is in a queue, or was taken into the
// archive, or has its effect on record in its row.
func (w *crashWorld) accounted(jobs []crashJob) {
	w.t.Helper()
	have := w.archived(jobs...)
	for _, q := range []string{"digests", "digests-dlq"} {
		for _, k := range w.keys(q) {
			have[k] = true
		}
	}
	for _, j := range jobs {
		if s, _, _ := strings.Cut(w.state(j.key), " "); !have[j.key] && !ledger.State(s).Committed() {
			w.t.Errorf("job %s is lost: its row is %s and no copy is left", j.key, s)
		}
	}
}

// adds demands that a report adds up to its plan.
func (v runView) adds(t *testing.T) {
	t.Helper()
	n := v.Redriven + v.Settled + v.Discarded + v.Failed + v.Unknown + v.Remaining
	for _, k := range slices.Collect(maps.Values(v.Skipped)) {
		n += k
	}
	if n != v.Planned {
		t.Errorf("the report does not add up: %+v", v)
	}
}
