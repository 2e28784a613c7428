// Package quiet keeps the program from asking the terminal for its background when it
// starts. bubbletea asks as soon as it is linked in, for every command, and a terminal
// that does not answer holds each of them up for five seconds. It asks nothing where
// CI is set: so CI is set until bubbletea is initialised.
//
// The order is the language's: of the packages whose imports are ready, the one whose
// path sorts first is next. This one imports os alone, and is ready before what
// bubbletea imports. Package cmd, which comes after both, calls Over.
package quiet

import "os"

const variable = "CI"

var before, wasSet = hush()

func hush() (value string, set bool) {
	value, set = os.LookupEnv(variable)
	if value == "" {
		_ = os.Setenv(variable, "1") // it fails for a name that is none
	}
	return value, set
}

// Over puts the environment back as it was.
func Over() {
	if wasSet {
		_ = os.Setenv(variable, before) // as above
		return
	}
	_ = os.Unsetenv(variable)
}
