//go:build crashpoints

package cmd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/internal/worker"
)

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
  once:
    broker: local
    path: queue.db
    dead_letter: once-dlq
    source: once
    worker: {transport_retries: false}
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
		{Name: "once-dlq"},
		{Name: "once", DeadLetter: "once-dlq"},
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
		Decode: demoDecode(demoConsumer), Render: demoRender, Retry: classify.RetryPolicy{Base: time.Second, Budget: 3},
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
