package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
)

// The triggers refuse what would change the log, from any program.
func TestLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 3)
	columns := `(seq, hash, record, time, action, phase, step, result, run, plan, queue, copy_id, job_key, message_id, customer)`
	values := `'', '', 0, '', '', '', '', '', '', '', '', '', '', '')`
	for name, statement := range map[string]string{
		"update":          `UPDATE audit SET action = 'x' WHERE seq = 2`,
		"update nothing":  `UPDATE audit SET action = action`,
		"update seq":      `UPDATE audit SET seq = 9 WHERE seq = 3`,
		"delete":          `DELETE FROM audit WHERE seq = 3`,
		"delete all":      `DELETE FROM audit`,
		"replace":         `REPLACE INTO audit ` + columns + ` VALUES (2, ` + values,
		"replace trigger": `PRAGMA recursive_triggers = 1; REPLACE INTO audit ` + columns + ` VALUES (3, ` + values,
		"upsert":          `INSERT INTO audit ` + columns + ` VALUES (3, ` + values + ` ON CONFLICT DO UPDATE SET action = 'x'`,
		"gap":             `INSERT INTO audit ` + columns + ` VALUES (5, ` + values,
		"gap or ignore":   `INSERT OR IGNORE INTO audit ` + columns + ` VALUES (5, ` + values,
		"before":          `INSERT INTO audit ` + columns + ` VALUES (0, ` + values,
		"no number":       `INSERT INTO audit ` + columns + ` VALUES (NULL, ` + values,
	} {
		if err := f.trySQL(statement); err == nil {
			t.Errorf("%s: was not refused", name)
		}
	}
	f.verified(t)
}

const (
	dropUpdate = `DROP TRIGGER audit_no_update; `
	dropDelete = `DROP TRIGGER audit_no_delete; `
	dropGap    = `DROP TRIGGER audit_no_gap; `
)

// restored is the change with the triggers put back as they were.
func (f *fixture) restored(t testing.TB, change string) {
	t.Helper()
	f.sql(t, `CREATE TABLE kept AS SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`)
	f.sql(t, dropUpdate+dropDelete+dropGap+change)
	f.sql(t, `PRAGMA writable_schema = 1; INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
  SELECT 'trigger', name, 'audit', 0, sql FROM kept; PRAGMA writable_schema = 0; DROP TABLE kept`)
}

// The log has 20 records and its checkpoint is remembered at the end.
func TestTamperedLogIsFound(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, change, what string }{
		{"trigger dropped", dropUpdate, "trigger audit_no_update is missing"},
		{"trigger weakened", dropDelete + `CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT 1; END`, "trigger audit_no_delete was changed"},
		{"record edited", `UPDATE audit SET record = replace(record, '"ana"', '"eve"') WHERE seq = 7`, "edited"},
		{"column edited", `UPDATE audit SET job_key = 'other' WHERE seq = 7`, "search column"},
		{"hash edited", `UPDATE audit SET hash = upper(hash) WHERE seq = 7`, "edited"},
		{"record removed", `DELETE FROM audit WHERE seq = 7`, "missing"},
		{"first removed", `DELETE FROM audit WHERE seq = 1`, "missing"},
		{"tail removed", `DELETE FROM audit WHERE seq > 15`, "ends at record 15"},
		{"tail removed with its mark", `DELETE FROM audit WHERE seq > 15;
			UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 15)`, "cut"},
		{"all removed", `DELETE FROM audit; UPDATE audit_head SET seq = 0, hash = ''`, "cut"},
		{"pair swapped", `CREATE TABLE two AS SELECT * FROM audit WHERE seq IN (7, 8); DELETE FROM audit WHERE seq IN (7, 8);
			UPDATE two SET seq = 15 - seq; INSERT INTO audit SELECT * FROM two`, "moved"},
		{"last edited with its hash", `UPDATE audit SET hash = '` + audit.Genesis + `' WHERE seq = 20`, "not the one that was written last"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			appendN(t, f.Store, 20)
			f.verified(t)
			if strings.Contains(tt.change, "TRIGGER") {
				f.sql(t, tt.change)
			} else {
				f.restored(t, tt.change)
			}
			f.wantBroken(t, tt.what)
		})
	}
}

// wantBroken checks that every way in finds the damage, on the open store and
// on one that is opened now.
func (f *fixture) wantBroken(t *testing.T, what string) {
	t.Helper()
	for range 2 {
		r, err := f.VerifyAudit(context.Background())
		if err != nil || r.OK {
			t.Fatalf("not found: %+v, %v", r, err)
		}
		if !contain(r.Problems, what) {
			t.Errorf("%q is not among %+v", what, r.Problems)
		}
		if _, err := f.tryBegin("00", "aa01"); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("a run began: %v", err)
		}
		f.Close()
		f.reopen(t)
	}
}

func contain(ps []audit.Problem, what string) bool {
	for _, p := range ps {
		if strings.Contains(p.What, what) {
			return true
		}
	}
	return false
}

// A tail that was rewritten with a valid chain is told by the checkpoint alone.
func TestRewrittenTailIsFound(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 20)
	f.verified(t)
	f.restored(t, `DELETE FROM audit WHERE seq > 15; UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 15)`)
	appendN(t, f.Store, 10) // the chain is valid again, and longer
	r, err := f.VerifyAudit(context.Background())
	if err != nil || r.OK || !contain(r.Problems, "rewritten") {
		t.Errorf("%+v, %v", r, err)
	}
	f.Close()
	f.opts.Remembered = audit.Remembered{Dir: filepath.Join(t.TempDir(), "of another machine")}
	f.reopen(t)
	f.verified(t) // nothing is remembered there: this is what the log alone cannot prove
}

// A cut tail stops the writer too: it would extend what is not the log.
func TestAppendRefusesCutLog(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 5)
	f.restored(t, `DELETE FROM audit WHERE seq = 5`)
	if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrBroken) || !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
}

// TestCheckpointVerifiesWhatOthersWrote: a writer takes for known what it wrote
// itself since its checkpoint. With another's record in between it reads.
func TestCheckpointVerifiesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 999) // and the checkpoint is number 1000
	other, err := store.Open(context.Background(), f.path, f.opts)
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, other, 2)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	f.restored(t, `UPDATE audit SET action = 'approve' WHERE seq = 1001`)
	appendN(t, f.Store, 1000)
	if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrBroken) {
		t.Error("another's record was edited, and the checkpoint has moved past it:", err)
	}
}

func TestAppendRefusesWithoutTriggers(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Close()
	f.sql(t, dropGap)
	f.reopen(t)
	if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrBroken) {
		t.Error(err)
	}
}

func TestDamagedCheckpointFile(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 5)
	f.verified(t)
	file := filepath.Join(f.opts.Remembered.Dir, "checkpoint-"+f.StoreID())
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := f.VerifyAudit(context.Background()); err == nil {
		t.Errorf("an unreadable checkpoint was taken for none: %+v", r)
	}
	if _, err := f.tryBegin("00", "aa01"); !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
}

func TestVerifyTail(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	from := appendN(t, f.Store, 5)
	head := appendN(t, f.Store, 5)
	if got, err := f.VerifyTail(ctx, from); err != nil || got != head {
		t.Error(got, err)
	}
	f.restored(t, `UPDATE audit SET record = replace(record, '"ana"', '"eve"') WHERE seq = 3`)
	if _, err := f.VerifyTail(ctx, from); err != nil {
		t.Error("the tail looked before its start:", err)
	}
	from.Hash = audit.Genesis
	if _, err := f.VerifyTail(ctx, from); !errors.Is(err, audit.ErrBroken) {
		t.Error(err)
	}
}

func TestExportVerifiesOffline(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	checkpoint := appendN(t, f.Store, 1200)
	appendN(t, f.Store, 10)
	var b bytes.Buffer
	if err := f.ExportAudit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	online := f.verified(t)
	offline, err := audit.VerifyExport(ctx, &b, checkpoint)
	if diff := cmp.Diff(online, offline); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, closed := range []bool{true, false} {
		f := open(t)
		appendN(t, f.Store, 20)
		head, _ := f.AuditHead(ctx)
		if closed {
			f.Close()
		}
		s, err := store.OpenReadOnly(ctx, f.path, f.opts)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.VerifyAudit(ctx); err != nil || !r.OK || r.Head != head {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := s.Append(ctx, record(1)); !errors.Is(err, audit.ErrNotWritable) || !errors.Is(err, store.ErrReadOnly) {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where nothing can be written the store can still be read, also when it was
// left with a write-ahead log.
func TestOpenReadOnlyInReadOnlyFolder(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root writes everywhere")
	}
	ctx := context.Background()
	f := open(t)
	appendN(t, f.Store, 20)
	head, _ := f.AuditHead(ctx)
	left := filepath.Join(t.TempDir(), "left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} { // as a crash leaves them
		b, err := os.ReadFile(f.path + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(left, "store.db"+suffix), b, 0o400)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(left, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(left, 0o700) })
	path := filepath.Join(left, "store.db")
	if _, err := store.Open(ctx, path, f.opts); !errors.Is(err, audit.ErrNotWritable) {
		t.Error("a store in a read-only folder was opened for writing:", err)
	}
	s, err := store.OpenReadOnly(ctx, path, f.opts)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.VerifyAudit(ctx); err != nil || !r.OK || r.Head != head {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
