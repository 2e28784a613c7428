package local_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

// failingVFS is the operating system's file layer, whose write-ahead log can be
// made to fail.
type failingVFS struct {
	vfs.VFSFilename
	failSync, failWrite *atomic.Bool
}

func (v failingVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, out, err := v.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, out, err
	}
	return &failingFile{file, v, strings.HasSuffix(name.String(), "-wal")}, out, nil
}

type failingFile struct {
	vfs.File
	v   failingVFS
	log bool
}

func (f *failingFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f *failingFile) Sync(flags vfs.SyncFlag) error {
	if f.log && f.v.failSync.Load() {
		return sqlite3.IOERR_FSYNC
	}
	return f.File.Sync(flags)
}

func (f *failingFile) WriteAt(b []byte, at int64) (int, error) {
	if f.log && f.v.failWrite.Load() {
		return 0, sqlite3.FULL
	}
	return f.File.WriteAt(b, at)
}

func openFailing(t *testing.T) (f *local.File, failSync, failWrite *atomic.Bool) {
	t.Helper()
	v := failingVFS{vfs.Find("os").(vfs.VFSFilename), new(atomic.Bool), new(atomic.Bool)}
	vfs.Register(t.Name(), v)
	t.Cleanup(func() { vfs.Unregister(t.Name()) })
	f, err := local.Open(filepath.Join(t.TempDir(), "queue.db"), local.Options{Create: true, VFS: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs"}); err != nil {
		t.Fatal(err)
	}
	return f, v.failSync, v.failWrite
}

// A commit that fails leaves its fate open: every entry is Unknown, never Done
// and never Refused; and afterwards the file works as before.
func TestFailedCommitIsUnknown(t *testing.T) {
	for _, kind := range []string{"sync", "write"} {
		t.Run(kind, func(t *testing.T) {
			f, failSync, failWrite := openFailing(t)
			fail := map[string]*atomic.Bool{"sync": failSync, "write": failWrite}[kind]
			q := f.Queue("jobs")
			fill(t, q, "jobs", 2)
			ds := receive(t, q, 2)
			fail.Store(true)
			calls := map[string][]broker.Result{
				"publish": q.Publish(t.Context(), "jobs", make([]broker.Outgoing, 2)),
				"ack":     q.Ack(t.Context(), ds),
				"extend":  q.Extend(t.Context(), ds, time.Minute),
			}
			if _, err := q.Receive(t.Context(), broker.Request{Max: 1}); err != nil {
				t.Logf("receive: %v", err)
			}
			fail.Store(false)
			for what, rs := range calls {
				for i, r := range rs {
					if r.Outcome != broker.Unknown || r.Err == nil {
						t.Errorf("%s, result %d: %s (%v)", what, i, r.Outcome, r.Err)
					}
				}
			}
			mustDone(t, q.Ack(t.Context(), ds))
		})
	}
}

// What fails before its commit was provably not applied.
func TestEndedContextIsRefused(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("jobs")
	fill(t, q, "jobs", 1)
	ds := receive(t, q, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, r := range append(q.Ack(ctx, ds), q.Publish(ctx, "jobs", make([]broker.Outgoing, 3))...) {
		if r.Outcome != broker.Refused || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("result %d: %s (%v)", i, r.Outcome, r.Err)
		}
	}
	mustDone(t, q.Ack(t.Context(), ds))
}

// Wherever a context ends inside a receive, either the copies are returned or
// they are not leased.
func TestReceiveEndedMidway(t *testing.T) {
	t.Parallel()
	f, _ := openFile(t, false)
	q := f.Queue("elsewhere")
	fill(t, q, "elsewhere", 400)
	held := 0
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range i * 20 {
				runtime.Gosched()
			}
			cancel()
		}()
		ds, err := q.Receive(ctx, broker.Request{Max: 2, Lease: time.Hour})
		cancel()
		if err != nil && (len(ds) > 0 || !errors.Is(err, context.Canceled)) {
			t.Fatalf("%d copies and error %v", len(ds), err)
		}
		held += len(ds)
	}
	d, err := q.Describe(t.Context())
	if err != nil || d.Depth.InFlight != int64(held) {
		t.Fatalf("%d copies were returned, %d are leased, error %v", held, d.Depth.InFlight, err)
	}
	t.Logf("%d of 200 receives returned copies", held/2)
}
