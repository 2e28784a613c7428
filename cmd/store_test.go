package cmd

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/store"
)

// TestPruneWhileRead: while another process reads what was there before, a prune
// removes and says that it could not erase; the next one, with nothing left to
// remove, erases.
func TestPruneWhileRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	prune := func() (code int, v pruneView) {
		t.Helper()
		code, stdout, stderr := runCLI(t, nil, "store", "prune", "--yes", "--store", path, "-o", "json")
		if err := json.Unmarshal([]byte(stdout), &v); err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, stderr)
		}
		return code, v
	}
	st, err := store.Open(t.Context(), path, store.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(`INSERT INTO captures (queue, captured_at, whole, header) VALUES ('q', 1, 1, '{}')`); err != nil {
		t.Fatal(err)
	}
	reader, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRow(`SELECT count(*) FROM captures`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if code, v := prune(); code != exitPartly || v.Captures != 1 || v.Erased {
		t.Errorf("exit %d, %+v", code, v)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if code, v := prune(); code != exitDone || v.Captures != 0 || !v.Erased {
		t.Errorf("exit %d, %+v", code, v)
	}
}

// TestInterruptedWhileOpening: whoever interrupts a command before its store is open
// for writing is told that, and not that the audit log cannot be written.
func TestInterruptedWhileOpening(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "store.db")
	for _, args := range [][]string{
		{"resume", "81c2", "--yes"},
		{"run", "3f9a", "--yes"},
		{"approve", "3f9a", "--items", "1", "--reason", "ok"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs bytes.Buffer
		code := Run(ctx, Env{
			Args: append(args, "--store", path), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
			Getenv: func(name string) string {
				return map[string]string{"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}[name]
			},
		})
		if code != exitInterrupted || errs.String() != "redrivectl: interrupted\n" || out.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q", args[0], code, out.String(), errs.String())
		}
	}
}
