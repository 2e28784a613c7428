package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRemembered(t *testing.T) {
	t.Parallel()
	m := Remembered{Dir: filepath.Join(t.TempDir(), "new", "folder")}
	if h, err := m.Load(testStore); h != nil || err != nil {
		t.Fatalf("nothing saved: %v, %v", h, err)
	}
	later := Head{Store: testStore, Seq: 1 << 60, Hash: strings.Repeat("b", 64)}
	for _, h := range []Head{{testStore, 5, strings.Repeat("a", 64)}, later, {testStore, 7, strings.Repeat("c", 64)}} {
		if err := m.Save(h); err != nil {
			t.Fatal(err)
		}
	}
	got, err := m.Load(testStore)
	if diff := cmp.Diff(&later, got); diff != "" || err != nil {
		t.Errorf("the later head is not kept: %v\n%s", err, diff)
	}
	wantModes(t, m.Dir, 0o700, 1)
}

// wantModes checks the folder's mode, that it holds n files, all of mode 0600.
func wantModes(t *testing.T, dir string, mode os.FileMode, n int) {
	t.Helper()
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != mode {
		t.Errorf("folder: %v, %v", fi.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != n {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if fi, err := e.Info(); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), fi.Mode(), err)
		}
	}
}

func TestRememberedRefuses(t *testing.T) {
	t.Parallel()
	m := Remembered{Dir: t.TempDir()}
	for _, store := range []string{"", "../x", "a/b", "xyz"} {
		if _, err := m.Load(store); err == nil {
			t.Errorf("store ID %q became a file name", store)
		}
	}
	files := map[string]string{"00": "{", "01": `{"store":"02","seq":"1","hash":"` + Genesis + `"}`, "02": `{}`, "03": `{"store":"03","seq":"1"}`}
	for store, content := range files {
		if err := os.WriteFile(filepath.Join(m.Dir, "checkpoint-"+store), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := m.Load(store); err == nil {
			t.Errorf("%s: %v", content, h)
		}
	}
}

func TestCustomerKey(t *testing.T) {
	t.Parallel()
	m := Remembered{Dir: filepath.Join(t.TempDir(), "state")}
	first, err := m.CustomerKey(testStore)
	if err != nil || len(first) != customerKeySize {
		t.Fatal(first, err)
	}
	again, err := m.CustomerKey(testStore)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("another key: %v", err)
	}
	other, err := m.CustomerKey("aa")
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("the same key for another store: %v", err)
	}
	wantModes(t, m.Dir, 0o700, 2)
}

func TestCustomerTag(t *testing.T) {
	t.Parallel()
	// RFC 4231, test case 2.
	if got := CustomerTag([]byte("Jefe"), "what do ya want for nothing?"); got != "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" {
		t.Error(got)
	}
	if CustomerTag(nil, "c1") != "" || CustomerTag([]byte("k"), "") != "" {
		t.Error("a tag without key or ID")
	}
}

func TestQueryMatch(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	r := Record{
		Run: "r", Plan: "p", Queue: "q", Action: "redrive", Phase: Intent, JobKey: "job-1", MessageID: "m",
		CopyID: "d/1", Customer: "c", Time: at,
	}
	yes := []Query{{}, {
		Run: "r", Plan: "p", Queue: "q", Action: "redrive", Phase: Intent, JobKey: "job-1", JobKeyPrefix: "jo",
		MessageID: "m", CopyID: "d/1", Customer: "c", Since: at, Until: at.Add(1),
	}}
	no := []Query{
		{Run: "x"},
		{Plan: "x"},
		{Queue: "x"},
		{Action: "x"},
		{Phase: Outcome},
		{JobKey: "job"},
		{JobKeyPrefix: "ob"},
		{MessageID: "x"},
		{CopyID: "x"},
		{Customer: "x"},
		{Since: at.Add(1)},
		{Until: at},
	}
	for _, q := range yes {
		if !q.Match(r) {
			t.Errorf("%+v does not select it", q)
		}
	}
	for _, q := range no {
		if q.Match(r) {
			t.Errorf("%+v selects it", q)
		}
	}
}
