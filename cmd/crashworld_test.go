//go:build crashpoints

package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/worker"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// These tests build the program once, with the tag crashpoints, and run it as
// an operator does: several processes, one after the other or at the same time,
// on files that they share. Only the world around it lives in the test: the
// provider, and the worker.

var crashProgram struct {
	sync.Mutex
	users int
	path  string
}

// crashBinary builds the program. Each test asks for it before it becomes
// parallel, so that the file is there until the last of them has ended.
func crashBinary(t *testing.T) string {
	t.Helper()
	p := &crashProgram
	p.Lock()
	defer p.Unlock()
	if p.users == 0 {
		dir, err := os.MkdirTemp("", "redrivectl-crash-")
		crashMust(t, err)
		p.path = filepath.Join(dir, "redrivectl")
		crashBuild(t, p.path, "-tags", "crashpoints")
	}
	p.users++
	t.Cleanup(func() {
		p.Lock()
		defer p.Unlock()
		if p.users--; p.users == 0 {
			crashMust(t, os.RemoveAll(filepath.Dir(p.path)))
		}
	})
	return p.path
}

func crashBuild(t *testing.T, path string, args ...string) {
	t.Helper()
	args = append(append([]string{"build", "-o", path}, args...), "github.com/redrivectl/redrivectl")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

func crashMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const crashConfig = `queues:
  digests:
    broker: local
    path: queue.db
    dead_letter: digests-dlq
    source: digests
    consumer: mailer
    ledger: app
    provider: mail
    worker: {claim_life: 2s, max_pause: 1s}
  plain:
    broker: local
    path: queue.db
    dead_letter: plain-dlq
    source: plain
    effects: {kind: idempotent, owner: team, reason: the consumer upserts}
ledgers:
  app: {kind: sqlite, path: ledger.db, mode: write, row_written: enqueue}
providers:
  mail:
    kind: http
    base_url: %s
    lookup:
      path: "/messages?op_id={job_key}"
      found: 'size(body.items) > 0'
      not_found: 'size(body.items) == 0'
      delay: 1s
      look_back: 30d
    proves: [accepted, not_accepted]
reconcile: {clock_margin: 1s, second_look_after: 100ms}
store: {path: state/store.db}
approval: {mode: recorded, identity: declared}
`

// crashWorld is one folder with everything in it, and what lives beside it.
type crashWorld struct {
	t        *testing.T
	bin      string
	dir      string
	provider *providertest.Server
	queues   *local.File
	ledger   *sqlledger.Ledger
	url      string

	mu    sync.Mutex
	ahead time.Duration // of the machine's clock, for every process
	close func()
}

// now is the world's clock.
func (w *crashWorld) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// pass puts the world's clock forward, so that leases end and delays are over.
func (w *crashWorld) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

func (w *crashWorld) path(name string) string { return filepath.Join(w.dir, name) }

// openCrashWorld opens, or makes, the world in dir. Its clock is off by ahead.
func openCrashWorld(t *testing.T, bin, dir string, ahead time.Duration) *crashWorld {
	t.Helper()
	w := &crashWorld{t: t, bin: bin, dir: dir, ahead: ahead}
	var err error
	w.provider, err = providertest.New(providertest.Config{Now: w.now, Log: w.path("provider.log")})
	crashMust(t, err)
	server := httptest.NewServer(w.provider)
	w.url = server.URL
	crashMust(t, os.WriteFile(w.path("redrivectl.yaml"), fmt.Appendf(nil, crashConfig, w.url), 0o600))
	w.queues, err = local.Open(w.path("queue.db"), local.Options{Create: true, Now: w.now})
	crashMust(t, err)
	w.ledger, err = sqlledger.Open(t.Context(), sqlledger.Config{
		Path: w.path("ledger.db"), Create: true, Now: w.now, RowWritten: ledger.AtEnqueue, Consumer: demoConsumer,
	})
	crashMust(t, err)
	w.close = sync.OnceFunc(func() {
		server.Close()
		crashMust(t, errors.Join(w.ledger.Close(), w.queues.Close(), w.provider.Close()))
	})
	t.Cleanup(w.close)
	return w
}

// copyCrashWorld opens a copy of a world that nobody has open.
func copyCrashWorld(t *testing.T, bin, from string) *crashWorld {
	t.Helper()
	dir := t.TempDir()
	crashMust(t, os.CopyFS(dir, os.DirFS(from)))
	return openCrashWorld(t, bin, dir, 0)
}

// environment is the whole of a process's environment: nothing of the test's
// own, so that its remembered checkpoints and its person are the world's.
func (w *crashWorld) environment(actor string, more ...string) []string {
	return append([]string{
		"HOME=" + w.dir, "XDG_STATE_HOME=" + w.path("home"), "PATH=" + os.Getenv("PATH"),
		"REDRIVECTL_ACTOR=" + actor, "REDRIVECTL_CLOCK=" + w.now().Sub(time.Now()).String(),
	}, more...)
}

// ended is how a process ended and what it said.
type crashEnd struct {
	code   int // -1: by a signal
	killed bool
	stdout []byte
	stderr []byte
}

func (e crashEnd) String() string {
	return fmt.Sprintf("exit %d, killed %v\n%s%s", e.code, e.killed, e.stdout, e.stderr)
}

// command is the program with arguments, in the world's folder.
func (w *crashWorld) command(args []string, env ...string) *exec.Cmd {
	c := exec.Command(w.bin, args...)
	c.Dir, c.Env = w.dir, w.environment("requester", env...)
	return c
}

func crashRun(t *testing.T, c *exec.Cmd) crashEnd {
	t.Helper()
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	c.WaitDelay = time.Minute
	return crashEnded(t, c, c.Run(), &out, &problems)
}

func crashEnded(t *testing.T, c *exec.Cmd, err error, out, problems *bytes.Buffer) crashEnd {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s, _ := c.ProcessState.Sys().(syscall.WaitStatus)
	return crashEnd{
		code: c.ProcessState.ExitCode(), killed: s.Signaled() && s.Signal() == syscall.SIGKILL,
		stdout: out.Bytes(), stderr: problems.Bytes(),
	}
}

// killed runs a command that is armed to die at a boundary, and demands that it
// does: the boundary was reached.
func (w *crashWorld) killed(at string, args ...string) {
	w.t.Helper()
	if e := crashRun(w.t, w.command(args, "REDRIVECTL_CRASH_AT="+at)); !e.killed {
		w.t.Fatalf("%s was not reached by %v: %s", at, args, e)
	}
}

// ask runs a command for its JSON and demands an exit code.
func (w *crashWorld) ask(v any, code int, args ...string) {
	w.t.Helper()
	e := crashRun(w.t, w.command(append(args, "-o", "json")))
	if e.code != code {
		w.t.Fatalf("redrivectl %s: want exit %d: %s", strings.Join(args, " "), code, e)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(e.stdout, v); err != nil {
		w.t.Fatalf("redrivectl %s: %v: %s", strings.Join(args, " "), err, e)
	}
}

// approved makes a plan of everything that may go, approved by another person.
func (w *crashWorld) approved(queue string, more ...string) planView {
	w.t.Helper()
	var p planView
	w.ask(&p, exitDone, append([]string{"plan", "create", queue, "--all", "--max", "1000", "--reason", "outage over"}, more...)...)
	if p.Needed > 0 {
		c := w.command([]string{"approve", p.Plan, "--items", fmt.Sprint(p.ItemCount), "--reason", "agreed"})
		c.Env = w.environment("approver")
		if e := crashRun(w.t, c); e.code != exitDone {
			w.t.Fatalf("approve: %s", e)
		}
	}
	return p
}

// onlyRun is the world's one run.
func (w *crashWorld) onlyRun() runRecordView {
	w.t.Helper()
	rs := w.runs()
	if len(rs) != 1 {
		w.t.Fatalf("%d runs", len(rs))
	}
	return rs[0]
}

func (w *crashWorld) runs() []runRecordView {
	w.t.Helper()
	var out struct{ Runs []runRecordView }
	w.ask(&out, exitDone, "runs", "list")
	return out.Runs
}

// crashJob is one job as the world begins with it.
type crashJob struct {
	key    string
	state  ledger.State
	sent   bool // the provider has accepted it
	copies int  // dead copies
	reason broker.Reason
}

var (
	crashThrottled = broker.Reason{Type: "throttled", Code: "429", Message: "too many requests"}
	crashTimeout   = broker.Reason{Type: "timeout", Code: "killed", Message: "the worker was killed"}
)

// message is the job as its application published it.
func (j crashJob) message() broker.Message {
	body := fmt.Sprintf(`{"format":"redrivectl/v1","job_key":%q,"subject":%q,"version":"1","kind":%q,"channel":"email",`+
		`"customer":{"id":"c-%s","status":"active"},"region":"eu","schema_version":%q,"payload":{"for":%q}}`, j.key, "s:"+j.key, demoDigest, j.key, demoSchema, j.key)
	return broker.Message{Body: []byte(body), Attributes: []broker.Attribute{{Name: "n", Type: "Number.int", Value: []byte("7")}}}
}

// makeQueues makes an empty world's queues and ledger.
func (w *crashWorld) makeQueues() {
	w.t.Helper()
	crashMust(w.t, os.MkdirAll(w.path("state"), 0o700))
	for _, c := range []local.QueueConfig{
		{Name: "digests-dlq"},
		{Name: "digests", DeadLetter: "digests-dlq"},
		{Name: "plain-dlq"},
		{Name: "plain", DeadLetter: "plain-dlq"},
	} {
		crashMust(w.t, w.queues.CreateQueue(w.t.Context(), c))
	}
	crashMust(w.t, w.ledger.Init(w.t.Context()))
}

// publish puts a job into a source queue.
func (w *crashWorld) publish(queue string, j crashJob) {
	w.t.Helper()
	crashMust(w.t, w.queues.Queue(queue).Publish(w.t.Context(), queue, []broker.Outgoing{{Message: j.message()}})[0].Err)
}

// dead puts a dead copy of the job into the dead-letter queue of queue.
func (w *crashWorld) dead(queue string, j crashJob) {
	w.t.Helper()
	w.publish(queue, j)
	q := w.queues.Queue(queue)
	ds, err := q.Receive(w.t.Context(), broker.Request{Max: 1, Lease: time.Minute})
	crashMust(w.t, err)
	crashMust(w.t, q.Quarantine(w.t.Context(), ds, j.reason)[0].Err)
}

// enqueue writes the job's row, as its application does.
func (w *crashWorld) enqueue(j crashJob) {
	w.t.Helper()
	crashMust(w.t, w.ledger.Insert(w.t.Context(), ledger.NewRow{
		Key: crashKey(j.key), Subject: "s:" + j.key, Version: "1", Region: "eu", CustomerID: "c-" + j.key, Actor: "app",
		PayloadSHA256: job.Decode(j.message(), "digests").PayloadSHA256,
	}))
}

func crashKey(key string) ledger.Key { return ledger.Key{JobKey: key, Consumer: demoConsumer} }

// add makes a job stand as it says.
func (w *crashWorld) add(j crashJob) {
	w.t.Helper()
	w.enqueue(j)
	if j.state != ledger.Queued {
		w.move(ledger.Change{Key: crashKey(j.key), From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: 2 * time.Second, Actor: "worker"})
	}
	requestID := ""
	if j.sent {
		requestID = w.send(j)
	}
	c := ledger.Change{Key: crashKey(j.key), From: ledger.Sending, FromAttempt: 1, To: j.state, Actor: "worker", Resolve: ledger.ByWorker}
	switch j.state {
	case ledger.Sent:
		c.RequestID = requestID
		w.move(c)
	case ledger.Failed:
		c.ErrorClass, c.Effect, c.Retryable = "throttled", ledger.EffectNone, true
		w.move(c)
	}
	for range j.copies {
		w.dead("digests", j)
	}
}

func (w *crashWorld) move(c ledger.Change) {
	w.t.Helper()
	if r := w.ledger.Apply(w.t.Context(), []ledger.Change{c})[0]; r.Outcome != ledger.Won {
		w.t.Fatalf("move %s from %s to %s: %v %v", c.Key.JobKey, c.From, c.To, r.Outcome, r.Err)
	}
}

// send has the provider accept a job.
func (w *crashWorld) send(j crashJob) string {
	w.t.Helper()
	h := worker.HTTP{BaseURL: w.url, Client: worker.NewClient()}
	id, err := h.Send(w.t.Context(), worker.Request{Key: crashKey(j.key), Attempt: 1, Region: "eu", Content: []byte(j.key)})
	crashMust(w.t, err)
	return id
}

// mailer is the reference worker of the queue with a ledger.
func (w *crashWorld) mailer() *worker.Worker {
	return &worker.Worker{
		Queue: w.queues.Queue("digests"), Ledger: w.ledger, Renderings: w.ledger,
		Sender: &worker.HTTP{BaseURL: w.url, Client: worker.NewClient()},
		Decode: demoDecode(demoConsumer), Render: demoRender, Retry: worker.Retry{Base: time.Second, Budget: 3},
		ClaimLife: 2 * time.Second, Lease: time.Minute, Batch: 10, Actor: "worker", Now: w.now,
		Rand: rand.New(rand.NewPCG(1, 2)), Report: func(err error) { w.t.Log(err) },
	}
}

// drain lets the worker work until the source queue is empty.
func (w *crashWorld) drain() {
	w.t.Helper()
	m := w.mailer()
	for range 20 {
		if w.depth("digests") == 0 {
			return
		}
		n, err := m.Step(w.t.Context())
		crashMust(w.t, err)
		if n == 0 {
			w.pass(2 * time.Minute)
		}
	}
	w.t.Fatal("the worker cannot empty its queue")
}

func (w *crashWorld) depth(queue string) int64 {
	w.t.Helper()
	d, err := w.queues.Queue(queue).Describe(w.t.Context())
	crashMust(w.t, err)
	return d.Depth.Total()
}

// keys are the job keys of the copies in a queue, sorted.
func (w *crashWorld) keys(queue string) []string {
	w.t.Helper()
	keys := []string{}
	_, err := w.queues.Queue(queue).Browse(w.t.Context(), 0, func(m broker.Message) error {
		keys = append(keys, job.Decode(m, queue).JobKey)
		return nil
	})
	crashMust(w.t, err)
	slices.Sort(keys)
	return keys
}

// state is the job's row as "state attempt".
func (w *crashWorld) state(key string) string {
	w.t.Helper()
	l := w.ledger.Get(w.t.Context(), []ledger.Key{crashKey(key)})[0]
	crashMust(w.t, l.Err)
	return fmt.Sprintf("%s %d", l.Row.State, l.Row.Attempt)
}

// records are the audit log's, oldest first.
func (w *crashWorld) records() []audit.Record {
	w.t.Helper()
	var rs []audit.Record
	w.reading(func(ctx context.Context, st *store.Store) error {
		return st.FindAudit(ctx, audit.Query{OldestFirst: true}, func(e audit.Entry) error {
			rs = append(rs, e.Record)
			return nil
		})
	})
	return rs
}

func (w *crashWorld) reading(do func(context.Context, *store.Store) error) {
	w.t.Helper()
	st, err := store.OpenReadOnly(w.t.Context(), w.path("state/store.db"), store.Options{Now: w.now})
	crashMust(w.t, err)
	defer func() { crashMust(w.t, st.Close()) }()
	crashMust(w.t, do(w.t.Context(), st))
}

// sentOnce demands that the provider's own log has each job accepted exactly
// once, and no other.
func (w *crashWorld) sentOnce(keys ...string) {
	w.t.Helper()
	want := map[string]int{"control": 1}
	for _, k := range keys {
		want[k] = 1
	}
	if d := cmp.Diff(want, w.provider.Accepted()); d != "" {
		w.t.Errorf("effects (want, got): %s", d)
	}
}

// verified demands a sound audit log with so many open intents.
func (w *crashWorld) verified(open int) {
	w.t.Helper()
	var v struct {
		OK          bool `json:"ok"`
		OpenIntents int  `json:"open_intents"`
	}
	w.ask(&v, exitDone, "audit", "verify")
	if !v.OK || v.OpenIntents != open {
		w.t.Errorf("audit log: %+v, want %d open intents", v, open)
	}
}

// archived are the job keys of the copies that runs were about to settle: each
// lies in the archive, whole, since its intent came after it.
func (w *crashWorld) archived(jobs ...crashJob) map[string]bool {
	w.t.Helper()
	bodies := map[string]string{}
	for _, j := range jobs {
		bodies[j.key] = string(j.message().Body)
	}
	found := map[string]bool{}
	for _, r := range w.records() {
		if r.Action != string(reconcile.Settle) || r.Phase != audit.Intent {
			continue
		}
		found[r.JobKey] = true
		w.reading(func(ctx context.Context, st *store.Store) error {
			entity, id, _ := strings.Cut(r.CopyID, "/")
			a, err := st.Archived(ctx, redrive.RunID(r.Run), broker.CopyID{Entity: entity, ID: id})
			if err == nil && string(a.Job.Message.Body) != bodies[r.JobKey] {
				err = fmt.Errorf("it holds %q", a.Job.Message.Body)
			}
			if err != nil {
				return fmt.Errorf("archive of %s: %w", r.JobKey, err)
			}
			return nil
		})
	}
	return found
}

// accounted demands that every job is in a queue, or was settled into the
// archive, or has its effect on record in its row.
func (w *crashWorld) accounted(jobs []crashJob) {
	w.t.Helper()
	have := w.archived(jobs...)
	for _, q := range []string{"digests", "digests-dlq"} {
		for _, k := range w.keys(q) {
			have[k] = true
		}
	}
	for _, j := range jobs {
		if s, _, _ := strings.Cut(w.state(j.key), " "); !have[j.key] && !ledger.State(s).Committed() {
			w.t.Errorf("job %s is lost: its row is %s and no copy is left", j.key, s)
		}
	}
}

// adds demands that a report adds up to its plan.
func (v runView) adds(t *testing.T) {
	t.Helper()
	n := v.Redriven + v.Settled + v.Discarded + v.Failed + v.Unknown + v.Remaining
	for _, k := range slices.Collect(maps.Values(v.Skipped)) {
		n += k
	}
	if n != v.Planned {
		t.Errorf("the report does not add up: %+v", v)
	}
}
