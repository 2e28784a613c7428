package cmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/store"
)

// storeOptions are the same for every way of opening the store. The remembered
// checkpoint lies in the user's state folder; without one a cut log could not be
// told, so that is an error.
func (a *app) storeOptions() (store.Options, error) {
	dir, err := config.StateDir(a.getenv)
	return store.Options{
		Now: a.now, VFS: storeVFS(),
		Remembered: audit.Remembered{Dir: filepath.Join(dir, "redrivectl", "checkpoints")},
	}, err
}

var errUnnamedStore = errors.New("CI is set, and the audit log would lie on the runner's own disk")

// storeFile is the store's path. An embedded one that nobody named is refused
// on a build runner, whose disk would take the audit log with it.
func (a *app) storeFile() (string, error) {
	cfg, err := a.config()
	if err != nil {
		return "", err
	}
	if a.storePath != "" {
		return a.storePath, nil
	}
	if !cfg.Store.Named && a.getenv("CI") != "" {
		return "", fail(exitRefused, "name a store that outlives the runner: --store FILE or store.path", "%w", errUnnamedStore)
	}
	return cfg.Store.Path, nil
}

// store opens the store for writing, making it on first use.
func (a *app) store(ctx context.Context) (*store.Store, error) {
	path, err := a.storeFile()
	if err != nil {
		return nil, err
	}
	o, err := a.storeOptions()
	if err != nil {
		return nil, err
	}
	o.Create = true
	s, err := store.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	a.onClose(s.Close)
	return s, nil
}

// storeToRead opens the store for reading, or returns nil when there is none
// yet: whoever only looks does not make one.
func (a *app) storeToRead(ctx context.Context) (*store.Store, error) {
	path, err := a.storeFile()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	o, err := a.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(ctx, path, o)
	if errors.Is(err, store.ErrOlder) {
		return a.store(ctx) // which brings it to this version
	}
	if err != nil {
		return nil, err
	}
	a.onClose(s.Close)
	return s, nil
}

// storeIfAny is for looking at a queue, which needs no store: one that may not
// be used here is as good as none.
func (a *app) storeIfAny(ctx context.Context) (*store.Store, error) {
	st, err := a.storeToRead(ctx)
	if errors.Is(err, errUnnamedStore) {
		return nil, nil
	}
	return st, err
}

// storeFor opens the store for writing what belongs to one queue.
func (a *app) storeFor(ctx context.Context, queueName string) (*store.Store, error) {
	st, err := a.store(ctx)
	if err != nil {
		return nil, err
	}
	return st, a.withinRegion(ctx, st, queueName)
}

// auditStore opens the log for reading; an operator who asks for the log must
// not be told that there is nothing when there is no store.
func (a *app) auditStore(ctx context.Context) (*store.Store, error) {
	st, err := a.storeToRead(ctx)
	if err == nil && st == nil {
		path, _ := a.storeFile() // storeToRead has had it
		return nil, fail(exitFailed, "name the store: --store FILE or --config FILE", "there is no store at %s yet", path)
	}
	return st, err
}
