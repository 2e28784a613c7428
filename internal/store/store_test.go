package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(appenderEnv); path != "" {
		os.Exit(appender(path))
	}
	goleak.VerifyTestMain(m)
}

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

type fixture struct {
	*store.Store
	path  string
	clock *clock
	opts  store.Options
}

func open(t testing.TB, change ...func(*store.Options)) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{path: filepath.Join(dir, "store", "store.db"), clock: newClock()}
	f.opts = store.Options{Create: true, Now: f.clock.now, Remembered: audit.Remembered{Dir: filepath.Join(dir, "state")}}
	for _, c := range change {
		c(&f.opts)
	}
	f.reopen(t)
	return f
}

// reopen opens the store, again after a close.
func (f *fixture) reopen(t testing.TB) {
	t.Helper()
	s, err := store.Open(context.Background(), f.path, f.opts)
	if err != nil {
		t.Fatal(err)
	}
	f.Store = s
	t.Cleanup(func() { s.Close() }) // a second close is harmless
}

// sql changes the file as somebody with a SQLite shell would.
func (f *fixture) sql(t testing.TB, statements string, args ...any) {
	t.Helper()
	if err := f.trySQL(statements, args...); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) trySQL(statements string, args ...any) error {
	db, err := driver.Open("file:" + f.path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statements, args...)
	return errors.Join(err, db.Close())
}

// raw is the file as any program sees it.
func (f *fixture) raw(t testing.TB) *sql.DB {
	t.Helper()
	db, err := driver.Open("file:" + f.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (f *fixture) verified(t testing.TB) audit.Report {
	t.Helper()
	r, err := f.VerifyAudit(context.Background())
	if err != nil || !r.OK {
		t.Fatalf("the log does not verify: %+v, %v", r, err)
	}
	return r
}

func record(n int) audit.Record {
	return audit.Record{
		Actor: audit.Person{Name: "ana", Known: "account"}, Action: "reveal", Phase: audit.Outcome,
		JobKey: fmt.Sprintf("job-%d", n), MessageID: fmt.Sprintf("m-%d", n),
	}
}

func appendN(t testing.TB, s *store.Store, n int) audit.Head {
	t.Helper()
	rs := make([]audit.Record, n)
	for i := range rs {
		rs[i] = record(i)
	}
	h, err := s.Append(context.Background(), rs...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestOpenModes(t *testing.T) {
	t.Parallel()
	f := open(t)
	appendN(t, f.Store, 1)
	for path, want := range map[string]fs.FileMode{filepath.Dir(f.path): 0o700, f.path: 0o600, f.path + "-wal": 0o600, f.path + "-shm": 0o600} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", filepath.Base(path), fi.Mode(), err)
		}
	}
}

func TestOpenMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none", "store.db")
	if _, err := store.Open(context.Background(), path, store.Options{}); !errors.Is(err, store.ErrNoStore) {
		t.Error(err)
	}
	if _, err := store.OpenReadOnly(context.Background(), path, store.Options{}); !errors.Is(err, store.ErrNoStore) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("opening made something:", err)
	}
}

func TestOpenNotAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, []byte("this is no database, and it is longer than a header of one would be........................................"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(context.Background(), path, store.Options{}); !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
}

func TestOpenNewerVersion(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Close()
	f.sql(t, `INSERT INTO migrations VALUES (99, 0)`)
	if _, err := store.Open(context.Background(), f.path, f.opts); err == nil {
		t.Error("a store of a newer version was opened")
	}
}

func TestStoreIDStays(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.StoreID()
	f.Close()
	f.reopen(t)
	if len(id) != 32 || f.StoreID() != id {
		t.Error(id, f.StoreID())
	}
	if other := open(t); other.StoreID() == id {
		t.Error("two stores have one ID")
	}
}

func TestPathWithOddCharacters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?c#d%20e&ü", "store.db")
	s, err := store.Open(context.Background(), path, store.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	appendN(t, s, 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() == 0 {
		t.Error("the store is elsewhere:", err)
	}
}

func TestAppendFillsIn(t *testing.T) {
	t.Parallel()
	f := open(t)
	h, err := f.Append(context.Background(), record(1), record(2))
	if err != nil {
		t.Fatal(err)
	}
	var got []audit.Entry
	err = f.FindAudit(context.Background(), audit.Query{OldestFirst: true}, func(e audit.Entry) error {
		got = append(got, e)
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	want := []audit.Entry{{Record: record(1), Hash: got[1].Record.Previous}, {Record: record(2), Hash: h.Hash}}
	for i := range want {
		want[i].Record.Seq, want[i].Record.Time, want[i].Record.Store = int64(i+1), f.clock.now(), f.StoreID()
	}
	want[0].Record.Previous, want[1].Record.Previous = audit.Genesis, got[0].Hash
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want := (audit.Head{Store: f.StoreID(), Seq: 2, Hash: got[1].Hash}); h != want {
		t.Errorf("head %+v, want %+v", h, want)
	}
}

func TestAppendHostileText(t *testing.T) {
	t.Parallel()
	f := open(t)
	r := record(1)
	r.JobKey, r.Reason = "a\x00b\xff\xfe\"\\\u202e", "\x1b]52;c;\x07"
	if _, err := f.Append(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	f.verified(t)
	n := 0
	err := f.FindAudit(context.Background(), audit.Query{JobKey: "a\x00b\ufffd\ufffd\"\\\u202e"}, func(e audit.Entry) error {
		n++
		return nil
	})
	if n != 1 || err != nil {
		t.Error(n, err)
	}
}

// A record that cannot be written takes those with it that came in one call, and
// nobody else's.
func TestAppendAllOrNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	before := appendN(t, f.Store, 1)
	bad, inexact := record(3), 1<<53+1
	bad.Attempt = &inexact
	if _, err := f.Append(context.Background(), record(2), bad); !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
	if head, err := f.AuditHead(context.Background()); err != nil || head != before {
		t.Error(head, err)
	}
	if h := appendN(t, f.Store, 1); h.Seq != before.Seq+1 {
		t.Error(h)
	}
	f.verified(t)
}

func TestAppendManyGoroutines(t *testing.T) {
	t.Parallel()
	f := open(t)
	const goroutines, each = 64, 40
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				if _, err := f.Append(context.Background(), record(g*each+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := f.verified(t)
	checkpoints := r.Records - goroutines*each
	if checkpoints != r.Records/1000 {
		t.Errorf("%d records, %d of them checkpoints", r.Records, checkpoints)
	}
	commits, records := f.CommitStats()
	if records != r.Records || commits*8 > records {
		t.Errorf("%d commits for %d records: callers are not grouped", commits, records)
	}
}

func TestAppendAfterClose(t *testing.T) {
	t.Parallel()
	f := open(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
}

func TestAppendCancelled(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 50 {
		before, _ := f.AuditHead(context.Background())
		h, err := f.Append(ctx, record(1))
		after, _ := f.AuditHead(context.Background())
		if err == nil && h != after || err != nil && (after != before || !errors.Is(err, context.Canceled)) {
			t.Fatalf("head %v, then %v; answered %v, %v", before, after, h, err)
		}
	}
}

func TestFindAudit(t *testing.T) {
	t.Parallel()
	f := open(t)
	for i := range 6 {
		r := record(i)
		r.Run, r.Customer = fmt.Sprintf("r%d", i%2), fmt.Sprintf("c%d", i%3)
		if _, err := f.Append(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		f.clock.add(time.Second)
	}
	start := newClock().now()
	tests := []struct {
		q    audit.Query
		want []int64
	}{
		{audit.Query{}, []int64{6, 5, 4, 3, 2, 1}},
		{audit.Query{Limit: 2}, []int64{6, 5}},
		{audit.Query{After: 4}, []int64{6, 5}},
		{audit.Query{Run: "r0"}, []int64{5, 3, 1}},
		{audit.Query{Run: "r0", Customer: "c2", OldestFirst: true}, []int64{3}},
		{audit.Query{JobKey: "job-1"}, []int64{2}},
		{audit.Query{JobKey: "job"}, nil},
		{audit.Query{JobKeyPrefix: "job-", Limit: 1, OldestFirst: true}, []int64{1}},
		{audit.Query{MessageID: "m-3"}, []int64{4}},
		{audit.Query{Action: "reveal", Since: start.Add(4 * time.Second)}, []int64{6, 5}},
		{audit.Query{Until: start.Add(time.Second)}, []int64{1}},
	}
	for _, tt := range tests {
		var got []int64
		err := f.FindAudit(context.Background(), tt.q, func(e audit.Entry) error {
			if !tt.q.Match(e.Record) {
				t.Errorf("%+v gave %+v, which Match denies", tt.q, e.Record)
			}
			got = append(got, e.Record.Seq)
			return nil
		})
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v\n%s", tt.q, err, diff)
		}
	}
}
