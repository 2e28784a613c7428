package cmd

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// nobody is the account that tests act as when they are started by root.
const nobody = 65534

// scriptCondition knows one condition more than testscript: whether the script
// can act as two accounts.
func scriptCondition(cond string) (bool, error) {
	return cond == "root" && os.Geteuid() == 0, nil
}

// own gives the script's folder to the account nobody, and lets it in.
func scriptOwn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: own")
	}
	work := ts.MkAbs(".")
	for _, dir := range []string{work, filepath.Dir(work)} {
		ts.Check(os.Chmod(dir, 0o755))
	}
	ts.Check(filepath.Walk(work, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
}

// nobody CODE PROGRAM [ARGS...] is exits, as the account nobody.
func scriptNobody(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: nobody CODE PROGRAM [ARGS...]")
	}
	scriptExits(ts, neg, append([]string{args[0], "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, args[1:]...))
}
