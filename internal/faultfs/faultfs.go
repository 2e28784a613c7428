// Package faultfs is a file layer for SQLite that fails on command: at the n-th
// call that changes something, or from a moment on. It is for tests alone, and
// lies between SQLite and the operating system's files, so that a fault comes
// in where a full disk or a broken one would.
package faultfs

import (
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// Op is a kind of call that can fail.
type Op uint8

// The kinds; they combine with |.
const (
	Open Op = 1 << iota // of a file that may be written
	Write
	Sync
	Truncate
	Delete
	// Changes is every call that can change what is on the disk.
	Changes = Open | Write | Sync | Truncate | Delete
)

// Faults that a disk has. Any error that SQLite knows will do.
const (
	Full     = sqlite3.FULL
	IOError  = sqlite3.IOERR
	ReadOnly = sqlite3.READONLY
)

// FS is one registered file layer. Its methods may be called while the files
// are in use.
type FS struct {
	name string
	mu   sync.Mutex
	rule rule
	seen int
	hit  int
}

type rule struct {
	ops   Op
	after int  // calls of these kinds that still succeed
	once  bool // fail one call, then heal
	err   error
	torn  bool // a failing write leaves its first half
}

// Register makes a file layer that SQLite finds under name, until Close.
func Register(name string) *FS {
	f := &FS{name: name}
	vfs.Register(name, layer{vfs.Find(""), f})
	return f
}

// Name is what to pass as the name of the VFS.
func (f *FS) Name() string { return f.name }

// Close takes the layer out of SQLite's list. Files that are open stay usable.
func (f *FS) Close() { vfs.Unregister(f.name) }

// FailOnce lets n calls of the kinds ops pass, and fails the next with err.
func (f *FS) FailOnce(ops Op, n int, err error) {
	f.set(rule{ops: ops, after: n, once: true, err: err})
}

// FailFrom lets n calls of the kinds ops pass, and fails all that follow.
func (f *FS) FailFrom(ops Op, n int, err error) { f.set(rule{ops: ops, after: n, err: err}) }

// Tear is FailFrom for writes that stop half way, as when power is lost.
func (f *FS) Tear(n int, err error) { f.set(rule{ops: Changes, after: n, err: err, torn: true}) }

// Heal ends every fault.
func (f *FS) Heal() { f.set(rule{}) }

// Calls is how many calls of any of the kinds were made since the last rule was
// set, failed ones included, and how many of them failed.
func (f *FS) Calls() (made, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, f.hit
}

func (f *FS) set(r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule, f.seen, f.hit = r, 0, 0
}

// check counts one call and says whether it fails, and whether torn.
func (f *FS) check(op Op) (torn bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.rule.ops&op == 0 {
		return false, nil
	}
	if f.rule.after > 0 {
		f.rule.after--
		return false, nil
	}
	torn, err = f.rule.torn, f.rule.err
	f.hit++
	if f.rule.once {
		f.rule = rule{}
	}
	return torn, err
}

type layer struct {
	vfs.VFS
	fs *FS
}

// Open is asked only for a name that is not a Filename, which SQLite never has.
func (l layer) Open(string, vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return nil, 0, sqlite3.CANTOPEN
}

func (l layer) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if err := l.mayOpen(flags); err != nil {
		return nil, flags, err
	}
	inner, out, err := vfsutil.WrapOpenFilename(l.VFS, name, flags)
	if err != nil {
		return nil, out, err
	}
	return &file{File: inner, fs: l.fs}, out, nil
}

func (l layer) mayOpen(flags vfs.OpenFlag) error {
	if flags&vfs.OPEN_READWRITE == 0 {
		return nil
	}
	_, err := l.fs.check(Open)
	return err
}

func (l layer) Delete(name string, syncDir bool) error {
	if _, err := l.fs.check(Delete); err != nil {
		return err
	}
	return l.VFS.Delete(name, syncDir)
}

// file passes on what SQLite asks of an ordinary file, shared memory included.
type file struct {
	vfs.File
	fs *FS
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	torn, err := f.fs.check(Write)
	if err == nil {
		return f.File.WriteAt(p, off)
	}
	if torn {
		n, _ := f.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	return 0, err
}

func (f *file) Sync(flags vfs.SyncFlag) error {
	if _, err := f.fs.check(Sync); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

func (f *file) Truncate(size int64) error {
	if _, err := f.fs.check(Truncate); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Unwrap() vfs.File                { return f.File }
func (f *file) SharedMemory() vfs.SharedMemory  { return vfsutil.WrapSharedMemory(f.File) }
func (f *file) LockState() vfs.LockLevel        { return vfsutil.WrapLockState(f.File) }
func (f *file) PersistWAL() bool                { return vfsutil.WrapPersistWAL(f.File) }
func (f *file) SetPersistWAL(keep bool)         { vfsutil.WrapSetPersistWAL(f.File, keep) }
func (f *file) PowersafeOverwrite() bool        { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f *file) SetPowersafeOverwrite(psow bool) { vfsutil.WrapSetPowersafeOverwrite(f.File, psow) }
func (f *file) HasMoved() (bool, error)         { return vfsutil.WrapHasMoved(f.File) }
