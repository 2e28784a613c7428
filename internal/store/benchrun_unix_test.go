//go:build unix

package store_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redrivectl/redrivectl/audit"
)

// BenchmarkRun writes the records of a run of 10,000 jobs under a lease: of eight
// batches of ten at a time the intents, then the publishes, then the
// acknowledgements.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		f := open(b)
		log := f.Fenced(f.begin(b, f.plan(b, "1", item(1)), "aa01"))
		batches := runBatches(10_000)
		commits, records := f.CommitStats()
		before := cpuTime(b)
		b.StartTimer()
		appendRun(b, log, batches, 8)
		b.StopTimer()
		spent := cpuTime(b) - before
		c, r := f.CommitStats()
		b.ReportMetric(float64(r-records)/float64(c-commits), "records/commit")
		b.ReportMetric(float64(spent.Nanoseconds())/1000/float64(r-records), "cpu-us/record")
		b.ReportMetric(0, "ns/op")
		f.verified(b)
		if err := f.Close(); err != nil {
			b.Error(err)
		}
		b.StartTimer()
	}
}

// runBatches are the records of a run's steps, batch by batch.
func runBatches(jobs int) [][3][]audit.Record {
	all := make([][3][]audit.Record, jobs/10)
	for n := range jobs {
		for i, s := range []struct {
			phase        audit.Phase
			step, result string
		}{{audit.Intent, "", ""}, {audit.Outcome, audit.StepPublish, audit.ResultDone}, {audit.Outcome, audit.StepAck, audit.ResultDone}} {
			all[n/10][i] = append(all[n/10][i], jobRecord(n, s.phase, s.step, s.result))
		}
	}
	return all
}

// jobRecord is as long as a record of a job on SQS is, with names that have no
// order.
func jobRecord(n int, phase audit.Phase, step, result string) audit.Record {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	hash := hex.EncodeToString(sum[:])
	id := hash[:8] + "-" + hash[8:12] + "-" + hash[12:16] + "-" + hash[16:20] + "-" + hash[20:32]
	attempt := 2
	r := audit.Record{
		Actor: audit.Person{Name: "ana", Known: "account"}, Host: "worker-1", ToolVersion: "v1.0.0",
		Run: "aa01", Plan: strings.Repeat("cf3e2348", 8), Queue: "orders", Action: audit.ActionRedrive,
		Phase: phase, Step: step, Result: result, Attempt: &attempt,
		JobKey: "op-" + hash[32:40], LedgerRow: "app/mailer/op-" + hash[32:40], MessageID: id,
		CopyID: "arn:aws:sqs:us-east-1:000000000000:orders-dead/" + id, PayloadSHA256: hash,
		Details: map[string]string{"lift": "as"},
	}
	if phase == audit.Intent {
		r.Transition, r.Reason = "failed -> queued", "no_effect"
		r.Details["destination"] = "arn:aws:sqs:us-east-1:000000000000:orders"
		r.Details["class"], r.Details["decision_row"] = "unknown", "7"
	} else if step == audit.StepPublish {
		r.Details["new_message_id"] = id
	}
	return r
}

func appendRun(b *testing.B, log audit.Log, batches [][3][]audit.Record, callers int) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range callers {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(batches) {
					return
				}
				for _, rs := range batches[n] {
					if _, err := log.Append(b.Context(), rs...); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// cpuTime is what this process has spent so far.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
