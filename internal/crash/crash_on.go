//go:build crashpoints

// Package crash marks the boundaries between steps at which a test may kill the
// process. This build, for tests alone, kills itself at the armed one.
package crash

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	armed string
	left  atomic.Int64
)

// Arm names the boundary to die at: NAME, or NAME#N for its N-th passing.
func Arm(at string) {
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

// At dies with SIGKILL when p is armed, so that nothing deferred runs.
func At(p Point) {
	if !slices.Contains(points, p) {
		panic("crash point is not listed: " + string(p))
	}
	if string(p) == armed && left.Add(-1) == 0 {
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// Names lists every boundary.
func Names() []string {
	ns := make([]string, len(points))
	for i, p := range points {
		ns[i] = string(p)
	}
	return ns
}
