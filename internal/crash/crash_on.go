//go:build crashpoints

// Package crash marks the boundaries between steps at which a test may kill the
// process. This build, for tests alone, kills or suspends itself at the armed
// one.
package crash

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	armed   string
	suspend bool
	left    atomic.Int64
)

// Arm names the boundary to die at: NAME, or NAME#N for its N-th passing. After
// "stop:" the process suspends itself there instead, and goes on when it gets
// SIGCONT.
func Arm(at string) {
	at, suspend = strings.CutPrefix(at, "stop:")
	name, nth, ok := strings.Cut(at, "#")
	n := int64(1)
	if ok {
		if v, err := strconv.ParseInt(nth, 10, 64); err == nil && v > 0 {
			n = v
		}
	}
	armed = name
	left.Store(n)
}

// settling is how long a suspended process may run on before all its threads
// have stopped.
const settling = 100 * time.Millisecond

// At dies with SIGKILL when p is armed, so that nothing deferred runs.
func At(p Point) {
	if !slices.Contains(points, p) {
		panic("crash point is not listed: " + string(p))
	}
	if string(p) != armed || left.Add(-1) != 0 {
		return
	}
	if suspend {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		time.Sleep(settling)
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}

// Names lists every boundary.
func Names() []string {
	ns := make([]string, len(points))
	for i, p := range points {
		ns[i] = string(p)
	}
	return ns
}
