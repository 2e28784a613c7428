package cmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
	"github.com/redrivectl/redrivectl/redrive"
)

// The sizes of BenchmarkSQS; docs/benchmarks.md says what they are for.
const (
	benchMessagesEnv    = "BENCH_MESSAGES"    // a list, default 10000
	benchLatenciesEnv   = "BENCH_LATENCIES"   // a list, default 0s,20ms
	benchRoundsEnv      = "BENCH_ROUNDS"      // default 2
	benchConnectionsEnv = "BENCH_CONNECTIONS" // of the movers; default: as many as a run has
	benchRigEnv         = "RIG"               // the server to use; default: one of our own
)

const benchSQSConfig = `queues:
  orders:
    broker: sqs
    dead_letter: dlq
    source: orders
    consumer: mailer
    ledger: app
    envelope: {job_key: body.operation_id}
ledgers:
  app: {kind: sqlite, path: ledger.db, mode: write, row_written: enqueue}
store: {path: store.db}
approval: {mode: recorded, solo: a benchmark has one person}
`

// BenchmarkSQS runs a plan for a whole dead-letter queue on an SQS server, in
// turns with a bare mover and one that keeps what it does, each in a process of its
// own, and says what the run costs beside the movers of the same round.
func BenchmarkSQS(b *testing.B) {
	w := newSQSWorld(b)
	smallest := map[string]float64{} // peaks by latency
	for _, n := range benchList(b, benchMessagesEnv, "10000", strconv.Atoi) {
		for _, latency := range benchList(b, benchLatenciesEnv, "0s,20ms", time.ParseDuration) {
			b.Run(fmt.Sprintf("messages=%d/latency=%s", n, latency), func(b *testing.B) {
				peak := w.measure(b, n, latency)
				if smallest[latency.String()] == 0 {
					smallest[latency.String()] = peak
				}
				b.ReportMetric(peak/smallest[latency.String()], "peak-ratio")
			})
		}
	}
}

func benchList[T any](b *testing.B, env, otherwise string, parse func(string) (T, error)) []T {
	b.Helper()
	text := os.Getenv(env)
	if text == "" {
		text = otherwise
	}
	var all []T
	for one := range strings.SplitSeq(text, ",") {
		v, err := parse(one)
		if err != nil {
			b.Fatalf("%s: %v", env, err)
		}
		all = append(all, v)
	}
	return all
}

// sqsWorld is a server and the program.
type sqsWorld struct {
	bin         string
	self        string // this test binary, which is also the movers
	url         string
	rounds      int
	connections int
}

func newSQSWorld(b *testing.B) *sqsWorld {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	w := &sqsWorld{bin: plainBinary(b), self: self, url: os.Getenv(benchRigEnv)}
	w.rounds = benchList(b, benchRoundsEnv, "2", strconv.Atoi)[0]
	w.connections = benchList(b, benchConnectionsEnv, strconv.Itoa(sqsConnections), strconv.Atoi)[0]
	if w.url == "" {
		w.url = startBenchServer(b, self)
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_SQS": w.url, "AWS_REGION": sqsfake.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "not-a-secret",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		b.Setenv(name, value)
	}
	return w
}

func startBenchServer(b *testing.B, self string) string {
	b.Helper()
	c := &exec.Cmd{Path: self, Args: []string{benchServerName}, Stderr: os.Stderr}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	var url string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		b.Fatalf("the server did not start: %v", err)
	}
	return url
}

// ask calls one of the server's pages beside SQS.
func (w *sqsWorld) ask(b *testing.B, v any, page string) {
	b.Helper()
	r, err := http.Get(w.url + page)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s %v: %s", page, r.Status, err, data)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(data, v); err != nil {
		b.Fatalf("%s: %v: %s", page, err, data)
	}
}

// moved is what one process did to the queues and took for it.
type moved struct {
	span     float64 // seconds from the first send to the last
	cpu      float64 // seconds
	peak     float64 // MiB
	requests int
	benchCheck
}

// add keeps the sum of all and the highest peak.
func (m *moved) add(o moved) {
	m.span, m.cpu, m.peak, m.requests = m.span+o.span, m.cpu+o.cpu, max(m.peak, o.peak), m.requests+o.requests
	m.Unique, m.Duplicates, m.Lost, m.Foreign = m.Unique+o.Unique, m.Duplicates+o.Duplicates, m.Lost+o.Lost, m.Foreign+o.Foreign
	m.Attributes, m.Trace = m.Attributes+o.Attributes, m.Trace+o.Trace
}

// measure moves n messages with the movers and with the program, in turns, and
// reports all. It returns the program's peak.
func (w *sqsWorld) measure(b *testing.B, n int, latency time.Duration) float64 {
	b.Helper()
	rows := w.rows(b, n)
	var bare, kept, run moved
	for b.Loop() {
		for range w.rounds {
			bare.add(w.bare(b, n, latency))
			kept.add(w.bare(b, n, latency, rows.copied().dir))
			run.add(w.run(b, rows.copied(), n, latency))
		}
	}
	all := float64(b.N * w.rounds * n)
	c := w.commits(b, rows.copied(), n, latency)
	b.ReportMetric(all/run.span, "messages/s")
	b.ReportMetric(all/bare.span, "mover-messages/s")
	b.ReportMetric(bare.span/run.span, "of-mover")
	b.ReportMetric(kept.span/run.span, "of-keeping-mover")
	b.ReportMetric(bare.span/kept.span, "keeping-mover-of-mover")
	b.ReportMetric(run.cpu*1e6/all, "cpu-us/message")
	b.ReportMetric(bare.cpu*1e6/all, "mover-cpu-us/message")
	b.ReportMetric(kept.cpu*1e6/all, "keeping-mover-cpu-us/message")
	b.ReportMetric(run.peak, "MiB-peak")
	b.ReportMetric(float64(run.requests)/all, "requests/message")
	b.ReportMetric(float64(c.records)/float64(c.commits), "records/commit")
	b.ReportMetric(float64(c.commits+c.ledgerCommits)/float64(n), "fsyncs/message")
	b.ReportMetric(float64(run.Duplicates), "duplicates")
	b.ReportMetric(float64(run.Lost), "lost")
	return run.peak
}

// fill puts n messages into the dead-letter queue.
func (w *sqsWorld) fill(b *testing.B, n int) {
	b.Helper()
	w.ask(b, nil, "/admin/config?latency=0s")
	w.ask(b, nil, "/admin/reset")
	w.ask(b, nil, fmt.Sprintf("/admin/seed?queue=%s&n=%d&size=1024&attrs=full&reason=none&keys=1", benchDead, n))
}

// watched runs a process on the queues and demands that it moved all of them.
func (w *sqsWorld) watched(b *testing.B, n int, latency time.Duration, c *exec.Cmd) moved {
	b.Helper()
	w.ask(b, nil, "/admin/reset?stats=1")
	w.ask(b, nil, "/admin/config?latency="+latency.String())
	var problems bytes.Buffer
	c.Stderr = &problems
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	peak := watchPeak(c.Process.Pid)
	if err := c.Wait(); err != nil {
		b.Fatalf("%s: %v: %s", c.Args, err, &problems)
	}
	var s benchStats
	w.ask(b, &s, "/stats")
	w.ask(b, nil, "/admin/config?latency=0s")
	m := moved{cpu: (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(), peak: peak(c.ProcessState), requests: s.Requests}
	m.span = float64(s.Queues[benchSource].LastSend-s.Queues[benchSource].FirstSend) / 1000
	w.ask(b, &m.benchCheck, "/admin/check?src="+benchDead+"&dst="+benchSource)
	if m.Unique != n || m.Foreign+m.Attributes+m.Trace > 0 {
		b.Fatalf("%s: %+v", c.Args, m)
	}
	return m
}

// watchPeak reads again and again what the system saw a process use at most,
// where it tells that of a running one. What it tells of one that has ended
// counts the memory of this one, which began it.
func watchPeak(pid int) func(*os.ProcessState) float64 {
	ended, done := make(chan struct{}), make(chan float64)
	go func() {
		var peak float64
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok && err == nil {
				var kib float64
				if _, err := fmt.Sscan(rest, &kib); err == nil {
					peak = max(peak, kib/1024)
				}
			}
			select {
			case <-ended:
				done <- peak
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func(p *os.ProcessState) float64 {
		close(ended)
		peak := <-done
		return cmp.Or(peak, maxRSS(p))
	}
}

// bare is what the mover does, or, in a folder with the rows of all, the mover
// that keeps what it does.
func (w *sqsWorld) bare(b *testing.B, n int, latency time.Duration, dir ...string) moved {
	b.Helper()
	w.fill(b, n)
	url := sqsfake.URL(w.url, "")
	args := append([]string{benchMoverName, url + benchDead, url + benchSource, strconv.Itoa(w.connections)}, dir...)
	return w.watched(b, n, latency, &exec.Cmd{Path: w.self, Args: args})
}

// run plans and approves everything at no latency, and measures the run alone.
func (w *sqsWorld) run(b *testing.B, f *benchWorld, n int, latency time.Duration) moved {
	b.Helper()
	w.fill(b, n)
	plan := f.approvedSQS(n)
	c := exec.Command(w.bin, "run", plan, "--yes", "-o", "json")
	c.Dir, c.Env = f.dir, f.environment()
	return w.watched(b, n, latency, c)
}

// approvedSQS plans everything in the queue. The messages tell no reason, and
// their rows say that nothing was sent.
func (w *benchWorld) approvedSQS(n int, flags ...string) string {
	w.b.Helper()
	plan, _ := w.approved(benchSource, n, append(flags, "--as", "throttled")...)
	return plan
}

// rows is a folder with a ledger that has the rows of n messages, and a config.
func (w *sqsWorld) rows(b *testing.B, n int) *benchWorld {
	b.Helper()
	f := &benchWorld{b: b, bin: w.bin, dir: b.TempDir()}
	f.must(os.WriteFile(filepath.Join(f.dir, "redrivectl.yaml"), []byte(benchSQSConfig), 0o600))
	l, err := sqlledger.Open(b.Context(), sqlledger.Config{Path: f.path("ledger.db"), Create: true, Consumer: "mailer"})
	f.must(err)
	f.must(l.Init(b.Context()))
	for start := 0; start < n; start += benchChunk {
		var keys []string
		for i := start; i < min(start+benchChunk, n); i++ {
			keys = append(keys, benchKey(i))
		}
		f.rows(l, keys)
	}
	f.must(l.Close())
	return f
}

// commits runs the same in this process, on the parts that the command wires,
// and counts the commits of the store and of the ledger.
func (w *sqsWorld) commits(b *testing.B, f *benchWorld, n int, latency time.Duration) inProcessRun {
	b.Helper()
	w.fill(b, n)
	plan := f.approvedSQS(n)
	w.ask(b, nil, "/admin/config?latency="+latency.String())
	r := f.runInProcess(benchSource, plan, n, func(*redrive.Runner) {})
	w.ask(b, nil, "/admin/config?latency=0s")
	return r
}
