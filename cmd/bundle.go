package cmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/audit"
)

// bundle is a set of files by their slash-separated names. The same files give
// the same bytes, whenever and wherever they are written.
type bundle map[string][]byte

const (
	// bundleManifest lists every other file in the form that sha256sum -c reads.
	bundleManifest = "MANIFEST"
	// bundleFolder is what an archive unpacks into.
	bundleFolder = "evidence"
)

// bundleTime is the time that archives give all files, so that it tells nothing.
var bundleTime = time.Unix(0, 0).UTC()

// manifest lists the digests of the files in order of their names.
func (b bundle) manifest() []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(b)) {
		fmt.Fprintf(&out, "%s  %s\n", audit.Hash(b[name]), name)
	}
	return out.Bytes()
}

// isArchive reports whether a path is that of an archive rather than a folder.
func isArchive(out string) bool {
	return strings.HasSuffix(out, ".tar.gz") || strings.HasSuffix(out, ".tgz")
}

// mayWrite refuses a path at which something is, before anything is done. With
// force an archive may replace a file; a folder replaces nothing, because what
// else is in it would stand beside the manifest.
func mayWrite(out string, force bool) error {
	switch info, err := os.Lstat(out); {
	case !isArchive(out) || err == nil && !info.Mode().IsRegular():
		return mustBeFree(out, "give another --out")
	case force:
		return nil
	default:
		return mustBeFree(out, "add --force to replace it")
	}
}

// write writes the files with their manifest, readable by their owner alone. What
// it could not finish is not left behind. force is as in mayWrite.
func (b bundle) write(out string, force bool) error {
	all := maps.Clone(b)
	all[bundleManifest] = b.manifest()
	var err error
	if isArchive(out) {
		err = all.writeArchive(out, force)
	} else {
		err = all.writeFolder(out)
	}
	if err != nil {
		return fmt.Errorf("write bundle %s: %w", out, err)
	}
	return nil
}

func (b bundle) writeArchive(out string, force bool) error {
	f, err := newOutFile(out)
	if err != nil {
		return err
	}
	if err := errors.Join(b.archive(f), f.sync()); err != nil {
		return errors.Join(err, f.drop())
	}
	return f.keep(force)
}

func (b bundle) archive(w io.Writer) error {
	z := gzip.NewWriter(w)
	z.OS = 255 // unknown
	t := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		err := t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(bundleFolder, name), Mode: 0o600, Size: int64(len(b[name])), ModTime: bundleTime,
		})
		if err == nil {
			_, err = t.Write(b[name])
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (b bundle) writeFolder(out string) error {
	if err := os.Mkdir(out, 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if err := b.writeFile(out, name); err != nil {
			return errors.Join(err, os.RemoveAll(out)) // made above, so it holds nothing else
		}
	}
	return nil
}

func (b bundle) writeFile(out, name string) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, b[name], 0o600); err != nil {
		return err
	}
	return os.Chtimes(file, bundleTime, bundleTime)
}
