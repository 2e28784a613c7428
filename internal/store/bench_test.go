package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// nothing is a log that makes the same records and writes none of them.
type nothing struct{ seq atomic.Int64 }

func (n *nothing) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	h := audit.Head{Store: "00", Seq: n.seq.Add(int64(len(rs))), Hash: audit.Genesis}
	for _, r := range rs {
		if _, _, err := audit.Seal(r, h); err != nil {
			return h, err
		}
	}
	return h, nil
}

// BenchmarkAppend writes records one by one from many goroutines, as a run with
// that many batches in flight does, and compares with a log that writes nothing.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []struct {
		name string
		n    int
	}{{"1", 1}, {"16", 16}, {"256", 256}} {
		b.Run(callers.name, func(b *testing.B) {
			f := open(b)
			durable := perRecord(b, f, callers.n)
			commits, records := f.CommitStats()
			b.ReportMetric(float64(records)/float64(commits), "records/commit")
			b.ReportMetric(durable/free(), "x_of_no_log")
		})
	}
}

// perRecord is how long one record takes, in nanoseconds.
func perRecord(b *testing.B, log audit.Log, callers int) float64 {
	b.SetParallelism(callers)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := log.Append(context.Background(), step(1, audit.Intent, "", "")); err != nil {
				b.Error(err)
			}
		}
	})
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}

// free is what the same work costs on a log that writes nothing.
func free() float64 {
	log, n, started := &nothing{}, 0, time.Now()
	for ; time.Since(started) < 100*time.Millisecond; n++ {
		if _, err := log.Append(context.Background(), step(1, audit.Intent, "", "")); err != nil {
			panic(err)
		}
	}
	return float64(time.Since(started).Nanoseconds()) / float64(n)
}

// BenchmarkAppendBatch writes ten records at a time, as a batch of a broker
// makes them.
func BenchmarkAppendBatch(b *testing.B) {
	f := open(b)
	rs := make([]audit.Record, 10)
	for i := range rs {
		rs[i] = step(i, audit.Intent, "", "")
	}
	for b.Loop() {
		if _, err := f.Append(context.Background(), rs...); err != nil {
			b.Fatal(err)
		}
	}
	commits, records := f.CommitStats()
	b.ReportMetric(float64(records)/float64(commits), "records/commit")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
}

// BenchmarkVerify verifies a log of 100,000 records.
func BenchmarkVerify(b *testing.B) {
	f := open(b)
	for range 100 {
		appendN(b, f.Store, 1000)
	}
	for b.Loop() {
		if r, err := f.VerifyAudit(context.Background()); err != nil || !r.OK {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/record")
}

// BenchmarkLookUps asks what a run's re-check asks of 80 jobs, each time after
// something was appended.
func BenchmarkLookUps(b *testing.B) {
	f := open(b)
	const all, asked = 10_000, 80
	rows := make([]ledger.Row, all)
	for i := range rows {
		rows[i] = ledger.Row{Key: ledger.Key{JobKey: fmt.Sprintf("op-%08d", i), Consumer: "mailer"}, State: ledger.Failed, Attempt: 1, UpdatedAt: time.Now()}
	}
	if err := f.Remember(context.Background(), "jobs", rows); err != nil {
		b.Fatal(err)
	}
	for i := range 30 {
		appendN(b, f.Store, 1000+i%2)
	}
	keys, jobKeys, ids := make([]ledger.Key, asked), make([]string, asked), make([]redrive.Identity, asked)
	holds, payloads := make([]reconcile.HoldID, asked), make([]string, asked)
	for i := range keys {
		keys[i], jobKeys[i] = rows[i*7].Key, rows[i*7].JobKey
		ids[i] = redrive.Identity{JobKey: jobKeys[i], Entity: "mail-dlq", PayloadSHA256: audit.Hash([]byte(jobKeys[i]))}
		holds[i], payloads[i] = reconcile.HoldID{Entity: "mail-dlq", Job: jobKeys[i]}, ids[i].PayloadSHA256
	}
	for _, look := range []struct {
		name string
		up   func(context.Context) error
	}{
		{"seen", func(ctx context.Context) error { _, err := f.Seen(ctx, "jobs", keys); return err }},
		{"verdicts", func(ctx context.Context) error { _, err := f.LatestVerdicts(ctx, "mail", jobKeys); return err }},
		{"holds", func(ctx context.Context) error { _, err := f.HoldsOf(ctx, holds); return err }},
		{"tried", func(ctx context.Context) error { _, err := f.TriedBefore(ctx, payloads); return err }},
		{"published", func(ctx context.Context) error { _, err := f.PublishedOf(ctx, ids, "r-1"); return err }},
		{"replaced", func(ctx context.Context) error { _, err := f.ReplacedOf(ctx, ids, "r-1"); return err }},
	} {
		b.Run(look.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				appendN(b, f.Store, 10)
				b.StartTimer()
				if err := look.up(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/asked, "ns/job")
		})
	}
}
