package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/faultfs"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// openFaulty opens a store on a file layer of its own.
func openFaulty(t *testing.T) (*fixture, *faultfs.FS) {
	t.Helper()
	fs := faultfs.Register(t.Name())
	t.Cleanup(fs.Close)
	return open(t, func(o *store.Options) { o.VFS = fs.Name() }), fs
}

func TestFaultLayerPassesEverythingOn(t *testing.T) {
	t.Parallel()
	f, fs := openFaulty(t)
	appendN(t, f.Store, 10)
	if made, failed := fs.Calls(); made == 0 || failed != 0 {
		t.Error("the layer is not in the way of the file:", made, failed)
	}
	f.verified(t)
}

type fault struct {
	name string
	set  func(fs *faultfs.FS, n int)
}

func faults() []fault {
	return []fault{
		{"one I/O error", func(fs *faultfs.FS, n int) { fs.FailOnce(faultfs.Changes, n, faultfs.IOError) }},
		{"I/O errors from then on", func(fs *faultfs.FS, n int) { fs.FailFrom(faultfs.Changes, n, faultfs.IOError) }},
		{"full disk", func(fs *faultfs.FS, n int) { fs.FailFrom(faultfs.Write, n, faultfs.Full) }},
		{"one full disk", func(fs *faultfs.FS, n int) { fs.FailOnce(faultfs.Write, n, faultfs.Full) }},
		{"failing sync", func(fs *faultfs.FS, n int) { fs.FailFrom(faultfs.Sync, n, faultfs.IOError) }},
		{"read-only from then on", func(fs *faultfs.FS, n int) { fs.FailFrom(faultfs.Changes, n, faultfs.ReadOnly) }},
		{"torn write", func(fs *faultfs.FS, n int) { fs.Tear(n, faultfs.IOError) }},
	}
}

// maxCalls bounds the search for a fault that comes too late to be met.
const maxCalls = 200

// TestAppendFailsClosed puts a fault at each call that changes the disk, one
// after the other. After each, what was answered must be what is there.
func TestAppendFailsClosed(t *testing.T) {
	t.Parallel()
	for _, fault := range faults() {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f, fs := openFaulty(t)
			appendN(t, f.Store, 3)
			for n := range maxCalls {
				if !appendUnder(t, f, fs, fault, n) {
					return
				}
			}
			t.Error("the fault was always met")
		})
	}
}

// appendUnder appends three times under a fault at call n, then restarts, and
// reports whether the fault was met.
func appendUnder(t *testing.T, f *fixture, fs *faultfs.FS, fault fault, n int) bool {
	t.Helper()
	fault.set(fs, n)
	var good []audit.Head
	var bad int
	for range 3 {
		h, err := f.Append(context.Background(), record(n), record(n))
		if err == nil {
			good = append(good, h)
		} else if bad++; !errors.Is(err, audit.ErrNotWritable) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	f.Close() // its error is the fault's
	_, failed := fs.Calls()
	fs.Heal()
	f.reopen(t)
	r := f.verified(t)
	if failed == 0 && bad > 0 {
		t.Errorf("call %d: failed without a fault", n)
	}
	for _, h := range good {
		if !f.has(t, h) {
			t.Errorf("call %d: record %d was answered as durable and is not there", n, h.Seq)
		}
	}
	if (r.Records-3)%2 != 0 {
		t.Errorf("call %d: half a transaction is there", n)
	}
	return failed > 0
}

func (f *fixture) has(t *testing.T, h audit.Head) bool {
	t.Helper()
	found := false
	err := f.FindAudit(context.Background(), audit.Query{}, func(e audit.Entry) error {
		found = found || (e.Record.Seq == h.Seq && e.Hash == h.Hash)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBeginFailsClosed does the same with the start of a run: run, lease, plan
// state and record are there together or not at all.
func TestBeginFailsClosed(t *testing.T) {
	t.Parallel()
	for _, fault := range faults() {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			f, fs := openFaulty(t)
			for n := range maxCalls {
				id := f.plan(t, fmt.Sprint(n), item(n))
				fault.set(fs, n)
				_, err := f.tryBegin(id, redrive.RunID(fmt.Sprintf("aa%03d", n)))
				_, failed := fs.Calls()
				f.Close()
				fs.Heal()
				f.reopen(t)
				f.wantWhole(t, id, err)
				f.clock.add(ttl) // whatever lease there is ends
				if failed == 0 {
					return
				}
			}
			t.Error("the fault was always met")
		})
	}
}

// wantWhole checks that a start was recorded whole, and that it was if it was
// answered so.
func (f *fixture) wantWhole(t *testing.T, id redrive.PlanID, begun error) {
	t.Helper()
	ctx := context.Background()
	f.verified(t)
	p, err := f.LoadPlan(ctx, string(id))
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	err = f.FindAudit(ctx, audit.Query{Plan: string(id), Action: "run"}, func(audit.Entry) error {
		records++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	there := p.Run != ""
	lives := false
	if there {
		if lives, err = f.Lives(ctx, p.Run); err != nil {
			t.Fatal(err)
		}
	}
	if there != lives || there != (records == 1) || there != (p.State == redrive.PlanRunning) {
		t.Errorf("half a start: run %q, lives %v, %d records, plan %s", p.Run, lives, records, p.State)
	}
	if begun == nil && !there {
		t.Error("a start was answered as done and is not there")
	}
	if begun != nil && !errors.Is(begun, audit.ErrNotWritable) {
		t.Error(begun)
	}
}

// After an I/O error the store writes nothing more until it is opened again:
// what a later sync reports cannot be believed.
func TestStoreLostStaysLost(t *testing.T) {
	t.Parallel()
	f, fs := openFaulty(t)
	appendN(t, f.Store, 1)
	fs.FailOnce(faultfs.Sync, 0, faultfs.IOError)
	for range 3 {
		if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrNotWritable) {
			t.Error(err)
		}
	}
	f.Close()
	f.reopen(t)
	appendN(t, f.Store, 1)
	f.verified(t)
}

// A full disk can be made room on; then the store goes on.
func TestFullDiskHeals(t *testing.T) {
	t.Parallel()
	f, fs := openFaulty(t)
	fs.FailFrom(faultfs.Write, 0, faultfs.Full)
	if _, err := f.Append(context.Background(), record(1)); !errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
	fs.Heal()
	appendN(t, f.Store, 1)
	if r := f.verified(t); r.Records != 1 {
		t.Error(r)
	}
}

func TestCreateUnderFaults(t *testing.T) {
	t.Parallel()
	for n := range maxCalls {
		fs := faultfs.Register(fmt.Sprint(t.Name(), n))
		fs.FailFrom(faultfs.Changes, n, faultfs.IOError)
		path := t.TempDir() + "/store.db"
		o := store.Options{Create: true, VFS: fs.Name()}
		s, err := store.Open(context.Background(), path, o)
		_, failed := fs.Calls()
		if err == nil {
			s.Close()
		}
		fs.Heal()
		if s, err = store.Open(context.Background(), path, o); err != nil {
			t.Fatalf("after a fault at call %d of its creation the store cannot be opened: %v", n, err)
		}
		appendN(t, s, 1)
		s.Close()
		fs.Close()
		if failed == 0 {
			return
		}
	}
	t.Error("the fault was always met")
}
