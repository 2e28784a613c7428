package audit

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Remembered keeps, outside the store, the newest head that this machine has
// verified of each store. A store that does not extend it was cut or rewritten.
// Dir is made (mode 0700) when the first head is saved; each store has a file
// of mode 0600 in it.
type Remembered struct{ Dir string }

// Load is the head remembered for the store, or nil when there is none. A file
// that cannot be read or is not a head of that store is an error: what guards
// the log must not silently be taken for absent.
func (m Remembered) Load(store string) (*Head, error) {
	path, err := m.path("checkpoint", store)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read remembered checkpoint: %w", err)
	}
	h, err := ParseHead(b)
	if err != nil {
		return nil, fmt.Errorf("remembered checkpoint %s: %w", path, err)
	}
	if h.Store != store {
		return nil, fmt.Errorf("remembered checkpoint %s: is of store %s", path, h.Store)
	}
	return &h, nil
}

// Save remembers h unless a later head is remembered already. It is durable on
// return.
func (m Remembered) Save(h Head) error {
	path, err := m.path("checkpoint", h.Store)
	if err != nil {
		return err
	}
	old, err := m.Load(h.Store)
	if err != nil {
		return err
	}
	if old != nil && old.Seq >= h.Seq {
		return nil
	}
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if err := writeDurably(path, append(b, '\n')); err != nil {
		return fmt.Errorf("remember checkpoint: %w", err)
	}
	return nil
}

// path refuses a store ID that is not one: it came from a file and becomes part
// of a file name.
func (m Remembered) path(kind, store string) (string, error) {
	if b, err := hex.DecodeString(store); err != nil || len(b) == 0 {
		return "", fmt.Errorf("store ID %q: not hexadecimal", store)
	}
	return filepath.Join(m.Dir, kind+"-"+store), nil
}

// ParseHead reads a head as Remembered writes it and as a person may carry it
// on paper: {"store":…,"seq":"…","hash":…}.
func ParseHead(b []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(b, &h); err != nil {
		return Head{}, fmt.Errorf("decode checkpoint: %w", err)
	}
	if h.Store == "" || h.Seq < 0 || (h.Seq > 0 && len(h.Hash) != len(Genesis)) {
		return Head{}, errors.New("decode checkpoint: store, seq or hash is missing")
	}
	return h, nil
}

// writeDurably replaces the file whole: the new content reaches the disk before
// the name points to it, and the name before the return.
func writeDurably(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	if err := fill(f, content); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
