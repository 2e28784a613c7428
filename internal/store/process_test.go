package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/store"
)

// appenderEnv makes this test binary append to the store that it names.
const appenderEnv = "STORE_TEST_APPENDER"

const appenderRecords = 150

// appender prints the sequence of every record that was answered as durable.
func appender(path string) int {
	s, err := store.Open(context.Background(), path, store.Options{Create: true})
	for i := 0; i < appenderRecords && err == nil; i++ {
		var h audit.Head
		if h, err = s.Append(context.Background(), record(i)); err == nil {
			fmt.Println(h.Seq, h.Hash)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestTwoProcessesKeepOneChain(t *testing.T) {
	t.Parallel()
	f := open(t)
	var others []*exec.Cmd
	for range 2 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), appenderEnv+"="+f.path)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, c)
	}
	for i := range appenderRecords {
		if _, err := f.Append(context.Background(), record(i)); err != nil {
			t.Error(err)
		}
	}
	for _, c := range others {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if r := f.verified(t); r.Records != 3*appenderRecords {
		t.Errorf("%d records", r.Records)
	}
}

// Several processes that create one store make one store.
func TestManyProcessesCreateOneStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "store.db")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), appenderEnv+"="+path)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	s, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.VerifyAudit(context.Background()); err != nil || !r.OK || r.Records != 6*appenderRecords {
		t.Errorf("%+v, %v", r, err)
	}
}

// A process that is killed between two appends, or inside one, leaves every
// record that it was told is durable.
func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	for kills := range 5 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), appenderEnv+"="+f.path)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		told := map[int64]string{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var h audit.Head
			if _, err := fmt.Sscan(lines.Text(), &h.Seq, &h.Hash); err != nil {
				break // the last line, cut
			}
			told[h.Seq] = h.Hash
			if len(told) == 7+9*kills {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = c.Wait() // killed
		f.verified(t)
		for seq, hash := range told {
			if !f.has(t, audit.Head{Seq: seq, Hash: hash}) {
				t.Errorf("record %d is gone", seq)
			}
		}
	}
}
