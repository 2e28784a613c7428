package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver" // the database/sql driver "sqlite3"

	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// Of several openers of a new file none is turned away.
func TestSetWALAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 20 {
		dsn := "file:" + filepath.Join(dir, fmt.Sprintf("%d.db", i)) + "?_pragma=busy_timeout(10000)"
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				db, err := sql.Open("sqlite3", dsn)
				if err != nil {
					t.Error(err)
					return
				}
				if mode, err := sqlite.SetWAL(t.Context(), db); err != nil || mode != "wal" {
					t.Errorf("%q, %v", mode, err)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
