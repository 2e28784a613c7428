package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// patience is how long SetWAL waits for others that make the file ready.
const patience = 10 * time.Second

// SetWAL gives the file a write-ahead log and returns its journal mode, which is
// another where the file system cannot have one. Of several that do so at once
// SQLite turns away all but one without regard to the busy time-out, because each
// stands in the other's way; they ask again.
func SetWAL(ctx context.Context, db *sql.DB) (string, error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		var mode string
		err := db.QueryRowContext(patient, "PRAGMA journal_mode = wal").Scan(&mode)
		if err == nil {
			return mode, nil
		}
		if !errors.Is(err, sqlite3.BUSY) {
			return "", fmt.Errorf("set the write-ahead log: %w", Ended(ctx, err))
		}
		select {
		case <-time.After(wait):
		case <-patient.Done():
			return "", fmt.Errorf("set the write-ahead log: %w", Ended(ctx, err))
		}
	}
}
