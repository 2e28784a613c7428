package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// docs/benchmarks.md says what these print and how to read it.

const benchConfig = `queues:
  digests: {broker: local, path: queue.db, dead_letter: digests-dlq, source: digests, consumer: mailer, ledger: app}
  plain:
    broker: local
    path: queue.db
    dead_letter: plain-dlq
    source: plain
    effects: {kind: idempotent, owner: team, reason: the consumer upserts}
ledgers:
  app: {kind: sqlite, path: ledger.db, mode: write, row_written: enqueue}
store: {path: store.db}
approval: {mode: recorded, solo: a benchmark has one person}
`

const benchChunk = 100 // messages in one publish

// benchWorld is a folder with n dead messages of 1 KiB in a queue.
type benchWorld struct {
	b   *testing.B
	bin string
	dir string
}

// plainBinary builds the program as a release is built.
func plainBinary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redrivectl")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/redrivectl/redrivectl")
	build.Env = append(os.Environ(), "GOFLAGS=") // without the race detector of the tests
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func newBenchWorld(b *testing.B, bin, queue string, n int) *benchWorld {
	b.Helper()
	w := &benchWorld{b: b, bin: bin, dir: b.TempDir()}
	w.must(os.WriteFile(w.path("redrivectl.yaml"), []byte(benchConfig), 0o600))
	f, err := local.Open(w.path("queue.db"), local.Options{Create: true})
	w.must(err)
	for _, q := range []string{"digests-dlq", "digests", "plain-dlq", "plain"} {
		w.must(f.CreateQueue(b.Context(), local.QueueConfig{Name: q}))
	}
	l, err := sqlledger.Open(b.Context(), sqlledger.Config{Path: w.path("ledger.db"), Create: true, Consumer: "mailer"})
	w.must(err)
	w.must(l.Init(b.Context()))
	for start := 0; start < n; start += benchChunk {
		var keys []string
		for i := start; i < min(start+benchChunk, n); i++ {
			keys = append(keys, fmt.Sprintf("job-%07d", i))
		}
		w.dead(f, queue, keys)
		if queue == "digests" {
			w.rows(l, keys)
		}
	}
	w.must(f.Close())
	w.must(l.Close())
	return w
}

func (w *benchWorld) path(name string) string { return filepath.Join(w.dir, name) }

func (w *benchWorld) must(err error) {
	w.b.Helper()
	if err != nil {
		w.b.Fatal(err)
	}
}

func (w *benchWorld) dead(f *local.File, queue string, keys []string) {
	w.b.Helper()
	body := bytes.Repeat([]byte("x"), 1024)
	out := make([]broker.Outgoing, len(keys))
	for i, k := range keys {
		out[i].Message = broker.Message{Body: body, Attributes: []broker.Attribute{
			textAttribute("job_key", k), textAttribute("region", "r"+k[len(k)-1:]),
			textAttribute("error_type", "throttled"), textAttribute("error_code", "429"),
		}}
	}
	for _, r := range f.Queue(queue).Publish(w.b.Context(), queue+"-dlq", out) {
		w.must(r.Err)
	}
}

// rows writes the jobs' rows as their worker left them: throttled, nothing sent.
func (w *benchWorld) rows(l *sqlledger.Ledger, keys []string) {
	w.b.Helper()
	rows := make([]ledger.NewRow, len(keys))
	claims, fails := make([]ledger.Change, len(keys)), make([]ledger.Change, len(keys))
	for i, k := range keys {
		key := ledger.Key{JobKey: k, Consumer: "mailer"}
		rows[i] = ledger.NewRow{Key: key, Actor: "application"}
		claims[i] = ledger.Change{Key: key, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"}
		fails[i] = ledger.Change{
			Key: key, From: ledger.Sending, FromAttempt: 1, To: ledger.Failed, Retryable: true, Actor: "worker",
			ErrorClass: "throttled", Effect: ledger.EffectNone, Resolve: ledger.ByWorker,
		}
	}
	w.must(l.Insert(w.b.Context(), rows...))
	for _, r := range append(l.Apply(w.b.Context(), claims), l.Apply(w.b.Context(), fails)...) {
		if r.Outcome != ledger.Won {
			w.b.Fatalf("seed a row: %v %v", r.Outcome, r.Err)
		}
	}
}

// copied is the same world once more, for what can be done only once.
func (w *benchWorld) copied() *benchWorld {
	w.b.Helper()
	c := *w
	c.dir = w.b.TempDir()
	w.must(os.CopyFS(c.dir, os.DirFS(w.dir)))
	return &c
}

// cost is what one process took.
type cost struct {
	peak float64 // MiB of resident memory
	took time.Duration
}

// command runs the program and decodes what it prints.
func (w *benchWorld) command(v any, args ...string) cost {
	w.b.Helper()
	c := exec.Command(w.bin, append(args, "-o", "json", "--yes")...)
	c.Dir, c.Env = w.dir, w.environment()
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	began := time.Now()
	if err := c.Run(); err != nil {
		w.b.Fatalf("redrivectl %s: %v: %s%s", strings.Join(args, " "), err, &problems, &out)
	}
	took := time.Since(began)
	if v != nil {
		w.must(json.Unmarshal(out.Bytes(), v))
	}
	peak := maxRSS(c.ProcessState)
	if peak == 0 {
		w.b.Fatal("this system does not tell the peak of a process")
	}
	return cost{peak, took}
}

// environment is what the program sees of this process's: where SQS is.
func (w *benchWorld) environment() []string {
	env := []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH")}
	for _, one := range os.Environ() {
		if strings.HasPrefix(one, "AWS_") {
			env = append(env, one)
		}
	}
	return env
}

// approved plans everything in the queue, and approves it.
func (w *benchWorld) approved(queue string, n int, flags ...string) (plan string, creation cost) {
	w.b.Helper()
	var p planView
	create := []string{"plan", "create", queue, "--all", "--max", fmt.Sprint(n), "--rate", "100000/s", "--reason", "benchmark"}
	creation = w.command(&p, append(create, flags...)...)
	if p.ItemCount != n {
		w.b.Fatalf("the plan has %d items: %v", p.ItemCount, p.LeftOut)
	}
	if p.Needed > 0 {
		w.command(nil, "approve", p.Plan, "--items", fmt.Sprint(n), "--reason", "benchmark")
	}
	return p.Plan, creation
}

// BenchmarkListMemory lists 10,000 and 100,000 messages of 1 KiB by class, and
// says how the peaks compare: a look's memory must not grow with the queue.
func BenchmarkListMemory(b *testing.B) {
	bin := plainBinary(b)
	small, large := newBenchWorld(b, bin, "plain", 10_000), newBenchWorld(b, bin, "plain", 100_000)
	var few, many cost
	for b.Loop() {
		few, many = small.command(nil, "list", "plain"), large.command(nil, "list", "plain")
	}
	b.ReportMetric(few.peak, "MiB-peak-10k")
	b.ReportMetric(many.peak, "MiB-peak-100k")
	b.ReportMetric(many.peak/few.peak, "peak-ratio")
	b.ReportMetric(100_000/many.took.Seconds(), "messages/s")
}

// BenchmarkPlanMemory plans one job in ten of 10,000 and of 100,000 messages of
// 1 KiB, and says what each further message costs.
func BenchmarkPlanMemory(b *testing.B) {
	bin := plainBinary(b)
	small, large := newBenchWorld(b, bin, "plain", 10_000), newBenchWorld(b, bin, "plain", 100_000)
	plan := []string{"plan", "create", "plain", "--region", "r7", "--max", "10000", "--rate", "100000/s", "--reason", "benchmark", "--dry-run"}
	var few, many cost
	for b.Loop() {
		few, many = small.command(nil, plan...), large.command(nil, plan...)
	}
	b.ReportMetric(few.peak, "MiB-peak-10k")
	b.ReportMetric(many.peak, "MiB-peak-100k")
	b.ReportMetric((many.peak-few.peak)*1024/90_000, "KiB/message")
	b.ReportMetric(100_000/many.took.Seconds(), "messages/s")
}

// BenchmarkRun plans and runs 10,000 messages of 1 KiB with the program itself.
func BenchmarkRun(b *testing.B) {
	const n = 10_000
	bin := plainBinary(b)
	for _, q := range []struct{ name, queue string }{{"ledger", "digests"}, {"no_ledger", "plain"}} {
		b.Run(q.name, func(b *testing.B) {
			seeded := newBenchWorld(b, bin, q.queue, n)
			var creation, running cost
			for b.Loop() {
				b.StopTimer()
				w := seeded.copied()
				var plan string
				plan, creation = w.approved(q.queue, n)
				b.StartTimer()
				var v runView
				running = w.command(&v, "run", plan)
				if v.Redriven != n {
					b.Fatalf("%+v", v)
				}
			}
			b.ReportMetric(n/running.took.Seconds(), "messages/s")
			b.ReportMetric(running.peak, "MiB-peak-run")
			b.ReportMetric(creation.peak, "MiB-peak-plan")
			b.ReportMetric(creation.took.Seconds(), "s/plan")
		})
	}
}

// BenchmarkAudit runs 2,000 messages with the audit log, and right after it the
// same with one that makes the same records and writes none, in turns. It
// prints the ratio of the two speeds and how many records shared a commit.
func BenchmarkAudit(b *testing.B) {
	const n = 2_000
	bin := plainBinary(b)
	for _, q := range []struct{ name, queue string }{{"ledger", "digests"}, {"no_ledger", "plain"}} {
		b.Run(q.name, func(b *testing.B) {
			seeded := newBenchWorld(b, bin, q.queue, n)
			var durable, silent time.Duration
			var commits, records int64
			for b.Loop() {
				d := seeded.inProcess(q.queue, n, false)
				s := seeded.inProcess(q.queue, n, true)
				durable, silent = durable+d.took, silent+s.took
				commits, records = commits+d.commits, records+d.records
			}
			b.ReportMetric(float64(silent)/float64(durable), "of-no-log")
			b.ReportMetric(float64(b.N)*n/durable.Seconds(), "messages/s")
			b.ReportMetric(float64(b.N)*n/silent.Seconds(), "messages/s-no-log")
			b.ReportMetric(float64(records)/float64(commits), "records/commit")
			b.ReportMetric(float64(records)/float64(b.N)/n, "records/message")
		})
	}
}

type inProcessRun struct {
	took             time.Duration
	commits, records int64 // of the store
	ledgerCommits    int64
}

// inProcess runs a plan in this process, on the parts that the command wires.
func (w *benchWorld) inProcess(queue string, n int, silent bool) inProcessRun {
	w.b.Helper()
	c := w.copied()
	plan, _ := c.approved(queue, n)
	return c.runInProcess(queue, plan, n, func(r *redrive.Runner) {
		if silent {
			r.Runs = &silentRuns{Runs: r.Runs}
		}
	})
}

// runInProcess runs on parts that with has changed.
func (w *benchWorld) runInProcess(queue, plan string, n int, with func(*redrive.Runner)) inProcessRun {
	w.b.Helper()
	ctx := w.b.Context()
	a := newApp(Env{
		Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Now: time.Now,
		Getenv: func(name string) string { return map[string]string{"HOME": w.dir}[name] },
	})
	a.configPath, a.output = w.path("redrivectl.yaml"), outputJSON
	st, err := a.store(ctx)
	w.must(err)
	r, err := a.runner(ctx, queue, st)
	w.must(err)
	with(r)
	commits, records := st.CommitStats()
	began := time.Now()
	e, err := r.Run(ctx, plan)
	took := time.Since(began)
	w.must(err)
	if e.Report.Redriven != n {
		w.b.Fatalf("%+v", e.Report)
	}
	now, written := st.CommitStats()
	done := inProcessRun{took: took, commits: now - commits, records: written - records}
	if l, ok := r.Ledger.(*sqlledger.Ledger); ok {
		done.ledgerCommits = l.Commits()
	}
	w.must(a.close())
	return done
}

// silentRuns gives a run a log that makes its records and writes none.
type silentRuns struct {
	redrive.Runs
	seq atomic.Int64
}

func (s *silentRuns) Fenced(redrive.Lease) audit.Log { return s }

func (s *silentRuns) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	h := audit.Head{Store: "00", Seq: s.seq.Add(int64(len(rs))), Hash: audit.Genesis}
	for _, r := range rs {
		if _, _, err := audit.Seal(r, h); err != nil {
			return h, err
		}
	}
	return h, nil
}
