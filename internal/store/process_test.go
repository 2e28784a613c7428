package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redrivectl/redrivectl/internal/store"
)

// appenderEnv makes this test binary append to the store that it names.
const appenderEnv = "STORE_TEST_APPENDER"

const appenderRecords = 150

func appender(path string) int {
	s, err := store.Open(context.Background(), path, store.Options{})
	for i := 0; i < appenderRecords && err == nil; i++ {
		_, err = s.Append(context.Background(), record(i))
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
