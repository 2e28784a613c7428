package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

// benchRateEnv is the rate of BenchmarkSQSRate in messages per second, default 500.
const benchRateEnv = "BENCH_RATE"

// BenchmarkSQSRate runs a plan at a rate that binds, and says what it reached and
// what the fullest second held: of sends begun, on the side of the run, and of
// messages taken, on the server's.
func BenchmarkSQSRate(b *testing.B) {
	w := newSQSWorld(b)
	for _, n := range benchList(b, benchMessagesEnv, "5000", strconv.Atoi) {
		for _, latency := range benchList(b, benchLatenciesEnv, "0s,20ms", time.ParseDuration) {
			b.Run(fmt.Sprintf("messages=%d/latency=%s", n, latency), func(b *testing.B) { w.paced(b, n, latency) })
		}
	}
}

func (w *sqsWorld) paced(b *testing.B, n int, latency time.Duration) {
	b.Helper()
	rows, rate := w.rows(b, n), benchList(b, benchRateEnv, "500", strconv.Atoi)[0]
	for b.Loop() {
		f := rows.copied()
		w.fill(b, n)
		plan := f.approvedSQS(n, "--rate", fmt.Sprintf("%d/s", rate))
		w.ask(b, nil, "/admin/reset?stats=1")
		w.ask(b, nil, "/admin/config?latency="+latency.String())
		var t timedBroker
		f.runInProcess(benchSource, plan, n, func(r *redrive.Runner) { t.Broker, r.Broker = r.Broker, &t })
		var s benchStats
		w.ask(b, &s, "/stats")
		w.ask(b, nil, "/admin/config?latency=0s")
		b.ReportMetric(t.reached(), "messages/s")
		b.ReportMetric(float64(t.fullest(time.Second)), "most-begun/s")
		b.ReportMetric(float64(s.Queues[benchSource].MaxSends), "most-taken/s")
	}
}

// timedBroker notes when each publish begins.
type timedBroker struct {
	broker.Broker
	mu     sync.Mutex
	starts []timedSend
}

type timedSend struct {
	at time.Time
	n  int
}

func (t *timedBroker) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	t.mu.Lock()
	t.starts = append(t.starts, timedSend{time.Now(), len(ms)})
	t.mu.Unlock()
	return t.Broker.Publish(ctx, to, ms)
}

// reached is the rate over the whole seconds from the first publish to the last.
// Where they come in bursts, the seconds begin with one.
func (t *timedBroker) reached() float64 {
	first, last := t.starts[0].at, t.starts[len(t.starts)-1].at
	span, sent := last.Sub(first).Truncate(time.Second), 0
	for _, s := range t.starts {
		if s.at.Sub(first) < span {
			sent += s.n
		}
	}
	return float64(sent) / span.Seconds()
}

// fullest is the most that any window of that length holds.
func (t *timedBroker) fullest(window time.Duration) (most int) {
	slices.SortFunc(t.starts, func(a, b timedSend) int { return a.at.Compare(b.at) })
	held, first := 0, 0
	for _, s := range t.starts {
		held += s.n
		for ; s.at.Sub(t.starts[first].at) >= window; first++ {
			held -= t.starts[first].n
		}
		most = max(most, held)
	}
	return most
}
