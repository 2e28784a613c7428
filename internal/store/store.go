// Package store is the operator's store in one SQLite file: the audit log, plans
// and approvals, runs and leases, captures, verdicts, manual holds and archives.
// It implements what packages audit, redrive and reconcile ask for.
//
// Everything that changes the file goes through one goroutine, which commits
// what several callers want in one transaction. A method that changes something
// is durable when it returns nil; an error that wraps audit.ErrNotWritable means
// that nothing may be taken for written.
package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// DefaultGroupWait is how long an append waits for others to join its commit.
const DefaultGroupWait = 2 * time.Millisecond

// ErrNoStore says that there is no store at the path.
var ErrNoStore = errors.New("there is no store")

// ErrOlder says that the store was made by an earlier version. Opening it for
// writing brings it to this one; for reading alone it is left as it is.
var ErrOlder = errors.New("store is of an earlier version")

// ErrReadOnly says that the store was opened for reading.
var ErrReadOnly = errors.New("store is open for reading only")

// Options say how to open a store. The zero value opens an existing one.
type Options struct {
	// Create makes the file (mode 0600), and its folder (mode 0700), if missing.
	Create bool
	// Remembered keeps the checkpoints outside the store. With no folder nothing
	// is remembered, and a cut tail cannot be told.
	Remembered audit.Remembered
	// Now is the clock of records and leases; nil is time.Now.
	Now func() time.Time
	// GroupWait is DefaultGroupWait when 0; negative never waits.
	GroupWait time.Duration
	// VFS names a registered SQLite file layer; empty is the operating system's.
	VFS string
}

// Store is an open store. All methods may be called from several goroutines.
type Store struct {
	path       string
	id         string
	now        func() time.Time
	remembered audit.Remembered
	read       *reader
	writer     *writer // nil when read-only
	cleanup    func() error

	mu            sync.Mutex
	checkpointErr error
}

var (
	_ audit.Log          = (*Store)(nil)
	_ redrive.Plans      = (*Store)(nil)
	_ redrive.Runs       = (*Store)(nil)
	_ redrive.Wishes     = (*Store)(nil)
	_ redrive.Archive    = (*Store)(nil)
	_ redrive.Captures   = (*Store)(nil)
	_ reconcile.Verdicts = (*Store)(nil)
	_ reconcile.Memory   = (*Store)(nil)
	_ reconcile.Holds    = (*Store)(nil)
)

// Open opens the store at path for reading and writing. A store that does not
// exist is ErrNoStore unless o.Create is set; one that exists and cannot be
// written wraps audit.ErrNotWritable.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := prepareFiles(path, o.Create); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{path: path, now: o.Now, remembered: o.Remembered, cleanup: func() error { return nil }}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.openWriting(ctx, o); err != nil {
		if ctx.Err() != nil { // whatever the driver makes of being interrupted
			err = ctx.Err()
		}
		return nil, notWritable("open store "+path, err)
	}
	return s, nil
}

func (s *Store) openWriting(ctx context.Context, o Options) error {
	write, err := openDB(dsn(s.path, o.VFS, "rw"), 1)
	if err != nil {
		return err
	}
	if s.id, err = prepareSchema(ctx, write, s.now()); err != nil {
		return errors.Join(err, write.Close())
	}
	if s.read, err = openReader(dsn(s.path, o.VFS, "rw")); err != nil {
		return errors.Join(err, write.Close())
	}
	err = s.read.PingContext(ctx) // opens the file, so that a lost store is found here
	var broken []string
	if err == nil {
		broken, err = s.faults(ctx, write)
	}
	if err == nil {
		s.writer, err = newWriter(ctx, write, s, o.GroupWait, broken)
	}
	if err != nil {
		return errors.Join(err, write.Close(), s.read.Close())
	}
	return nil
}

// Close commits what was handed in, closes the file and frees the store. Its
// error includes a checkpoint that could not be remembered.
func (s *Store) Close() error {
	var err error
	if s.writer != nil {
		err = s.writer.close()
	}
	return errors.Join(err, s.read.Close(), s.cleanup(), s.CheckpointError())
}

// StoreID is the store's own random name, made when it was created.
func (s *Store) StoreID() string { return s.id }

// Path is the file's absolute path.
func (s *Store) Path() string { return s.path }

// notWritable names the action that failed on a store, and marks the error so
// that whoever gets it starts nothing. An action that was given up says nothing of
// the store, and its own error is as good a reason to start nothing.
func notWritable(what string, err error) error {
	switch {
	case err == nil, errors.Is(err, audit.ErrNotWritable):
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, audit.ErrNotWritable, err)
}
