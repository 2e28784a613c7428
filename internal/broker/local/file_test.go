package local_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	db, err := sql.Open("sqlite3", "file:"+other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE t (x)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		path   string
		create bool
		is     error
	}{
		{filepath.Join(dir, "missing.db"), false, broker.ErrNoQueue},
		{write("empty.db", ""), false, broker.ErrNoQueue},
		{other, false, local.ErrNotQueueFile},
		{other, true, local.ErrNotQueueFile},
		{write("text.db", strings.Repeat("not a database ", 100)), true, nil},
		{filepath.Join(dir, "no", "such", "folder.db"), true, fs.ErrNotExist},
	} {
		f, err := local.Open(c.path, local.Options{Create: c.create})
		if err == nil {
			t.Errorf("%s opened", c.path)
			_ = f.Close()
		} else if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening a missing file made one: %v", err)
	}
}

func TestFileStays(t *testing.T) {
	t.Parallel()
	// Characters that mean something in a URI are part of the name.
	path := filepath.Join(t.TempDir(), "queue 100%?mode=memory#x.db")
	f, err := local.Open(path, local.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs"}); err != nil {
		t.Fatal(err)
	}
	fill(t, f.Queue("jobs"), "jobs", 1)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if f, err = local.Open(path, local.Options{}); err != nil {
		t.Fatal(err)
	}
	if n := len(browse(t, f.Queue("jobs"))); n != 1 {
		t.Errorf("%d messages after opening again", n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Several openers of a file that does not exist yet all end up with one layout.
func TestCreateRace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			f, err := local.Open(path, local.Options{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs"}); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestMain lets the test binary be one of the processes of TestProcesses.
func TestMain(m *testing.M) {
	if path := os.Getenv("LOCAL_TEST_CONSUME"); path != "" {
		if err := consume(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// consume receives and acknowledges until nothing is left, and prints a line
// for each acknowledged message.
func consume(path string) error {
	f, err := local.Open(path, local.Options{})
	if err != nil {
		return err
	}
	defer f.Close()
	for q := f.Queue("jobs"); ; {
		ds, err := q.Receive(context.Background(), broker.Request{Max: 7, Lease: time.Minute})
		if err != nil || len(ds) == 0 {
			return err
		}
		for i, r := range q.Ack(context.Background(), ds) {
			if r.Outcome != broker.Done {
				return r.Err
			}
			fmt.Println(ds[i].Copy.ID)
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queue.db")
	f, err := local.Open(path, local.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs"}); err != nil {
		t.Fatal(err)
	}
	fill(t, f.Queue("jobs"), "jobs", 400)
	outs := make([]strings.Builder, 3)
	var wg sync.WaitGroup
	for i := range outs {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), "LOCAL_TEST_CONSUME="+path)
		c.Stdout, c.Stderr = &outs[i], os.Stderr
		wg.Go(func() {
			if err := c.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for i := range outs {
		for id := range strings.FieldsSeq(outs[i].String()) {
			seen[id]++
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("message %s was consumed %d times", id, n)
		}
	}
	if left := len(browse(t, f.Queue("jobs"))); len(seen) != 400 || left != 0 {
		t.Errorf("%d of 400 messages consumed, %d left", len(seen), left)
	}
}

// A look at a long queue needs no more memory than one at a short one, and its
// callback may change the file that it looks at.
func TestBrowseLong(t *testing.T) {
	t.Parallel()
	const n = 10_000
	f, _ := openFile(t, false)
	q := f.Queue("elsewhere")
	fill(t, q, "elsewhere", n)
	seen, peak := 0, uint64(0)
	done, err := q.Browse(t.Context(), 0, func(m broker.Message) error {
		if seen++; seen%1000 == 0 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			peak = max(peak, stats.HeapAlloc)
			mustDone(t, q.Ack(t.Context(), receive(t, q, 1)))
			fill(t, q, "elsewhere", 1) // arrives after the look began
		}
		return nil
	})
	if err != nil || !done.Complete || seen < n-10 || seen > n {
		t.Fatalf("saw %d, %+v, error %v", seen, done, err)
	}
	t.Logf("heap while looking: %d KiB", peak>>10)
	if peak > 64<<20 {
		t.Errorf("heap grew to %d bytes over %d messages of 1 KiB", peak, n)
	}
}
