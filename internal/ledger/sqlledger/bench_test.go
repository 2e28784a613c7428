//go:build unix

package sqlledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
)

const (
	benchRows  = 10_000
	benchBatch = 80 // what a run on SQS moves together
)

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// failed makes a ledger whose rows are as a worker leaves them that was throttled,
// and returns the keys.
func failed(b *testing.B) (*sqlledger.Ledger, []ledger.Key) {
	b.Helper()
	l, err := sqlledger.Open(b.Context(), sqlledger.Config{Path: filepath.Join(b.TempDir(), "ledger.db"), Create: true, Consumer: "mailer"})
	if err == nil {
		err = l.Init(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	keys := make([]ledger.Key, benchRows)
	rows := make([]ledger.NewRow, benchRows)
	for i := range keys {
		keys[i] = ledger.Key{JobKey: fmt.Sprintf("digest:%07d:2026-03-01", i), Consumer: "mailer"}
		rows[i] = ledger.NewRow{Key: keys[i], Actor: "application"}
	}
	if err := l.Insert(b.Context(), rows...); err != nil {
		b.Fatal(err)
	}
	move(b, l, keys, ledger.Change{From: ledger.Queued, To: ledger.Sending, ClaimLife: time.Minute})
	move(b, l, keys, ledger.Change{
		From: ledger.Sending, To: ledger.Failed, Retryable: true,
		ErrorClass: "throttled", Effect: ledger.EffectNone, Resolve: ledger.ByWorker,
	})
	return l, keys
}

func move(b *testing.B, l *sqlledger.Ledger, keys []ledger.Key, c ledger.Change) {
	b.Helper()
	c.FromAttempt, c.Unread = 1, true
	cs := make([]ledger.Change, len(keys))
	for i, k := range keys {
		c.Key = k
		cs[i] = c
	}
	for _, r := range l.Apply(b.Context(), cs) {
		if r.Outcome != ledger.Won {
			b.Error(r.Err)
		}
	}
}

func get(b *testing.B, l *sqlledger.Ledger, keys []ledger.Key) {
	b.Helper()
	for _, lk := range l.Get(b.Context(), keys) {
		if lk.Found != ledger.Present || len(lk.Row.Attempts) != 1 {
			b.Error(lk.Err)
		}
	}
}

// BenchmarkMove reads and queues rows in batches, as a run does, and says how much
// CPU a row takes: by the two steps, and together with many batches at once.
func BenchmarkMove(b *testing.B) {
	queue := ledger.Change{From: ledger.Failed, To: ledger.Queued, Run: "run-1", Actor: "run-1"}
	perRow := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / benchRows / float64(b.N) }
	b.Run("1", func(b *testing.B) {
		var reads, moves time.Duration
		for range b.N {
			l, keys := failed(b)
			for part := range slices.Chunk(keys, benchBatch) {
				started := cpu(b)
				get(b, l, part)
				between := cpu(b)
				move(b, l, part, queue)
				reads, moves = reads+between-started, moves+cpu(b)-between
			}
		}
		b.ReportMetric(perRow(reads), "get-us/row")
		b.ReportMetric(perRow(moves), "apply-us/row")
	})
	b.Run("8", func(b *testing.B) {
		var all time.Duration
		for range b.N {
			l, keys := failed(b)
			started := cpu(b)
			parts := make(chan []ledger.Key)
			var movers sync.WaitGroup
			for range 8 {
				movers.Go(func() {
					for part := range parts {
						get(b, l, part)
						move(b, l, part, queue)
					}
				})
			}
			for part := range slices.Chunk(keys, benchBatch) {
				parts <- part
			}
			close(parts)
			movers.Wait()
			all += cpu(b) - started
		}
		b.ReportMetric(perRow(all), "us/row")
	})
}
