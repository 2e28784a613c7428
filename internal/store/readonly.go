package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// OpenReadOnly opens a store to read and verify it, also where it cannot be
// written. In a folder that cannot be written SQLite cannot share its
// write-ahead log, so the file is then read as it lies, or, when that log holds
// something, from a copy in the temporary folder.
func OpenReadOnly(ctx context.Context, path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoStore
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{path: path, now: o.Now, remembered: o.Remembered, cleanup: func() error { return nil }}
	if s.now == nil {
		s.now = time.Now
	}
	if err := s.openReading(ctx, o); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) openReading(ctx context.Context, o Options) error {
	_ = prepareSides(s.path) // where they cannot be made SQLite makes none either
	first := s.openRead(ctx, dsn(s.path, o.VFS, "ro"))
	if first == nil {
		return nil
	}
	wal, err := os.Stat(s.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || (err == nil && wal.Size() == 0) {
		return s.openRead(ctx, dsn(s.path, o.VFS, "ro")+"&immutable=1")
	}
	if err != nil {
		return errors.Join(first, err)
	}
	return s.openCopy(ctx)
}

func (s *Store) openRead(ctx context.Context, dsn string) error {
	db, err := openReader(dsn)
	if err != nil {
		return err
	}
	if s.id, err = readSchema(ctx, db); err != nil {
		return errors.Join(err, db.Close())
	}
	s.read = db
	return nil
}

func (s *Store) openCopy(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "redrivectl-store-*") // mode 0700
	if err != nil {
		return err
	}
	copied := filepath.Join(dir, "store.db")
	for _, suffix := range []string{"", "-wal"} {
		if err == nil {
			err = copyFile(s.path+suffix, copied+suffix)
		}
	}
	if err == nil {
		err = s.openRead(ctx, dsn(copied, "", "rw"))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s.cleanup = func() error { return os.RemoveAll(dir) }
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // Only read.
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// AuditHead is the end of the log as it is recorded, unverified.
func (s *Store) AuditHead(ctx context.Context) (audit.Head, error) {
	return recordedHead(ctx, s.read, s.id)
}

func recordedHead(ctx context.Context, q querier, store string) (audit.Head, error) {
	h := audit.Head{Store: store}
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM audit_head`).Scan(&h.Seq, &h.Hash)
	if err != nil {
		return h, fmt.Errorf("read head of audit log: %w", err)
	}
	return h, nil
}
