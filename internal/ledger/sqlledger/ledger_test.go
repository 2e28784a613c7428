package sqlledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

func made(t *testing.T, cfg Config, ddl string) *Ledger {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path, cfg.Create = filepath.Join(t.TempDir(), "ledger.db"), true
	}
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if ddl == "" {
		err = l.Init(context.Background())
	} else {
		_, err = l.db.Exec(ddl)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func whats(t *testing.T, l *Ledger) (ws []string) {
	t.Helper()
	fs, err := l.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		ws = append(ws, f.Severity+" "+f.What)
	}
	return ws
}

func TestBind(t *testing.T) {
	t.Parallel()
	d := sqliteDialect()
	got, args, err := d.bind(`SELECT ':no', ":no", a::int, :b, :a_1 -- :no
		/* :no */ FROM t WHERE x = :b`, named{"a_1": 1, "b": 2})
	want := `SELECT ':no', ":no", a::int, ?1, ?2 -- :no
		/* :no */ FROM t WHERE x = ?1`
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if d := cmp.Diff([]any{2, 1}, args); d != "" {
		t.Error(d)
	}
	if _, _, err := d.bind("SELECT :unknown", named{}); err == nil {
		t.Error("a parameter without a value is bound")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"neither path nor dsn": {},
		"both":                 {Path: "a", DSN: "b"},
		"mode":                 {Path: "a", Mode: "append"},
		"dialect":              {Path: "a", Dialect: "oracle"},
		"injected table":       {Path: "a", Table: `t"; DROP TABLE x; --`},
		"injected column":      {Path: "a", Columns: map[string]string{"state": `s" OR 1`}},
		"unknown column":       {Path: "a", Columns: map[string]string{"stat": "s"}},
		"unknown statement":    {Path: "a", Statements: map[string]string{"put": "x"}},
		"version order":        {Path: "a", VersionOrder: "semver"},
		"time format":          {Path: "a", TimeFormat: "stardate"},
		"retention":            {Path: "a", Retention: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOpenMissingFile(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Read, Write} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		if _, err := Open(t.Context(), Config{Path: path, Mode: mode}); err == nil {
			t.Errorf("%s: a missing file opens", mode)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the file was made", mode)
		}
	}
}

// TestReadModeWritesNothing compares the file's bytes, journal included.
func TestReadModeWritesNothing(t *testing.T) {
	t.Parallel()
	w := made(t, Config{}, "")
	if err := w.Insert(t.Context(), ledger.NewRow{Key: ledger.Key{JobKey: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(w.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Config{Path: w.cfg.Path, Mode: Read})
	if err != nil {
		t.Fatal(err)
	}
	if lk := r.Get(t.Context(), []ledger.Key{{JobKey: "a"}})[0]; lk.Found != ledger.Present {
		t.Errorf("read: %+v", lk)
	}
	if _, err := r.db.Exec("DELETE FROM deliveries"); err == nil {
		t.Error("the database of a read-only ledger can be written")
	}
	if err := r.Insert(t.Context(), ledger.NewRow{Key: ledger.Key{JobKey: "b"}}); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("insert: %v", err)
	}
	if err := r.Init(t.Context()); !errors.Is(err, ledger.ErrReadOnly) {
		t.Errorf("init: %v", err)
	}
	_ = r.Close()
	after, err := os.ReadFile(w.cfg.Path)
	if err != nil || string(before) != string(after) {
		t.Errorf("the file changed (%v)", err)
	}
}

const bare = `CREATE TABLE deliveries (job_key TEXT, state TEXT, attempt INTEGER)`

func TestBareTable(t *testing.T) {
	t.Parallel()
	l := made(t, Config{RowWritten: ledger.AtClaim, Retention: time.Hour}, bare+`; INSERT INTO deliveries VALUES ('a', 'failed', 2)`)
	want := ledger.Capabilities{MaxBatch: maxBatch, RowWritten: ledger.AtClaim, Retention: time.Hour}
	if d := cmp.Diff(want, l.Capabilities()); d != "" {
		t.Error(d)
	}
	lk := l.Get(t.Context(), []ledger.Key{{JobKey: "a", Consumer: "any"}})[0]
	if d := cmp.Diff(ledger.Row{Key: ledger.Key{JobKey: "a"}, State: ledger.Failed, Attempt: 2}, lk.Row); d != "" || lk.Found != ledger.Present {
		t.Errorf("%s %v\n%s", lk.Found, lk.Err, d)
	}
	r := l.Apply(t.Context(), []ledger.Change{{Key: lk.Row.Key, From: ledger.Failed, FromAttempt: 2, To: ledger.Queued}})[0]
	if r.Outcome != ledger.Lost || !errors.Is(r.Err, ErrSchema) {
		t.Errorf("a change without the columns for its rules: %d, %v", r.Outcome, r.Err)
	}
}

func TestNoTableThenInit(t *testing.T) {
	t.Parallel()
	l, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "l.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if lk := l.Get(t.Context(), []ledger.Key{{JobKey: "a"}})[0]; lk.Found != ledger.Unreadable {
		t.Errorf("without a table a row is %s", lk.Found)
	}
	if d := cmp.Diff([]string{"error no_table"}, whats(t, l)); d != "" {
		t.Error(d)
	}
	for range 2 {
		if err := l.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string(nil), whats(t, l)); d != "" {
		t.Errorf("the shipped schema has findings:\n%s", d)
	}
	if c := l.Capabilities(); !c.Writable || !c.Scoped || !c.History || !c.SendBefore || !c.PayloadSHA256 {
		t.Errorf("capabilities %+v", c)
	}
}

func TestCheckFindsRows(t *testing.T) {
	t.Parallel()
	l := made(t, Config{Now: func() time.Time { return time.Now().Add(time.Hour) }}, bare+`;
		ALTER TABLE deliveries ADD COLUMN send_deadline TEXT; ALTER TABLE deliveries ADD COLUMN claimed_at TEXT;
		INSERT INTO deliveries VALUES ('a', 'lost', 1, NULL, NULL), ('b', 'sending', 1, NULL, NULL), ('b', 'sent', 1, 'soon', NULL)`)
	got := whats(t, l)
	for _, want := range []string{
		"error missing_column", "warning no_history", "error key_not_unique", "warning no_state_index", "warning clock_skew",
		"error unknown_state", "error sending_unclaimed", "error sending_without_deadline", "error unreadable_deadline", "error duplicate_key",
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%q is not found in %q", want, got)
		}
	}
	ls := l.Get(t.Context(), []ledger.Key{{JobKey: "b"}, {JobKey: "a"}, {JobKey: "c"}})
	for i, want := range []ledger.Found{ledger.Unreadable, ledger.Unreadable, ledger.Missing} {
		if ls[i].Found != want {
			t.Errorf("row %d is %s, want %s", i, ls[i].Found, want)
		}
	}
}

// TestClaimWithoutHistoryLine: a worker that keeps the row but no history has
// tried all the same, until a verdict covers it.
func TestClaimWithoutHistoryLine(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	k := ledger.Key{JobKey: "a"}
	if err := l.Insert(t.Context(), ledger.NewRow{Key: k}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.db.Exec(`UPDATE deliveries SET state = 'sending', claimed_at = '2026-01-01 10:00:00', send_deadline = '2026-01-01T10:00:30Z'`); err != nil {
		t.Fatal(err)
	}
	row := l.Get(t.Context(), []ledger.Key{k})[0].Row
	a, open := row.EarliestUnresolved()
	if !open || a.Number != 1 || a.ClaimedAt.Hour() != 10 || a.SendDeadline.Second() != 30 {
		t.Fatalf("attempt %+v, %t", a, open)
	}
	for _, c := range []ledger.Change{
		{Key: k, From: ledger.Sending, FromAttempt: 1, To: ledger.Fenced},
		{Key: k, From: ledger.Fenced, FromAttempt: 1, To: ledger.Failed, Effect: "none", Resolve: ledger.ByVerdict},
		{Key: k, From: ledger.Failed, FromAttempt: 1, To: ledger.Queued},
	} {
		if r := l.Apply(t.Context(), []ledger.Change{c})[0]; r.Outcome != ledger.Won {
			t.Fatalf("%s → %s: %v", c.From, c.To, r.Err)
		}
	}
	row = l.Get(t.Context(), []ledger.Key{k})[0].Row
	if a, open := row.EarliestUnresolved(); open {
		t.Errorf("after the verdict %+v is unresolved", a)
	}
}

// TestOwnStatements reads and changes a table that no mapping of names fits.
func TestOwnStatements(t *testing.T) {
	t.Parallel()
	l := made(t, Config{Statements: map[string]string{
		"now": `SELECT '2026-05-01T00:00:00Z'`,
		"get": `SELECT k AS job_key, CASE s WHEN 0 THEN 'queued' ELSE 'sending' END AS state, 3 AS attempt, ':x' AS reason
			FROM mine WHERE k IN (SELECT json_extract(value, '$.job_key') FROM json_each(:keys))`,
		"change": `UPDATE mine SET s = s + 1 WHERE k = :job_key AND s = 0 AND :from_state = 'queued' AND :to_state = 'sending' AND :attempt = 3`,
	}}, `CREATE TABLE mine (k TEXT, s INTEGER); INSERT INTO mine VALUES ('a', 0)`)
	k := ledger.Key{JobKey: "a"}
	lk := l.Get(t.Context(), []ledger.Key{k})[0]
	want := ledger.Row{Key: k, State: ledger.Queued, Attempt: 3, Reason: ":x"}
	if d := cmp.Diff(want, lk.Row); d != "" {
		t.Errorf("%s %v\n%s", lk.Found, lk.Err, d)
	}
	claim := ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 3, To: ledger.Sending, ClaimLife: time.Second}
	rs := l.Apply(t.Context(), []ledger.Change{claim, claim})
	if rs[0].Outcome != ledger.Won || rs[1].Outcome != ledger.Lost || rs[0].Row.State != ledger.Sending {
		t.Errorf("%+v", rs)
	}
	if now, err := l.Now(t.Context()); err != nil || now.Month() != time.May {
		t.Errorf("now %s, %v", now, err)
	}
	if c := l.Capabilities(); !c.Writable || c.Scoped || c.History {
		t.Errorf("capabilities %+v", c)
	}
	for _, f := range whats(t, l) {
		if f == "error no_table" || f == "error key_not_unique" {
			t.Error(f)
		}
	}
}

// TestOwnGet: a statement that aggregates the history, as it is documented, answers
// as the shipped one does, which reads line for line.
func TestOwnGet(t *testing.T) {
	t.Parallel()
	l := made(t, Config{Consumer: "mailer"}, "")
	ks := []ledger.Key{{JobKey: `a "quoted" \ <key>`, Consumer: "mailer"}, {JobKey: "b", Consumer: "pager"}, {JobKey: "b", Consumer: "mailer"}, {JobKey: "none"}}
	for _, k := range ks[:3] {
		if err := l.Insert(t.Context(), ledger.NewRow{Key: k, Actor: "app", Subject: "s", Version: "2026-03-01T12:00:00Z"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []ledger.Change{
		{Key: ks[0], From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"},
		{Key: ks[0], From: ledger.Sending, FromAttempt: 1, To: ledger.Failed, ErrorClass: "throttled", Effect: ledger.EffectNone, Reason: "é", Retryable: true, Resolve: ledger.ByWorker},
		{Key: ks[0], From: ledger.Failed, FromAttempt: 1, To: ledger.Queued, Run: "run-1", Actor: "run-1"},
		{Key: ks[0], From: ledger.Queued, FromAttempt: 2, FromRun: "run-1", To: ledger.Sending, ClaimLife: time.Minute},
		{Key: ks[2], From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute},
	} {
		if r := l.Apply(t.Context(), []ledger.Change{c})[0]; r.Outcome != ledger.Won {
			t.Fatalf("%s → %s: %v", c.From, c.To, r.Err)
		}
	}
	lay, err := l.tableLayout(t.Context(), l.db)
	if err != nil {
		t.Fatal(err)
	}
	own := made(t, Config{Path: l.cfg.Path, Consumer: "mailer", Statements: map[string]string{"get": l.selectRows(lay) + ` WHERE (d.job_key, d.consumer) IN (
		SELECT json_extract(value, '$.job_key'), json_extract(value, '$.consumer') FROM json_each(:keys))`}}, "SELECT 1")
	want := l.Get(t.Context(), ks)
	if d := cmp.Diff(want, own.Get(t.Context(), ks)); d != "" {
		t.Error(d)
	}
	if n := len(want[0].Row.Attempts); n != 2 || len(want[1].Row.Attempts) != 0 || want[2].Row.State != ledger.Sending || want[3].Found != ledger.Missing {
		t.Errorf("%+v", want)
	}
	for _, k := range ks[:3] {
		a, _, err := l.History(t.Context(), k)
		b, _, bad := own.History(t.Context(), k)
		if d := cmp.Diff(a, b); d != "" || err != nil || bad != nil {
			t.Errorf("%v %v\n%s", err, bad, d)
		}
	}
}

// TestTextThatIsATime: the driver takes it for a time where the column's type does
// not say text.
func TestTextThatIsATime(t *testing.T) {
	t.Parallel()
	const at = "2026-03-01T12:00:00.5+02:00"
	l := made(t, Config{}, `CREATE TABLE deliveries (job_key VARCHAR(80), state, attempt INTEGER, version); INSERT INTO deliveries VALUES ('`+at+`', 'failed', 2, '`+at+`')`)
	lk := l.Get(t.Context(), []ledger.Key{{JobKey: at}})[0]
	if lk.Found != ledger.Present || lk.Row.Version != at {
		t.Errorf("%+v", lk)
	}
}

// TestScanAsksAgain: who reads a window may ask for a row meanwhile.
func TestScanAsksAgain(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	ks := []ledger.Key{{JobKey: "a"}, {JobKey: "b"}}
	if err := l.Insert(t.Context(), ledger.NewRow{Key: ks[0]}, ledger.NewRow{Key: ks[1]}); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := l.Scan(t.Context(), ledger.Window{}, func(r ledger.Row) error {
		n++
		if lk := l.Get(t.Context(), []ledger.Key{r.Key})[0]; lk.Found != ledger.Present {
			t.Errorf("%+v", lk)
		}
		return l.Scan(t.Context(), ledger.Window{Limit: 1}, func(ledger.Row) error { return nil })
	})
	if err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestDatabaseClock(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	now, err := l.Now(t.Context())
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("now %s, %v", now, err)
	}
}

// TestCommitUnknown: after the commit was sent, what had won is unknown, what
// had lost stays lost, and reading back tells.
func TestCommitUnknown(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	k := ledger.Key{JobKey: "a"}
	if err := l.Insert(t.Context(), ledger.NewRow{Key: k}); err != nil {
		t.Fatal(err)
	}
	if err := l.loseCommits(); err != nil {
		t.Fatal(err)
	}
	fence := ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Fenced}
	rs := l.Apply(t.Context(), []ledger.Change{fence, fence})
	if rs[0].Outcome != ledger.Unknown || !errors.Is(rs[0].Err, errLost) || rs[1].Outcome != ledger.Lost {
		t.Errorf("%+v", rs)
	}
	if s := l.Get(t.Context(), []ledger.Key{k})[0].Row.State; s != ledger.Fenced {
		t.Errorf("read back: %s", s)
	}
}

func TestBeginFails(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := l.Apply(ctx, []ledger.Change{{Key: ledger.Key{JobKey: "a"}, From: ledger.Queued, FromAttempt: 1, To: ledger.Fenced}})[0]
	if r.Outcome != ledger.Unknown || !errors.Is(r.Err, context.Canceled) {
		t.Errorf("outcome %d, %v", r.Outcome, r.Err)
	}
}

// TestIndexes holds the plan of the statements that run once per batch or change.
func TestIndexes(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	lay, err := l.tableLayout(t.Context(), l.db)
	if err != nil {
		t.Fatal(err)
	}
	claim := ledger.Change{From: ledger.Queued, To: ledger.Sending}
	for _, q := range []string{lay.get[true], l.updateRow(lay, shapeOf(claim))} {
		b := l.sql.bound("EXPLAIN QUERY PLAN " + q)
		args := make([]any, len(b.names))
		if slices.Contains(b.names, "pairs") {
			args[0] = "{}"
		}
		rows, err := l.db.Query(b.query, args...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(detail, "SCAN") && !strings.HasPrefix(detail, "SCAN json_each") {
				t.Errorf("%s in %s", detail, q)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestRendering(t *testing.T) {
	t.Parallel()
	l := made(t, Config{}, "")
	k := ledger.Key{JobKey: "a"}
	if _, err := l.Rendering(t.Context(), k); !errors.Is(err, ledger.ErrMissing) {
		t.Errorf("without a row: %v", err)
	}
	if err := l.Insert(t.Context(), ledger.NewRow{Key: k}); err != nil {
		t.Fatal(err)
	}
	if b, err := l.Rendering(t.Context(), k); b != nil || err != nil {
		t.Errorf("before: %q, %v", b, err)
	}
	for _, content := range []string{"first\x00", "second"} {
		if b, err := l.SaveRendering(t.Context(), k, []byte(content)); string(b) != "first\x00" || err != nil {
			t.Errorf("stored %q, %v", b, err)
		}
	}
	if _, err := l.db.Exec("UPDATE deliveries SET rendering = 'other'"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Rendering(t.Context(), k); err == nil {
		t.Error("a changed rendering is given out")
	}
}

func TestNewFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := Open(t.Context(), Config{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o", mode)
	}
}

// TestOpenKeepsTheDSNToItself: it may be another database's, with a password.
func TestOpenKeepsTheDSNToItself(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"app:hunter2@tcp(db)/x", "file:/none/hunter2/x.db", "postgres://app:hunter2@db/x"} {
		_, err := Open(t.Context(), Config{DSN: dsn})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}
