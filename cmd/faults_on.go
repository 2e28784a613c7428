//go:build crashpoints

package cmd

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/faultfs"
)

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
