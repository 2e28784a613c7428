//go:build crashpoints

package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/broker"
)

// exportedCopies are two batches of an import.
const exportedCopies = 150

// exportWorld has so many dead copies on the queue without a ledger.
func exportWorld(w *crashWorld) {
	q := w.queues.Queue("plain")
	for part := range slices.Chunk(make([]broker.Outgoing, exportedCopies), 50) {
		for i := range part {
			part[i].Message = crashJob{key: fmt.Sprintf("x%d", i)}.message()
			part[i].Message.Attributes[0].Value = fmt.Append(nil, len(part), i)
		}
		for _, r := range q.Publish(w.t.Context(), "plain", part) {
			crashMust(w.t, r.Err)
		}
		ds, err := q.Receive(w.t.Context(), broker.Request{Max: len(part), Lease: time.Minute})
		crashMust(w.t, err)
		for _, r := range q.Quarantine(w.t.Context(), ds, crashTimeout) {
			crashMust(w.t, r.Err)
		}
	}
	w.pass(2 * time.Hour)
}

// emptied takes every copy off the dead-letter queue.
func (w *crashWorld) emptied() {
	w.t.Helper()
	q := w.queues.Queue("plain-dlq")
	for w.depth("plain-dlq") > 0 {
		ds, err := q.Receive(w.t.Context(), broker.Request{Max: 100, Lease: time.Minute})
		crashMust(w.t, err)
		for _, r := range q.Ack(w.t.Context(), ds) {
			crashMust(w.t, r.Err)
		}
	}
}

// TestCrashExport: an export that was killed leaves no file of that name, and no
// bytes that pass for a whole one.
func TestCrashExport(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, exportWorld)
	t.Parallel()
	for _, at := range points(t, "export.") {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			w.killed(at, "export", "plain", "--out", "x.jsonl")
			if _, err := os.Stat(w.path("x.jsonl")); err == nil {
				t.Error("the file has its name")
			}
			e := crashRun(t, w.command([]string{"export", "plain"}, "REDRIVECTL_CRASH_AT="+at))
			if !e.killed || strings.Contains(string(e.stdout), "redrivectl/export/v1") {
				t.Errorf("standard output passes for a whole export: %s", e)
			}
			w.ask(nil, exitDone, "export", "plain", "--out", "x.jsonl")
			w.verified(0)
			left, err := filepath.Glob(w.path(".x.jsonl.*.part"))
			crashMust(t, err)
			for _, name := range left {
				info, err := os.Stat(name)
				crashMust(t, err)
				if info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v", filepath.Base(name), info.Mode())
				}
			}
		})
	}
}

// TestCrashImport kills an import at each of its boundaries, in its first batch
// and in its second, and does it again: every copy is there once, and no intent
// is open. In their own queue the copies have their own identities, in another
// they cannot.
func TestCrashImport(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, func(w *crashWorld) {
		exportWorld(w)
		w.ask(nil, exitDone, "export", "plain", "--out", "x.jsonl")
		w.emptied()
	})
	t.Parallel()
	for _, at := range points(t, "import.") {
		for _, nth := range []string{"", "#2"} {
			for _, queue := range []string{"plain", "digests"} {
				t.Run(at+nth+" "+queue, func(t *testing.T) {
					t.Parallel()
					w := copyCrashWorld(t, bin, dir)
					w.killed(at+nth, "import", "x.jsonl", "--queue", queue, "--yes")
					before := w.depth(queue + "-dlq")
					var v importView
					w.ask(&v, exitDone, "import", "x.jsonl", "--queue", queue, "--yes")
					want := importView{
						Queue: queue, From: "x.jsonl", Read: exportedCopies, Imported: exportedCopies - int(before), AlreadyThere: int(before),
						NotKept: map[string]int{}, Problems: []importProblem{},
					}
					if queue != "plain" {
						want.NotKept["copy_id"] = want.Imported
					}
					if want.Imported == 0 {
						want.NotKept = map[string]int{}
					}
					if d := cmp.Diff(want, v); d != "" {
						t.Error(d)
					}
					w.verified(0)
					w.sameExport(queue)
				})
			}
		}
	}
}

// sameExport compares what a queue holds with the export that it was filled from.
func (w *crashWorld) sameExport(queue string) {
	w.t.Helper()
	if n := w.depth(queue + "-dlq"); n != exportedCopies {
		w.t.Errorf("%d copies", n)
	}
	if queue != "plain" {
		return // other identities
	}
	w.ask(nil, exitDone, "export", queue, "--out", "y.jsonl")
	x, err := os.ReadFile(w.path("x.jsonl"))
	crashMust(w.t, err)
	y, err := os.ReadFile(w.path("y.jsonl"))
	crashMust(w.t, err)
	if string(x) != string(y) {
		w.t.Error("the export of what was imported has other bytes")
	}
}

// TestCrashExportFull: the file system of an export fills up in the middle. There
// is no file, nothing is left of it, and the log says so.
func TestCrashExportFull(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, exportWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	crashMust(t, os.Mkdir(w.path("disk"), 0o700))
	w.ownFileSystem("disk")
	w.fill("disk", 32<<10)
	e := crashRun(t, w.command([]string{"export", "plain", "--out", "disk/x.jsonl"}))
	if e.code != exitFailed || !strings.Contains(string(e.stderr), "no space left") {
		t.Errorf("want exit %d: %s", exitFailed, e)
	}
	left, err := os.ReadDir(w.path("disk"))
	crashMust(t, err)
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	rs := w.records()
	if r := rs[len(rs)-1]; r.Action != "export" || r.Result != "failed" {
		t.Errorf("last record: %+v", r)
	}
	w.verified(0)
}

// TestCrashImportArchive: while a run may still take copies off the queue, none of
// its archive is put back; once it has died, it is, with a word of warning.
func TestCrashImportArchive(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests", "--rate", "1000/s")
	w.killed("run.6.acknowledged", "run", p.Plan, "--yes")
	restore := []string{"import", "--archive", w.onlyRun().Run, "--job", "sent", "--yes"}
	e := crashRun(t, w.command(restore))
	if e.code != exitRefused || !strings.Contains(string(e.stderr), "is under way") {
		t.Errorf("want exit %d: %s", exitRefused, e)
	}
	w.pass(10 * time.Minute)
	e = crashRun(t, w.command(restore))
	if e.code != exitDone || !strings.Contains(string(e.stderr), "has not ended") {
		t.Errorf("want exit %d: %s", exitDone, e)
	}
	if !slices.Contains(w.keys("digests-dlq"), "sent") {
		t.Error("the copy is not in the queue")
	}
}
