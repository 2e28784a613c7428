//go:build crashpoints

package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/redrive"
)

// editWorld has jobs that can be edited, and a control.
func editWorld(w *crashWorld) {
	w.pass(2 * time.Hour)
	for _, j := range []crashJob{crashFailed, crashQueued} {
		w.add(j)
	}
	w.add(crashControl)
	for _, key := range []string{"p1", "p2"} {
		w.dead("once", crashJob{key: key, reason: crashThrottled})
	}
}

var crashEdit = []string{"--rate", "1000/s", "--edit", `.for += " again"`, "--revision", "r"}

// TestCrashEdit kills a run of edits at each of its boundaries, with a worker
// that works before or after the resume: exactly one accepted send under each new
// key, and the originals never again.
func TestCrashEdit(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, editWorld)
	t.Parallel()
	for _, at := range points(t, "run.") {
		if at == "run.7.gone" {
			continue // nothing is missing here
		}
		for _, worker := range []string{"worker before resume", "worker after resume"} {
			t.Run(at+" "+worker, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", crashEdit...)
				w.killed(at, "run", p.Plan, "--yes")
				if worker == "worker before resume" {
					w.drain()
				}
				w.pass(10 * time.Minute)
				w.ask(nil, crashResumeCode[at], "resume", w.onlyRun().Run, "--yes")
				w.onlyRun().adds(t)
				w.drain()
				w.editedOnce()
			})
		}
	}
}

// TestCrashEditResume kills the resume of an edit as well.
func TestCrashEditResume(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, editWorld)
	t.Parallel()
	for _, first := range []string{"run.3.intended", "run.4.queued", "run.5.published"} {
		for _, again := range []string{"run.1.received", "run.4.queued", "run.5.published", "run.5.recorded"} {
			t.Run(first+" then "+again, func(t *testing.T) {
				t.Parallel()
				w := copyCrashWorld(t, bin, dir)
				p := w.approved("digests", crashEdit...)
				w.killed(first, "run", p.Plan, "--yes")
				w.pass(10 * time.Minute)
				w.killed(again, "resume", w.onlyRun().Run, "--yes")
				w.pass(10 * time.Minute)
				w.ask(nil, exitDone, "resume", w.onlyRun().Run, "--yes")
				w.drain()
				w.editedOnce()
			})
		}
	}
}

// TestCrashEditRevoked: between the replacement and the publish the run dies, and
// its plan is revoked. Nothing else takes the originals up than the same edit.
func TestCrashEditRevoked(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, editWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", crashEdit...)
	w.killed("run.4.queued", "run", p.Plan, "--yes")
	c := w.command([]string{"revoke", p.Plan, "--reason", "wrong plan"})
	c.Env = w.environment("approver")
	if e := crashRun(t, c); e.code != exitDone {
		t.Fatal(e)
	}
	w.pass(10 * time.Minute)
	w.ask(nil, exitRefused, "resume", w.onlyRun().Run, "--yes")
	w.ask(nil, exitRefused, "plan", "create", "digests", "--all", "--max", "9", "--reason", "again")
	w.ask(nil, exitDone, "run", w.approved("digests", crashEdit...).Plan, "--yes")
	w.drain()
	w.editedOnce()
}

// editedOnce is how each of these worlds ends.
func (w *crashWorld) editedOnce() {
	w.t.Helper()
	w.sentOnce("failed~r", "queued~r")
	states := map[string]string{}
	for _, k := range []string{"failed", "queued", "failed~r", "queued~r"} {
		states[k] = w.state(k)
	}
	want := map[string]string{"failed": "replaced 1", "queued": "replaced 1", "failed~r": "sent 1", "queued~r": "sent 1"}
	if d := cmp.Diff(want, states); d != "" {
		w.t.Errorf("ledger: %s", d)
	}
	if n := w.depth("digests-dlq") + w.depth("digests"); n != 0 {
		w.t.Errorf("%d copies are left", n)
	}
	// Another copy of an original comes to light. It settles, and is not sent.
	w.dead("digests", crashFailed)
	w.ask(nil, exitDone, "run", w.approved("digests").Plan, "--yes")
	w.drain()
	w.sentOnce("failed~r", "queued~r")
	w.verified(0)
}

// TestCrashEditWithoutLedger: nobody but the store knows. What may have been
// published is never published again, in no form, by no plan.
func TestCrashEditWithoutLedger(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, editWorld)
	t.Parallel()
	for _, at := range points(t, "run.") {
		if at == "run.7.gone" {
			continue
		}
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("once", crashEdit...)
			w.killed(at, "run", p.Plan, "--yes")
			w.pass(10 * time.Minute)
			e := crashRun(t, w.command([]string{"resume", w.onlyRun().Run, "--yes", "-o", "json"}))
			if e.code != exitDone && e.code != exitPartly && e.code != exitRefused {
				t.Fatal(e)
			}
			published := w.taken("once")
			for _, k := range []string{"p1", "p2"} {
				w.dead("once", crashJob{key: k, reason: crashThrottled})
			}
			e = crashRun(t, w.command([]string{"plan", "create", "once", "--all", "--max", "9", "--reason", "again", "--accept-duplicates", "no matter", "-o", "json"}))
			var again planView
			if e.code == exitDone {
				if err := json.Unmarshal(e.stdout, &again); err != nil {
					t.Fatal(err)
				}
			}
			if again.Actions["redrive"] > 0 && (at == "run.5.published" || len(published) > 0) {
				t.Errorf("an original would go: %s", e)
			}
			for _, k := range published {
				if !strings.HasSuffix(k, "~r") {
					t.Errorf("an original was published: %v", published)
				}
			}
			if len(published) > 2 {
				t.Errorf("%v were published", published)
			}
			w.verified(0)
		})
	}
}

// taken empties a queue and names what was in it.
func (w *crashWorld) taken(queue string) []string {
	w.t.Helper()
	keys, q := w.keys(queue), w.queues.Queue(queue)
	for w.depth(queue) > 0 {
		ds, err := q.Receive(w.t.Context(), broker.Request{Max: 10, Lease: time.Minute})
		crashMust(w.t, err)
		for _, r := range q.Ack(w.t.Context(), ds) {
			crashMust(w.t, r.Err)
		}
	}
	return keys
}

// TestCrashEditFaithful: what a resume publishes is the edit that was approved,
// with the attributes of the original.
func TestCrashEditFaithful(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, editWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", crashEdit...)
	w.killed("run.4.queued", "run", p.Plan, "--yes")
	w.pass(10 * time.Minute)
	w.ask(nil, exitDone, "resume", w.onlyRun().Run, "--yes")
	if s := w.onlyRun().State; s != string(redrive.RunFinished) {
		t.Errorf("run is %s", s)
	}
	_, err := w.queues.Queue("digests").Browse(t.Context(), 0, func(m broker.Message) error {
		key := strings.TrimSuffix(job.Decode(m, "digests").JobKey, "~r")
		was := crashJob{key: key}.message()
		want := strings.NewReplacer(`"job_key":"`+key+`"`, `"job_key":"`+key+`~r"`, `{"for":"`+key+`"}`, `{"for":"`+key+` again"}`).Replace(string(was.Body))
		if d := cmp.Diff(want, string(m.Body)); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(was.Attributes, m.Attributes); d != "" {
			t.Error(d)
		}
		return nil
	})
	crashMust(t, err)
}
