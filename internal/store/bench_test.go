package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
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
