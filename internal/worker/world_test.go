package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
)

// stop is what a "killed" worker panics with.
type stop struct{ at string }

// provider is the outside world: what it accepted, in order, and what it does
// with the next requests.
type provider struct {
	mu       sync.Mutex
	accepted []string
	script   []func(context.Context, Request) error // nil entry or none: accept
	stopAt   string                                 // "before_send", "after_send"
}

func (p *provider) Send(ctx context.Context, r Request) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopAt == "before_send" {
		panic(stop{p.stopAt})
	}
	var act func(context.Context, Request) error
	if len(p.script) > 0 {
		act, p.script = p.script[0], p.script[1:]
	}
	if act != nil {
		if err := act(ctx, r); err != nil {
			return "", err
		}
	}
	p.accepted = append(p.accepted, fmt.Sprintf("%s/%d %s", r.Key.JobKey, r.Attempt, r.Content))
	if p.stopAt == "after_send" {
		panic(stop{p.stopAt})
	}
	return fmt.Sprintf("req-%d", len(p.accepted)), nil
}

// stoppingQueue dies around the acknowledgement or before the quarantine.
type stoppingQueue struct {
	broker.Broker
	stopAt string
}

func (q *stoppingQueue) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	if q.stopAt == "before_ack" {
		panic(stop{q.stopAt})
	}
	rs := q.Broker.Ack(ctx, ds)
	if q.stopAt == "after_ack" {
		panic(stop{q.stopAt})
	}
	return rs
}

func (q *stoppingQueue) Quarantine(ctx context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	if q.stopAt == "before_quarantine" {
		panic(stop{q.stopAt})
	}
	return q.Broker.Quarantine(ctx, ds, r)
}

// world is one queue with its dead-letter queue, ledger, provider and worker.
type world struct {
	t        *testing.T
	now      time.Time
	mu       sync.Mutex
	source   *stoppingQueue
	dlq      broker.Broker
	ledger   *sqlledger.Ledger
	provider *provider
	worker   *Worker
	name     string // of the queue jobs
	made     int    // messages published
}

const lease = time.Minute

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func newWorld(t *testing.T) *world { return newWorldOn(t, localQueues) }

// queues makes the queue jobs and jobs-dlq behind it, on the world's clock.
type queues func(w *world) (source, dlq broker.Broker)

func localQueues(w *world) (source, dlq broker.Broker) {
	t := w.t
	f, err := local.Open(filepath.Join(t.TempDir(), "queue.db"), local.Options{Create: true, Now: w.Now})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	must(t, f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs-dlq"}))
	must(t, f.CreateQueue(t.Context(), local.QueueConfig{Name: "jobs", DeadLetter: "jobs-dlq"}))
	return f.Queue("jobs"), f.Queue("jobs-dlq")
}

func newWorldOn(t *testing.T, on queues) *world {
	w := &world{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), provider: &provider{}, name: "jobs"}
	source, dlq := on(w)
	w.source, w.dlq = &stoppingQueue{Broker: source}, dlq
	var err error
	w.ledger, err = sqlledger.Open(t.Context(), sqlledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Create: true, Now: w.Now})
	must(t, err)
	t.Cleanup(func() { must(t, w.ledger.Close()) })
	must(t, w.ledger.Init(t.Context()))
	w.worker = &Worker{
		Queue: w.source, Ledger: w.ledger, Sender: w.provider, Renderings: w.ledger, Insert: w.ledger.Insert,
		Decode: func(m broker.Message) (Work, error) {
			if string(m.Body) == "broken" {
				return Work{}, fmt.Errorf("no job in it")
			}
			return Work{Key: ledger.Key{JobKey: string(m.Body)}, New: ledger.NewRow{Key: ledger.Key{JobKey: string(m.Body)}}}, nil
		},
		Render: func(_ broker.Message, r ledger.Row) ([]byte, error) {
			return fmt.Appendf(nil, "made at %d", r.Attempt), nil
		},
		Retry:     classify.RetryPolicy{Base: time.Second, Cap: time.Minute, Budget: 3},
		ClaimLife: 30 * time.Second, Lease: lease, Actor: "worker-1", Now: w.Now, Rand: rand.New(rand.NewPCG(1, 2)),
		Report: func(err error) { t.Error(err) },
	}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// enqueue writes the row and publishes copies of the job.
func (w *world) enqueue(job string, copies int) {
	w.t.Helper()
	must(w.t, w.ledger.Insert(w.t.Context(), ledger.NewRow{Key: ledger.Key{JobKey: job}, Subject: "s", Version: "1", Actor: "app"}))
	w.publish(job, copies)
}

func (w *world) publish(job string, copies int) {
	w.t.Helper()
	for range copies {
		w.made++
		m := broker.Outgoing{Message: broker.Message{Body: []byte(job)}, DedupID: fmt.Sprintf("message-%d", w.made)}
		if w.source.Capabilities().Ordered {
			m.OrderKey = "group"
		}
		r := w.source.Publish(w.t.Context(), w.name, []broker.Outgoing{m})[0]
		must(w.t, r.Err)
	}
}

// step lets the worker handle one copy; a stop ends it as a kill would.
func (w *world) step() (handled int) {
	w.t.Helper()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stop); !ok {
				panic(r)
			}
			w.provider.stopAt, w.source.stopAt = "", ""
			handled = 1
		}
	}()
	n, err := w.worker.Step(w.t.Context())
	if err != nil {
		w.t.Logf("step: %v", err)
	}
	return n
}

// settle lets time pass and the worker work until nothing moves any more.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		w.step()
		w.advance(lease)
	}
}

func (w *world) row(job string) ledger.Row {
	w.t.Helper()
	lk := w.ledger.Get(w.t.Context(), []ledger.Key{{JobKey: job}})[0]
	if lk.Found != ledger.Present {
		w.t.Fatalf("row %s: %s %v", job, lk.Found, lk.Err)
	}
	return lk.Row
}

func (w *world) apply(c ledger.Change) {
	w.t.Helper()
	r := w.ledger.Apply(w.t.Context(), []ledger.Change{c})[0]
	if r.Outcome != ledger.Won {
		w.t.Fatalf("%s → %s: outcome %d, %v", c.From, c.To, r.Outcome, r.Err)
	}
}

// depth is how many copies wait in the source, and the reasons of the dead ones.
func (w *world) copies() (waiting int64, dead []broker.Reason) {
	w.t.Helper()
	d, err := w.source.Describe(w.t.Context())
	must(w.t, err)
	_, err = w.dlq.Browse(w.t.Context(), 0, func(m broker.Message) error {
		r, _, err := local.ReasonOf(m)
		dead = append(dead, r)
		return err
	})
	must(w.t, err)
	return d.Depth.Total(), dead
}
