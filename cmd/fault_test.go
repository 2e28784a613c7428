//go:build crashpoints

package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestCrashStoreFault breaks the store's file from the N-th changing call of a
// run on, for Ns over the whole of it (some 150 calls). The run ends with exit code 5,
// nothing has begun without a durable intent, and with a sound disk all is done
// as planned.
func TestCrashStoreFault(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	for _, kind := range []string{"full", "ioerr", "readonly"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var begun, late atomic.Int64
			t.Run("at", func(t *testing.T) {
				for n := range 240 {
					if kind == "full" && n%2 != 0 || kind != "full" && n%12 != 5 {
						continue
					}
					t.Run(fmt.Sprint(n), func(t *testing.T) {
						t.Parallel()
						w := copyCrashWorld(t, bin, dir)
						switch w.faulted(fmt.Sprintf("%s@%d", kind, n)) {
						case "late":
							late.Add(1)
						case "begun":
							begun.Add(1)
						}
					})
				}
			})
			if begun.Load() == 0 || late.Load() == 0 {
				t.Errorf("%d faults struck a run under way, %d came after its end: the range is not the run's", begun.Load(), late.Load())
			}
		})
	}
}

// faulted runs a plan on a store that fails, and recovers. It tells whether the
// fault came "early", before there was a run, in a run that had "begun", or too
// "late" to strike.
func (w *crashWorld) faulted(fault string) string {
	w.t.Helper()
	p := w.approved("digests", "--rate", "1000/s")
	e := crashRun(w.t, w.command([]string{"run", p.Plan, "--yes"}, "REDRIVECTL_STORE_FAULT="+fault))
	when := "late"
	if e.code != exitDone {
		when = w.closedFail(e)
	}
	w.afterFault(when, p.Plan)
	return when
}

// afterFault recovers on a sound disk. What was acknowledged and could not be
// recorded is unknown, so a resume may be only partly done.
func (w *crashWorld) afterFault(when, plan string) {
	w.t.Helper()
	w.pass(10 * time.Minute)
	switch {
	case when == "early":
		w.ask(nil, exitDone, "run", plan, "--yes")
	case w.onlyRun().State != string(redrive.RunFinished):
		e := crashRun(w.t, w.command([]string{"resume", w.onlyRun().Run, "--yes"}))
		if e.code != exitDone && e.code != exitPartly {
			w.t.Errorf("resume: %s", e)
		}
	}
	w.onlyRun().adds(w.t)
	w.drain()
	w.recovered()
}

// closedFail checks a run whose store was lost: exit code 5, no act without its
// record, and what is not in the log is on standard error.
func (w *crashWorld) closedFail(e crashEnd) string {
	w.t.Helper()
	if e.code != exitAudit {
		w.t.Errorf("want exit %d: %s", exitAudit, e)
	}
	if len(w.runs()) == 0 {
		return "early"
	}
	logged := actsOf(w.records())
	for k, v := range logged {
		v.told = v.published
		logged[k] = v
	}
	for _, r := range orphanLines(w.t, e.stderr) {
		if r.Step == audit.StepPublish {
			a := logged[r.JobKey]
			a.told = true
			logged[r.JobKey] = a
		}
	}
	dead, source := w.keys("digests-dlq"), w.keys("digests")
	for _, j := range crashPlanned {
		a := logged[j.key]
		if slices.Contains(source, j.key) && (!a.intended || !a.told) {
			w.t.Errorf("%s was published: %+v", j.key, a)
		}
		if !slices.Contains(dead, j.key) && !a.published && !a.settling {
			w.t.Errorf("%s was acknowledged: %+v", j.key, a)
		}
		if got := w.state(j.key); got != crashPlannedStates[j.key] && !a.intended {
			w.t.Errorf("the row of %s is %s: %+v", j.key, got, a)
		}
	}
	return "begun"
}

// crashPlannedStates are the rows as the plan has them.
var crashPlannedStates = map[string]string{
	"failed": "failed 1", "queued": "queued 1", "sent": "sent 1", "fenced-no": "fenced 1", "fenced-yes": "fenced 1",
}

// acts is what the log says was done about a job.
type acts struct {
	intended, published bool
	settling            bool // or discarding
	told                bool // the publish is in the log, or on standard error
}

func actsOf(rs []audit.Record) map[string]acts {
	m := map[string]acts{}
	for _, r := range rs {
		if r.Run == "" || r.JobKey == "" {
			continue
		}
		a := m[r.JobKey]
		a.intended = a.intended || r.Phase == audit.Intent
		a.settling = a.settling || r.Phase == audit.Intent && r.Action != string(reconcile.Redrive)
		a.published = a.published || r.Step == audit.StepPublish && r.Result == audit.ResultDone
		m[r.JobKey] = a
	}
	return m
}

// orphanLines are the records among the lines of standard error.
func orphanLines(t *testing.T, stderr []byte) []audit.Record {
	t.Helper()
	var rs []audit.Record
	lines := bufio.NewScanner(bytes.NewReader(stderr))
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "{") {
			continue
		}
		var r audit.Record
		crashMust(t, json.Unmarshal(lines.Bytes(), &r))
		rs = append(rs, r)
	}
	return rs
}

// TestCrashReconcileStoreFault: a reconciliation whose store fails ends with exit
// code 5 and moves no row without an intent; the next one completes it.
func TestCrashReconcileStoreFault(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, reconcileWorld)
	t.Parallel()
	for n := range 40 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			args := []string{"reconcile", "digests", "--apply", "--yes"}
			w.ask(nil, exitDone, "audit", "list")
			e := crashRun(t, w.command(args, fmt.Sprintf("REDRIVECTL_STORE_FAULT=full@%d", n)))
			if e.code != exitAudit && e.code != exitDone {
				t.Errorf("want exit %d: %s", exitAudit, e)
			}
			intended := map[string]bool{}
			for _, r := range w.records() {
				intended[r.JobKey] = true
			}
			for _, j := range crashReconciled {
				if got := w.state(j.key); got != "sending 1" && !intended[j.key] {
					t.Errorf("the row of %s is %s without a record", j.key, got)
				}
			}
			w.ask(nil, exitDone, args...)
			w.reconciled()
		})
	}
}

// unprivileged makes a command of somebody who has no right over files that are
// not his.
func (w *crashWorld) unprivileged(c *exec.Cmd) {
	w.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	crashMust(w.t, filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, nobody, nobody)
	}))
	for _, dir := range []string{filepath.Dir(w.dir), filepath.Dir(w.bin)} {
		crashMust(w.t, os.Chmod(dir, 0o755))
	}
	for dir := filepath.Dir(w.dir); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o005 != 0o005 {
			w.t.Skipf("another account cannot reach %s", dir)
		}
	}
}

// TestCrashReadOnlyFolder: the store's folder and file cannot be written.
func TestCrashReadOnlyFolder(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	w := copyCrashWorld(t, bin, dir)
	p := w.approved("digests")
	c := w.command([]string{"run", p.Plan, "--yes"})
	w.unprivileged(c)
	crashMust(t, os.Chmod(w.path("state/store.db"), 0o400))
	crashMust(t, os.Chmod(w.path("state"), 0o500))
	if e := crashRun(t, c); e.code != exitAudit {
		t.Errorf("want exit %d: %s", exitAudit, e)
	}
	if d := cmp.Diff([]string{"failed", "fenced-no", "fenced-yes", "held", "queued", "sent"}, w.keys("digests-dlq")); d != "" {
		t.Errorf("dead-letter queue: %s", d)
	}
	crashMust(t, os.Chmod(w.path("state"), 0o700))
	crashMust(t, os.Chmod(w.path("state/store.db"), 0o600))
	c = w.command([]string{"run", p.Plan, "--yes"})
	w.unprivileged(c)
	if e := crashRun(t, c); e.code != exitDone {
		t.Fatal(e)
	}
	w.drain()
	w.recovered()
}

// TestCrashFullFileSystem: the store lies on a file system of its own that has
// so many bytes left, and fills up at another point of the run for each.
func TestCrashFullFileSystem(t *testing.T) {
	bin := crashBinary(t)
	dir := crashTemplate(t, bin, runWorld)
	t.Parallel()
	var begun, mounted atomic.Int64
	t.Cleanup(func() {
		if mounted.Load() > 0 && begun.Load() == 0 {
			t.Error("no file system was full in the middle of a run")
		}
	})
	for _, left := range []int{0, 48 << 10, 96 << 10, 128 << 10, 160 << 10, 192 << 10, 224 << 10, 256 << 10, 288 << 10, 320 << 10, 384 << 10} {
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			t.Parallel()
			w := copyCrashWorld(t, bin, dir)
			p := w.approved("digests", "--rate", "1000/s")
			w.ownFileSystem("state")
			mounted.Add(1)
			w.fill("state", left)
			e := crashRun(t, w.command([]string{"run", p.Plan, "--yes"}))
			when := "late"
			if e.code != exitDone {
				when = w.closedFail(e)
			}
			crashMust(t, os.Remove(w.path("state/filler")))
			if when == "begun" {
				begun.Add(1)
			}
			w.afterFault(when, p.Plan)
		})
	}
}

// ownFileSystem moves a folder of the world to a small file system.
func (w *crashWorld) ownFileSystem(name string) {
	w.t.Helper()
	crashMust(w.t, os.Rename(w.path(name), w.path("moved")))
	crashMust(w.t, os.Mkdir(w.path(name), 0o700))
	if err := syscall.Mount("tmpfs", w.path(name), "tmpfs", 0, "size=2m"); err != nil {
		w.t.Skipf("cannot mount a small file system: %v", err)
	}
	w.t.Cleanup(func() { crashMust(w.t, syscall.Unmount(w.path(name), 0)) })
	crashMust(w.t, os.CopyFS(w.path(name), os.DirFS(w.path("moved"))))
}

// fill leaves so many bytes free in a folder's file system.
func (w *crashWorld) fill(name string, left int) {
	w.t.Helper()
	var s syscall.Statfs_t
	crashMust(w.t, syscall.Statfs(w.path(name), &s))
	free := int(s.Bavail) * int(s.Bsize)
	crashMust(w.t, os.WriteFile(filepath.Join(w.path(name), "filler"), make([]byte, free-left), 0o600))
}

var crashReconciled = []crashJob{crashFencedNo, crashFencedYes, crashOrphan}

// reconcileWorld has jobs and a row whose outcome nobody knows.
func reconcileWorld(w *crashWorld) {
	for _, j := range crashReconciled {
		w.add(j)
	}
	w.pass(time.Hour)
	w.add(crashControl)
	w.pass(time.Hour)
	w.ask(nil, exitDone, "reconcile", "digests") // makes the store
}

// reconciled is how a reconciliation leaves that world.
func (w *crashWorld) reconciled() {
	w.t.Helper()
	want := map[string]string{"fenced-no": "failed 1", "fenced-yes": "reconciled 1", "orphan": "reconciled 1"}
	got := map[string]string{}
	for k := range want {
		got[k] = w.state(k)
	}
	if d := cmp.Diff(want, got); d != "" {
		w.t.Errorf("ledger: %s", d)
	}
	w.verified(0)
}
