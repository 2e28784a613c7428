package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// exportFile is where an export goes: standard output, or a file that gets its
// name once it is whole and on the disk.
type exportFile struct {
	io.Writer
	file *os.File // nil: standard output
	path string
}

// newExportFile makes the file under another name beside its own, with mode
// 0600. With no path it is stdout.
func newExportFile(stdout io.Writer, path string) (*exportFile, error) {
	if path == "" {
		return &exportFile{Writer: stdout}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("make a file for the export: %w", err)
	}
	return &exportFile{Writer: f, file: f, path: path}, nil
}

// named reports that it becomes a file with a name.
func (f *exportFile) named() bool { return f.file != nil }

// sync puts what was written on the disk.
func (f *exportFile) sync() error {
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// keep gives the file its name, after sync, so that a name on the disk is a
// whole export.
func (f *exportFile) keep() error {
	err := f.file.Close()
	if err == nil {
		err = nameNew(f.file.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("keep the export: %w", errors.Join(err, os.Remove(f.file.Name())))
	}
	if err := syncFolder(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("keep the export: %w", err)
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

// drop removes what was written. What went to standard output is gone.
func (f *exportFile) drop() error {
	if f.file == nil {
		return nil
	}
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
