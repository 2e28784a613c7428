package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// outFile is a file for its owner alone, which gets its name once it is whole
// and on the disk.
type outFile struct {
	*os.File

	path string
}

// newOutFile makes the file under another name beside its own, with mode 0600.
func newOutFile(path string) (*outFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return &outFile{f, path}, nil
}

// sync puts what was written on the disk.
func (f *outFile) sync() error {
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// keep gives the file its name, after sync, so that a name on the disk is a whole
// file. A file that has the name already is replaced, or is fs.ErrExist.
func (f *outFile) keep(replace bool) error {
	name := nameNew
	if replace {
		name = os.Rename
	}
	err := f.Close()
	if err == nil {
		err = name(f.Name(), f.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	} else {
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", f.path, err)
	}
	return nil
}

// nameNew moves a file to a name that nothing has. A link does not replace a
// file that has come meanwhile; where there are no links, a rename has to do.
func nameNew(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	default:
		return os.Rename(from, to)
	}
}

// drop removes what was written.
func (f *outFile) drop() error { return errors.Join(f.Close(), os.Remove(f.Name())) }

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// mustBeFree refuses a path at which something is, before anything is done.
func mustBeFree(path, hint string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s: %w", path, err)
	default:
		return fail(exitRefused, hint, "%s exists; it was not changed", path)
	}
}

// writeOut writes the new file of an --out; one that exists is a refusal.
func writeOut(path string, content []byte) error {
	if err := mustBeFree(path, "give another --out"); err != nil {
		return err
	}
	f, err := newOutFile(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.sync()); err != nil {
		return errors.Join(err, f.drop())
	}
	return f.keep(false)
}
