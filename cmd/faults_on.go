//go:build crashpoints

package cmd

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/faultfs"
)

// armCrash names the step boundary to die at. In this build
// REDRIVECTL_CRASH_AT=NAME kills the process there; see package crash.
func armCrash() { crash.Arm(os.Getenv("REDRIVECTL_CRASH_AT")) }

// storeVFS names the file layer of the store. In this build, which is for tests
// alone, REDRIVECTL_STORE_FAULT=KIND@N breaks it from the N-th changing call on.
var storeVFS = sync.OnceValue(func() string {
	kind, at, ok := strings.Cut(os.Getenv("REDRIVECTL_STORE_FAULT"), "@")
	n, err := strconv.Atoi(at)
	if !ok || err != nil {
		return ""
	}
	faults := map[string]error{"full": faultfs.Full, "ioerr": faultfs.IOError, "readonly": faultfs.ReadOnly}
	fs := faultfs.Register("redrivectl-faults")
	fs.FailFrom(faultfs.Changes, n, faults[kind])
	return fs.Name()
})

// clock is the process's clock. In this build REDRIVECTL_CLOCK=10m puts it ahead
// of the machine's, so that a test need not wait until a lease has ended.
func clock() func() time.Time {
	ahead, err := time.ParseDuration(os.Getenv("REDRIVECTL_CLOCK"))
	if err != nil {
		return time.Now
	}
	return func() time.Time { return time.Now().Add(ahead) }
}

// ledgerClock is the clock of ledger rows, the same as the process's.
func ledgerClock() func() time.Time { return clock() }
