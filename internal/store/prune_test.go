package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// marked is a text that stands for itself wherever a file holds it.
func marked(what string, n int) string { return fmt.Sprintf("find-me-%s-%d.", what, n) }

// archivedCopies are n copies of a run with small bodies and one large, which say
// marked(what, n), as their message IDs do.
func archivedCopies(f *fixture, what string, n int, retention time.Duration) []redrive.Archived {
	as := make([]redrive.Archived, n)
	for i := range as {
		body := marked(what, i)
		if i == 0 {
			body = strings.Repeat(body, 20_000)
		}
		m := broker.Message{
			Copy: broker.CopyID{Entity: "dlq", ID: fmt.Sprint(i)}, MessageID: marked(what, i), Body: []byte(body),
		}
		as[i] = redrive.Archived{
			Run: redrive.RunID("run-" + what), Plan: "p", Queue: "digests", Owner: "operator", Retention: retention,
			Action: "discard", At: f.clock.now(), Job: job.Decode(m, "digests"),
		}
		as[i].Job.Payload = nil
	}
	return as
}

// inFiles counts the places where a text stands in the store's files.
func inFiles(t *testing.T, path, what string) int {
	t.Helper()
	n := 0
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(what))
	}
	return n
}

func capturing(t *testing.T, f *fixture, queue string, jobs int) {
	t.Helper()
	w, err := f.NewCapture(context.Background(), queue, f.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		m := broker.Message{MessageID: marked("capture-"+queue, i)}
		if err := w.Add(context.Background(), job.Decode(m, queue)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(context.Background(), redrive.Capture{Queue: queue, CapturedAt: f.clock.now()}); err != nil {
		t.Fatal(err)
	}
}

// TestPrune: what is past its time goes, with one record, and not a byte of it is
// left in the files; all else stays.
func TestPrune(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx := context.Background()
	capturing(t, f, "old", 700)
	short, long := archivedCopies(f, "short", 300, time.Hour), archivedCopies(f, "long", 3, 90*24*time.Hour)
	if err := f.Save(ctx, append(short, long...)...); err != nil {
		t.Fatal(err)
	}
	f.clock.add(25 * time.Hour)
	if p, err := f.Prunable(ctx, 48*time.Hour); err != nil || !p.Nothing() {
		t.Errorf("nothing is older than two days: %+v, %v", p, err)
	}
	for _, what := range []string{"find-me-short", "find-me-capture-old"} {
		if inFiles(t, f.path, what) == 0 {
			t.Fatalf("the files do not hold %s: the test would find nothing", what)
		}
	}
	would, err := f.Prunable(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Prune(ctx, 0, doneRecord("prune"))
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, a := range short {
		size += int64(len(a.Job.Message.Body))
	}
	want := store.Pruned{
		Captures: 1, CapturedJobs: 700, Archives: 300, ArchiveBytes: size, ArchivesSHA256: would.ArchivesSHA256, Erased: true,
	}
	if d := cmp.Diff(want, got); d != "" || len(got.ArchivesSHA256) != 64 {
		t.Errorf("pruned (-want +got):\n%s", d)
	}
	for _, what := range []string{"find-me-short", "find-me-capture-old"} {
		if n := inFiles(t, f.path, what); n != 0 {
			t.Errorf("%s is left in %d places", what, n)
		}
	}
	kept := 0
	err = f.EachArchived(ctx, store.ArchiveQuery{}, func(a redrive.Archived) error {
		if d := cmp.Diff(long[kept].Job.Message, a.Job.Message); d != "" {
			t.Error(d)
		}
		kept++
		return nil
	})
	if err != nil || kept != 3 {
		t.Errorf("%d archives are left, %v", kept, err)
	}
	pruneRecord(t, f, got)
}

func pruneRecord(t *testing.T, f *fixture, p store.Pruned) {
	t.Helper()
	var found []audit.Record
	err := f.FindAudit(context.Background(), audit.Query{Action: "prune"}, func(e audit.Entry) error {
		found = append(found, e.Record)
		return nil
	})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d records, %v", len(found), err)
	}
	want := map[string]string{
		"captures": "1", "captured_jobs": "700", "archives": "300", "archive_bytes": fmt.Sprint(p.ArchiveBytes), "archives_sha256": p.ArchivesSHA256,
	}
	if d := cmp.Diff(want, found[0].Details); d != "" {
		t.Error(d)
	}
	if p, err := f.Prune(context.Background(), 0, doneRecord("prune")); err != nil || !p.Nothing() {
		t.Errorf("%+v, %v", p, err)
	}
	if head, err := f.AuditHead(context.Background()); err != nil || head.Seq != 1 {
		t.Errorf("a prune of nothing wrote a record: %+v, %v", head, err)
	}
}

// TestPruneAtOnce: a prune whose record cannot be written removes nothing.
func TestPruneAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx := context.Background()
	if err := f.Save(ctx, archivedCopies(f, "short", 3, time.Hour)...); err != nil {
		t.Fatal(err)
	}
	f.clock.add(2 * time.Hour)
	f.sql(t, `CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'disk is full'); END`)
	if _, err := f.Prune(ctx, 0, doneRecord("prune")); !errors.Is(err, audit.ErrNotWritable) {
		t.Fatal(err)
	}
	if n, err := f.CountArchived(ctx, store.ArchiveQuery{}); err != nil || n != 3 {
		t.Errorf("%d archives are left, %v", n, err)
	}
}

// TestModesBeside: whatever an earlier reader left, the files beside the store
// are as private as the store; also in a folder that others can read.
func TestModesBeside(t *testing.T) {
	t.Parallel()
	for _, reader := range []bool{false, true} {
		f := open(t)
		if err := f.Save(context.Background(), archivedCopies(f, "short", 1, time.Hour)...); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), os.Chmod(filepath.Dir(f.path), 0o755)); err != nil {
			t.Fatal(err)
		}
		if !reader {
			if err := errors.Join(os.WriteFile(f.path+"-wal", nil, 0o644), os.WriteFile(f.path+"-shm", nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			f.reopen(t)
		} else {
			s, err := store.OpenReadOnly(context.Background(), f.path, f.opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
		}
		for _, side := range []string{"-wal", "-shm"} {
			info, err := os.Stat(f.path + side)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, by a reader %v: %v, %v", side, reader, info.Mode(), err)
			}
		}
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx := context.Background()
	as := archivedCopies(f, "one", 3, time.Hour)
	if err := f.Save(ctx, as...); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(ctx, archivedCopies(f, "two", 2, time.Hour)...); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		q    store.ArchiveQuery
		want []string
	}{
		{store.ArchiveQuery{}, []string{marked("two", 1), marked("two", 0), marked("one", 2), marked("one", 1), marked("one", 0)}},
		{store.ArchiveQuery{Run: "run-one"}, []string{marked("one", 2), marked("one", 1), marked("one", 0)}},
		{store.ArchiveQuery{Run: "run-one", Copy: "dlq/1"}, []string{marked("one", 1)}},
		{store.ArchiveQuery{Job: marked("two", 1), Queue: "digests"}, []string{marked("two", 1)}},
		{store.ArchiveQuery{Queue: "another"}, nil},
	} {
		var got []string
		err := f.Archives(ctx, tt.q, func(a store.ArchivedCopy) error {
			got = append(got, a.MessageID)
			if a.Owner != "operator" || a.Action != "discard" || !a.KeptUntil.Equal(a.At.Add(time.Hour)) || a.Bytes == 0 {
				t.Errorf("%+v", a)
			}
			return nil
		})
		if d := cmp.Diff(tt.want, got); d != "" || err != nil {
			t.Errorf("%+v: %s %v", tt.q, d, err)
		}
		if n, err := f.CountArchived(ctx, tt.q); err != nil || int(n) != len(tt.want) {
			t.Errorf("%+v: counted %d, %v", tt.q, n, err)
		}
	}
}
