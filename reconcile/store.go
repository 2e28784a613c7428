package reconcile

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Verdicts keeps what look-ups found, with their evidence.
type Verdicts interface {
	SaveVerdicts(ctx context.Context, fs ...Found) error
	// LatestVerdicts maps job keys to the newest verdict on record.
	LatestVerdicts(ctx context.Context, queue string, jobKeys []string) (map[string]Found, error)
}

// SeenRow is the newest that this store has seen of a ledger row. A row that is
// older than that was restored from a backup or read from a lagging replica.
type SeenRow struct {
	State     ledger.State
	Attempt   int
	UpdatedAt time.Time
}

// Memory remembers the rows that were seen, per ledger name, and the tries that
// a queue has forgotten.
type Memory interface {
	Remember(ctx context.Context, ledgerName string, rows []ledger.Row) error
	Seen(ctx context.Context, ledgerName string, keys []ledger.Key) (map[ledger.Key]SeenRow, error)
	// TriedBefore are those of the payloads (SHA-256) that were imported as new
	// messages although they had been tried more than once. Absent ones were not.
	TriedBefore(ctx context.Context, payloadSHA256 []string) (map[string]bool, error)
}

// RunLives answers whether the redrive run that queued a row still lives.
type RunLives func(ctx context.Context, run string) (bool, error)
