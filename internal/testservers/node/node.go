// Package node starts the independent servers that the tests run against: npm
// packages at the versions of the lock file beside it, which make test-servers
// installs. They are nobody's we know, so what they and our own fakes agree on
// is what the service does.
package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is one of them, by the program that starts it.
type Server struct {
	pack   string
	module bool // written as an ES module
	script string
}

// The servers. Each gets its port from loopback.cjs.
var (
	Fauxqs      = Server{"fauxqs", true, `import {startFauxqs} from "fauxqs"; await startFauxqs({port: 0, logger: false})`}
	LocalAWSSQS = Server{"local-aws-sqs", false, `require("local-aws-sqs").createSqsServer({port: 1, hostname: "127.0.0.1", emulateQueueCreationLifecycle: false})`}
)

// startTime bounds how long a server may take until it answers.
const startTime = 30 * time.Second

// Start runs a server until the test ends and returns its address. Where it is
// not installed the test is skipped, or fails if REDRIVECTL_REQUIRE_SERVICES is
// set.
func Start(t *testing.T, s Server) string {
	t.Helper()
	url, stop, err := s.start(t.Context())
	switch {
	case errors.Is(err, errMissing) && os.Getenv("REDRIVECTL_REQUIRE_SERVICES") == "":
		t.Skipf("%v: make test-servers installs it", err)
	case err != nil:
		t.Fatalf("start %s: %v", s.pack, err)
	}
	t.Cleanup(stop)
	return url
}

var errMissing = errors.New("not installed")

// start begins the process and waits for the address that loopback.cjs prints.
// The process also ends with the test's own, because its standard input does.
func (s Server) start(ctx context.Context) (url string, stop func(), err error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", nil, fmt.Errorf("node: %w", errMissing)
	}
	dir, err := folder()
	if err != nil {
		return "", nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", s.pack)); err != nil {
		return "", nil, fmt.Errorf("%s: %w", s.pack, errMissing)
	}
	args := []string{"--require", "./loopback.cjs"}
	if s.module {
		args = append(args, "--input-type=module")
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), node, append(args, "--eval", s.script)...)
	c.Dir, c.Stderr = dir, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = in.Close() // which ends it
		_ = c.Wait()   // it has nothing to say any more
	}
	if url, err = address(out); err != nil {
		stop()
		return "", nil, err
	}
	return url, stop, nil
}

// folder is where the packages are, seen from a test in whatever package of the
// module.
func folder() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return filepath.Join(dir, "internal", "testservers", "node"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test")
		}
	}
	return "", err
}

// address is the first line that is one. What follows is read and dropped, so
// that the server is never kept waiting.
func address(out io.ReadCloser) (string, error) {
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
				found <- lines.Text()
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case url, ok := <-found:
		if !ok {
			return "", errors.New("it ended before it listened")
		}
		return url, nil
	case <-time.After(startTime):
		return "", fmt.Errorf("it did not listen within %s", startTime)
	}
}
