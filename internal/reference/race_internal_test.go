//go:build unix

package reference

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPipeInPlaceOfFile: what was a file when it was looked at can be a pipe when
// it is opened. Nobody waits for its writer.
func TestPipeInPlaceOfFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	opened := make(chan error, 1)
	go func() {
		_, err := openRegular(root, "pipe")
		opened <- err
	}()
	select {
	case err = <-opened:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a writer")
	}
	if !errors.Is(err, errNotRegular) {
		t.Error(err)
	}
}
