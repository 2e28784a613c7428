package local_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
)

const benchBatch = 100

func kib() []byte {
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// BenchmarkCycle is publish, receive and acknowledge of 1 KiB messages in
// batches of 100, beside the least that SQLite could do for it: insert, select
// and delete of the same bytes with the same durability, in one run. It reports
// the ratio of the two times.
func BenchmarkCycle(b *testing.B) {
	f, err := local.Open(filepath.Join(b.TempDir(), "queue.db"), local.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.CreateQueue(b.Context(), local.QueueConfig{Name: "jobs"}); err != nil {
		b.Fatal(err)
	}
	bare := openBare(b)
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		cycle(b, f.Queue("jobs"))
		between := time.Now()
		bareCycle(b, bare)
		ours += between.Sub(start)
		theirs += time.Since(between)
	}
	n := float64(b.N * benchBatch)
	b.ReportMetric(n/ours.Seconds(), "messages/s")
	b.ReportMetric(n/theirs.Seconds(), "bare-rows/s")
	b.ReportMetric(float64(ours)/float64(theirs), "times-bare")
}

func cycle(b *testing.B, q *local.Queue) {
	ms := make([]broker.Outgoing, benchBatch)
	for i := range ms {
		ms[i].Body = kib()
	}
	mustDone(b, q.Publish(b.Context(), "jobs", ms))
	ds, err := q.Receive(b.Context(), broker.Request{Max: benchBatch, Lease: time.Minute})
	if err != nil || len(ds) != benchBatch {
		b.Fatalf("received %d, error %v", len(ds), err)
	}
	mustDone(b, q.Ack(b.Context(), ds))
}

func openBare(b *testing.B) *sql.DB {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE m (id INTEGER PRIMARY KEY, body BLOB)`); err != nil {
		b.Fatal(err)
	}
	return db
}

func bareCycle(b *testing.B, db *sql.DB) {
	for _, step := range []struct {
		query string
		arg   any
	}{
		{`INSERT INTO m (body) VALUES (?)`, kib()},
		{`SELECT body FROM m WHERE id > ? LIMIT 1`, 0},
		{`DELETE FROM m WHERE id = (SELECT min(id) FROM m WHERE id > ?)`, 0},
	} {
		tx, err := db.Begin()
		if err != nil {
			b.Fatal(err)
		}
		s, err := tx.Prepare(step.query)
		if err != nil {
			b.Fatal(err)
		}
		for range benchBatch {
			if _, err := s.Exec(step.arg); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeep receives and acknowledges from queues of growing length: the
// time of one batch should hardly grow with it.
func BenchmarkDeep(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, _ := openFile(b, false)
			q := f.Queue("elsewhere")
			fill(b, q, "elsewhere", n)
			for b.Loop() {
				ds, err := q.Receive(b.Context(), broker.Request{Max: 10, Lease: time.Minute})
				if err != nil || len(ds) != 10 {
					b.Fatalf("received %d, error %v", len(ds), err)
				}
				mustDone(b, q.Release(b.Context(), ds))
			}
		})
	}
}

// fill publishes n messages of 1 KiB.
func fill(t testing.TB, q *local.Queue, destination string, n int) {
	t.Helper()
	body := kib()
	for n > 0 {
		ms := make([]broker.Outgoing, min(n, 100))
		for i := range ms {
			ms[i].Body = body
		}
		mustDone(t, q.Publish(t.Context(), destination, ms))
		n -= len(ms)
	}
}
