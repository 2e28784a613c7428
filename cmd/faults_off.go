//go:build !crashpoints

package cmd

import "time"

// armCrash does nothing: this build has no step boundary to die at.
func armCrash() {}

// storeVFS names the file layer of the store: the operating system's.
func storeVFS() string { return "" }

// clock is the process's clock: the machine's.
func clock() func() time.Time { return time.Now }

// ledgerClock is the clock of ledger rows; nil is the database's own.
func ledgerClock() func() time.Time { return nil }
