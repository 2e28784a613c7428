package redrive_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/redrive"
)

// asIs makes the request what it is.
func asIs(*redrive.Request) {}

// TestPublishedSince: what a plan was made on is asked again when it runs. Two
// copies of one job without a key are in two approved plans; once one went out,
// in whatever form, the other does not.
func TestPublishedSince(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]bool{"as it was": false, "edited": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noLedger = true
			w.json("", `{"a":1}`, "")
			change := asIs
			if edit {
				change = w.editing(".a = 2", "r")
			}
			older := w.plan(change)
			w.json("", `{"a":1}`, "")
			_, err := w.run(w.plan())
			w.must(err)
			w.skips(older, "published_before")
		})
	}
}

// skips runs a plan whose one item must be skipped, with one copy sent before.
func (w *world) skips(id redrive.PlanID, why string) {
	w.t.Helper()
	e, err := w.runner("run2").Run(w.ctx, string(id))
	w.must(err)
	if d := cmp.Diff(map[string]int{why: 1}, e.Report.Skipped); d != "" || w.depth("src") != 1 {
		w.t.Errorf("%s: %+v, %d copies", d, e.Report, w.depth("src"))
	}
}

// TestClockBack: a plan that expired, so that its job was free for another plan,
// is in force again when the clock is set back. Its job is not sent twice.
func TestClockBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		older, later bool // edited
		why          string
	}{
		"twice as it was":     {false, false, "published_before"},
		"edited later":        {false, true, "replaced"},
		"edited before":       {true, false, "published_before"},
		"twice the same edit": {true, true, "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noLedger = true
			form := func(edit bool) func(*redrive.Request) {
				if edit {
					return w.editing(".a = 2", "r")
				}
				return asIs
			}
			second := func(r *redrive.Request) {
				slices.Reverse(r.Jobs)
				form(c.later)(r)
			}
			w.json("k", `{"a":1}`, "")
			older := w.plan(form(c.older))
			w.pass(3 * time.Hour)
			w.json("k", `{"a":1}`, "")
			_, err := w.run(w.plan(second))
			w.must(err)
			w.pass(-150 * time.Minute)
			w.skips(older, c.why)
		})
	}
}

// TestEditedSince: the edited copy's identity is another job's, which went out
// after the edit was planned.
func TestEditedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.json("", `{"a":1}`, "")
	older := w.plan(w.editing(".a = 2", "r"))
	w.json("", `{"a":2}`, "")
	_, err := w.run(w.plan())
	w.must(err)
	w.skips(older, "edit_key_taken")
}

// TestOpenPublishCounts: a publish that may have happened before a crash counts
// for other copies of a job before anybody has resumed the run.
func TestOpenPublishCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.json("", `{"a":1}`, "")
	w.fault = failAt("log:publish", 1)
	_, err := w.run(w.plan())
	if err == nil || w.depth("src") != 1 {
		t.Fatalf("%v, calls %s", err, w.trace())
	}
	w.fault = nil
	w.json("", `{"a":1}`, "")
	if why := w.why(); why != "published_before" {
		t.Errorf("the other copy: %s", why)
	}
}
