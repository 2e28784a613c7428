package cmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func someBundle() bundle {
	return bundle{"z.json": []byte("{}\n"), "a.json": []byte("[]\n"), "plans/p.json": []byte(`{"format":1}`)}
}

// TestBundleIsDeterministic: the same files give the same archive.
func TestBundleIsDeterministic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.tar.gz"), filepath.Join(dir, "two.tgz")
	for _, out := range []string{one, two} {
		if err := someBundle().write(out, false); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := os.ReadFile(one)
	b, errB := os.ReadFile(two)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%v %v: %d and %d bytes differ", errA, errB, len(a), len(b))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*.part"))
	if err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

type bundled struct {
	Name string
	Mode int64
	Text string
}

// TestBundleHolds: both forms hold the same files, for their owner alone, with
// the digests that sha256sum makes.
func TestBundleHolds(t *testing.T) {
	t.Parallel()
	manifest := "37517e5f3dc66819f61f5a7bb8ace1921282415f10551d2defa5c3eb0985b570  a.json\n" +
		"3f0a99256beeb89a6b9f2793885291a6454928fd74903159ab2e51452b13df6f  plans/p.json\n" +
		"ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356  z.json\n"
	want := []bundled{
		{"evidence/MANIFEST", 0o600, manifest},
		{"evidence/a.json", 0o600, "[]\n"},
		{"evidence/plans/p.json", 0o600, `{"format":1}`},
		{"evidence/z.json", 0o600, "{}\n"},
	}
	dir := t.TempDir()
	archive, folder := filepath.Join(dir, "b.tar.gz"), filepath.Join(dir, "evidence")
	for _, out := range []string{archive, folder} {
		if err := someBundle().write(out, false); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, readArchive(t, archive)); diff != "" {
		t.Error(diff)
	}
	var got []bundled
	for _, b := range want {
		info, err := os.Stat(filepath.Join(dir, b.Name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, b.Name))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, bundled{b.Name, int64(info.Mode().Perm()), string(text)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, out := range []string{archive, folder} {
		if err := mayWrite(out, false); exitCode(err) != exitRefused {
			t.Errorf("%s: %v", out, err)
		}
	}
	if err := errors.Join(mayWrite(archive, true), mayWrite(filepath.Join(dir, "new"), false)); err != nil {
		t.Error(err)
	}
	if err := mayWrite(folder, true); exitCode(err) != exitRefused {
		t.Error("a folder was to be replaced:", err)
	}
}

func readArchive(t *testing.T, name string) []bundled {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []bundled
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bundled{h.Name, h.Mode, string(text)})
	}
}
