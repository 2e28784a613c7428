// Package reference fetches what a job points to (its payload, its rendering, a
// stack trace) from controlled storage, and compares it with the hash that the
// job carries. Nothing that was fetched is kept: it lives as long as whoever
// asked for it holds the bytes.
package reference

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/redrivectl/redrivectl/internal/job"
)

// State is what came of looking at a reference.
type State string

// The states. Present, NoAccess and NoHash say that nothing was compared: the
// storage is only asked whether it has the object, it is not configured, or there
// is nothing to compare with.
const (
	Verified   State = "verified"
	Present    State = "present"    // it is there; its content was not compared
	Mismatch   State = "mismatch"   // the content is not what the hash says
	Missing    State = "missing"    // there is no such object in the storage
	Unreadable State = "unreadable" // the storage did not give it, or it is too large
	NoAccess   State = "no_access"
	NoHash     State = "no_hash"
)

// Result is what came of one look, with the reason for every state but Verified.
type Result struct {
	State State
	Why   string
	Bytes int64 // of the content, where it was read whole
}

// Storage is where content may be read from. The zero value has no access to
// anything.
type Storage struct {
	// Roots are the folders of file: URIs, absolute. Nothing outside them is
	// read, whatever a URI or a symbolic link says.
	Roots []string
	// MaxBytes bounds one content; 0: nothing is read.
	MaxBytes int64
	// Objects says whether an object of s3: URIs is there; nil: nobody is asked.
	Objects func(ctx context.Context, bucket, key string) (bool, error)
}

// Check compares the content with its hash and keeps nothing of it.
func (s Storage) Check(ctx context.Context, r job.Reference) Result {
	return s.read(ctx, r, io.Discard)
}

// Fetch is Check, and gives the content where it is Verified; else nil.
func (s Storage) Fetch(ctx context.Context, r job.Reference) ([]byte, Result) {
	var b bytes.Buffer
	res := s.read(ctx, r, &b)
	if res.State != Verified {
		return nil, res
	}
	return b.Bytes(), res
}

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (s Storage) read(ctx context.Context, r job.Reference, to io.Writer) Result {
	if bucket, key, ok := object(r.URI); ok && s.Objects != nil {
		return s.present(ctx, bucket, key)
	}
	root, name, err := s.place(r.URI)
	if err != nil {
		return Result{State: NoAccess, Why: err.Error()}
	}
	want := strings.ToLower(r.SHA256)
	if want == "" {
		return Result{State: NoHash, Why: "the job carries no SHA-256 of it"}
	}
	if !sha256Text.MatchString(want) {
		return Result{State: Mismatch, Why: "what the job carries is no SHA-256"}
	}
	sum := sha256.New()
	n, err := s.copy(ctx, root, name, to, sum)
	switch {
	case errors.Is(err, errNoObject):
		return Result{State: Missing, Why: "there is no such file"}
	case err != nil:
		return Result{State: Unreadable, Why: err.Error()}
	case hex.EncodeToString(sum.Sum(nil)) != want:
		return Result{State: Mismatch, Why: "its SHA-256 is another", Bytes: n}
	default:
		return Result{State: Verified, Bytes: n}
	}
}

// object reads an s3: URI. Everything behind the bucket is the key, as it stands.
func object(uri string) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "s3://")
	if !ok {
		return "", "", false
	}
	bucket, key, _ = strings.Cut(rest, "/")
	return bucket, key, bucket != "" && key != ""
}

func (s Storage) present(ctx context.Context, bucket, key string) Result {
	switch there, err := s.Objects(ctx, bucket, key); {
	case err != nil:
		return Result{State: Unreadable, Why: err.Error()}
	case !there:
		return Result{State: Missing, Why: "there is no such object"}
	default:
		return Result{State: Present, Why: "it is there; its content is not compared"}
	}
}

// place finds the root that a URI lies under, and the path within it.
func (s Storage) place(uri string) (root, name string, err error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", "", errors.New("it is no URI")
	case u.Scheme != "file":
		return "", "", fmt.Errorf("no access configured for %q", u.Scheme+":")
	case u.Host != "" && u.Host != "localhost", u.Opaque != "", !strings.HasPrefix(u.Path, "/"):
		return "", "", errors.New("it is no absolute path of this machine")
	case strings.ContainsRune(u.Path, 0):
		return "", "", errors.New("its path holds a NUL")
	case len(s.Roots) == 0:
		return "", "", errors.New("no access configured for \"file:\" (references.roots)")
	}
	file := filepath.Clean(filepath.FromSlash(u.Path))
	for _, root := range s.Roots {
		if name, err := filepath.Rel(root, file); err == nil && name != "." && filepath.IsLocal(name) {
			return root, name, nil
		}
	}
	return "", "", errors.New("it lies in none of references.roots")
}

// errNoObject says that the storage answers and has no such object.
var errNoObject = errors.New("no such file")

var errNotRegular = errors.New("it is no regular file")

// copy reads a regular file of a root into all of to. The root is opened first:
// one that is not there, such as a file system that is not mounted, is not taken
// for an object that is missing.
func (s Storage) copy(ctx context.Context, dir, name string, to io.Writer, sum hash.Hash) (int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("open storage: %w", err)
	}
	defer root.Close() //nolint:errcheck // Only read.
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errNoObject
	case err != nil:
		return 0, fmt.Errorf("look at it: %w", err)
	case !info.Mode().IsRegular():
		return 0, errNotRegular
	case info.Size() > s.MaxBytes:
		return 0, fmt.Errorf("it has %d bytes, more than references.max_bytes", info.Size())
	}
	f, err := openRegular(root, name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Only read.
	n, err := io.Copy(io.MultiWriter(to, sum), &bounded{ctx, io.LimitReader(f, s.MaxBytes+1)})
	switch {
	case err != nil:
		return n, fmt.Errorf("read it: %w", err)
	case n > s.MaxBytes: // it grew meanwhile
		return n, errors.New("it has more bytes than references.max_bytes")
	default:
		return n, nil
	}
}

// openRegular opens what Stat has just seen. It may be another by now: opening a
// pipe would wait for a writer, so nothing is waited for, and what was opened is
// looked at again.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bounded ends a read with its context.
type bounded struct {
	ctx  context.Context //nolint:containedctx // One read's own.
	from io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}
