package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/redrivectl/redrivectl/audit"
)

// prepareFiles makes folder and file with their modes before SQLite, which asks
// the umask, can, and gives the files beside it the store's own mode.
func prepareFiles(path string, create bool) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return ErrNoStore
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if create {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("%w: %w", audit.ErrNotWritable, err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = prepareSides(path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", audit.ErrNotWritable, err)
	}
	return nil
}

// prepareSides makes the shared memory file with the store's mode before SQLite
// makes it as the umask says, and takes from the files beside the store what the
// store itself does not permit. What another account has made so stays so.
func prepareSides(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	perm := info.Mode().Perm()
	f, err := os.OpenFile(path+"-shm", os.O_RDWR|os.O_CREATE, perm)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	for _, side := range []string{path + "-wal", path + "-shm"} {
		if err := narrow(side, perm); err != nil {
			return err
		}
	}
	return nil
}

func narrow(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Perm()&^perm == 0 {
		return err
	}
	err = os.Chmod(path, info.Mode().Perm()&perm)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fileBytes is how much the store and its log take.
func (s *Store) fileBytes() (int64, error) {
	var n int64
	for _, side := range []string{"", "-wal"} {
		info, err := os.Stat(s.path + side)
		if errors.Is(err, fs.ErrNotExist) && side != "" {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("look at the store's file: %w", err)
		}
		n += info.Size()
	}
	return n, nil
}
