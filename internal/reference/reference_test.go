package reference_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/reference"
)

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// storage makes a root with some objects, and a secret beside it.
func storage(t *testing.T) (dir string, s reference.Storage) {
	t.Helper()
	dir = t.TempDir()
	root := filepath.Join(dir, "root")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(root, "a b.html"), "rendering")
	write(filepath.Join(root, "deep", "c.html"), "deep")
	write(filepath.Join(root, "large"), strings.Repeat("x", 101))
	write(filepath.Join(root, "full"), strings.Repeat("x", 100))
	write(filepath.Join(dir, "secret"), "secret")
	write(filepath.Join(dir, "rooted", "d"), "beside")
	for link, to := range map[string]string{"out": "../secret", "abs": filepath.Join(dir, "secret"), "up": "..", "in": "deep/c.html", "gone-link": "nothing"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, reference.Storage{Roots: []string{root}, MaxBytes: 100}
}

// S3 is asked whether an object is there, and nothing of it is read.
func TestObjects(t *testing.T) {
	t.Parallel()
	s := reference.Storage{Objects: func(_ context.Context, bucket, key string) (bool, error) {
		if bucket == "closed" {
			return false, errors.New("forbidden")
		}
		return bucket+"/"+key == "b/a key/with?all#of it", nil
	}}
	for uri, want := range map[string]reference.State{
		"s3://b/a key/with?all#of it": reference.Present,
		"s3://b/gone":                 reference.Missing,
		"s3://closed/x":               reference.Unreadable,
		"s3://b":                      reference.NoAccess,
		"s3:///x":                     reference.NoAccess,
	} {
		if got := s.Check(t.Context(), job.Reference{URI: uri, SHA256: sum("x")}); got.State != want {
			t.Errorf("%s is %s: %s", uri, got.State, got.Why)
		}
	}
	if got := (reference.Storage{}).Check(t.Context(), job.Reference{URI: "s3://b/x"}); got.State != reference.NoAccess {
		t.Errorf("without access it is %s", got.State)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir, s := storage(t)
	at := func(path string) string { return "file://" + filepath.ToSlash(filepath.Join(dir, "root")) + "/" + path }
	tests := []struct {
		name, uri, sha256 string
		want              reference.State
	}{
		{"as it says", at("a%20b.html"), sum("rendering"), reference.Verified},
		{"in capitals", at("a%20b.html"), strings.ToUpper(sum("rendering")), reference.Verified},
		{"with a host", strings.Replace(at("a%20b.html"), "file://", "file://localhost", 1), sum("rendering"), reference.Verified},
		{"as large as allowed", at("full"), sum(strings.Repeat("x", 100)), reference.Verified},
		{"a link within", at("in"), sum("deep"), reference.Verified},
		{"there and back", at("deep/../deep/c.html"), sum("deep"), reference.Verified},
		{"another content", at("a%20b.html"), sum("else"), reference.Mismatch},
		{"no digest at all", at("a%20b.html"), "abc", reference.Mismatch},
		{"no hash", at("a%20b.html"), "", reference.NoHash},
		{"gone", at("gone"), sum("x"), reference.Missing},
		{"a link to nothing", at("gone-link"), sum("x"), reference.Missing},
		{"too large", at("large"), sum(strings.Repeat("x", 101)), reference.Unreadable},
		{"a folder", at("deep"), sum(""), reference.Unreadable},
		{"a link out", at("out"), sum("secret"), reference.Unreadable},
		{"a whole link out", at("abs"), sum("secret"), reference.Unreadable},
		{"through a link out", at("up/secret"), sum("secret"), reference.Unreadable},
		{"a path out", at("../secret"), sum("secret"), reference.NoAccess},
		{"an escaped path out", at("%2e%2e/secret"), sum("secret"), reference.NoAccess},
		{"a root that only begins alike", at("../rooted/d"), sum("beside"), reference.NoAccess},
		{"the root itself", at(""), sum(""), reference.NoAccess},
		{"elsewhere", "file:///etc/passwd", sum(""), reference.NoAccess},
		{"another machine", "file://host/x", sum(""), reference.NoAccess},
		{"no absolute path", "file:x", sum(""), reference.NoAccess},
		{"a NUL", at("a%00b"), sum(""), reference.NoAccess},
		{"another storage", "s3://bucket/key", sum(""), reference.NoAccess},
		{"the network", "https://example.com/x", sum(""), reference.NoAccess},
		{"no URI", "%zz", sum(""), reference.NoAccess},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := job.Reference{Kind: "rendering", URI: tt.uri, SHA256: tt.sha256}
			got := s.Check(t.Context(), r)
			if got.State != tt.want || (got.Why == "") != (tt.want == reference.Verified) {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
			b, res := s.Fetch(t.Context(), r)
			if diff := cmp.Diff(got, res); diff != "" || (b != nil) != (tt.want == reference.Verified) {
				t.Errorf("%d bytes, %s", len(b), diff)
			}
		})
	}
}

// TestStorageThatIsAway: a root that cannot be opened is no proof that an object
// is gone, and no storage is no access.
func TestStorageThatIsAway(t *testing.T) {
	t.Parallel()
	dir, s := storage(t)
	r := job.Reference{URI: "file://" + filepath.ToSlash(dir) + "/away/x", SHA256: sum("x")}
	s.Roots = []string{filepath.Join(dir, "away")}
	if got := s.Check(t.Context(), r); got.State != reference.Unreadable {
		t.Errorf("%+v", got)
	}
	if got := (reference.Storage{}).Check(t.Context(), r); got.State != reference.NoAccess {
		t.Errorf("%+v", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, s = storage(t)
	r = job.Reference{URI: "file://" + filepath.ToSlash(s.Roots[0]) + "/full", SHA256: sum(strings.Repeat("x", 100))}
	if got := s.Check(ended, r); got.State != reference.Unreadable {
		t.Errorf("%+v", got)
	}
}
