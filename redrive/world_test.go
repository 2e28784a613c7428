package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

var errFault = errors.New("injected fault")

// world is the real store, queue and ledger under one clock, with a fault at
// any call and the list of the calls that were made.
type world struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	store  *store.Store
	queues *local.File
	ledger *sqlledger.Ledger
	broker broker.Broker // of the dead-letter queue
	policy string        // digest in force
	class  classify.Result
	owners map[classify.Class]string

	mu    sync.Mutex
	now   time.Time
	calls []string
	// fault is asked before each named call; it may act, and its error fails it.
	fault func(call string) error
	// after is told of each append that was durable.
	after    func(kinds string)
	noLedger bool
	readOnly bool
	orphans  []audit.Record
	disk     redrive.Digests // what is in force
	sends    map[string]int  // the provider's log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, ctx: t.Context(), now: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC), policy: "p1",
		class: classify.Result{Class: classify.Throttled, Rule: "r", Effect: classify.EffectNone, Disposition: classify.Retry},
		sends: map[string]int{},
	}
	dir := t.TempDir()
	w.dir = dir
	var err error
	w.store, err = store.Open(w.ctx, filepath.Join(dir, "store.db"), store.Options{Create: true, Now: w.clock, GroupWait: -1})
	w.must(err)
	t.Cleanup(func() { w.must(w.store.Close()) })
	w.queues, err = local.Open(filepath.Join(dir, "queue.db"), local.Options{Create: true, Now: w.clock})
	w.must(err)
	t.Cleanup(func() { w.must(w.queues.Close()) })
	w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "dlq"}))
	w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "src", DeadLetter: "dlq"}))
	w.ledger, err = sqlledger.Open(w.ctx, sqlledger.Config{Path: filepath.Join(dir, "ledger.db"), Create: true, Now: w.clock, Consumer: "mailer"})
	w.must(err)
	w.must(w.ledger.Init(w.ctx))
	t.Cleanup(func() { w.must(w.ledger.Close()) })
	w.broker = w.queues.Queue("dlq")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.pass(d)
	return nil
}

// call notes a call and asks for its fault.
func (w *world) call(name string) error {
	w.mu.Lock()
	w.calls = append(w.calls, name)
	f := w.fault
	w.mu.Unlock()
	if f != nil {
		return f(name)
	}
	return nil
}

// dead puts jobs into the dead-letter queue whose row failed provably at
// attempt 1.
func (w *world) dead(keys ...string) {
	w.t.Helper()
	for _, k := range keys {
		w.copy(k, "")
		if !w.noLedger {
			w.row(k, ledger.Failed)
		}
	}
}

func (w *world) copy(key, group string) {
	w.t.Helper()
	rs := w.queues.Queue("src").Publish(w.ctx, "dlq", []broker.Outgoing{{Message: broker.Message{
		Body: []byte("body of " + key + "\x00\xff"), OrderKey: group,
		Attributes: []broker.Attribute{{Name: "job_key", Type: "String", Value: []byte(key)}, {Name: "n", Type: "Number.int", Value: []byte("7")}},
		System:     []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1")}},
	}}})
	w.must(rs[0].Err)
}

// row writes a ledger row and moves it to the state, at attempt 1.
func (w *world) row(key string, to ledger.State) {
	w.t.Helper()
	k := ledger.Key{JobKey: key, Consumer: "mailer"}
	w.must(w.ledger.Insert(w.ctx, ledger.NewRow{Key: k, Actor: "app"}))
	if to == ledger.Queued {
		return
	}
	w.move(ledger.Change{Key: k, From: ledger.Queued, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
	c := ledger.Change{Key: k, From: ledger.Sending, FromAttempt: 1, To: to, Actor: "worker", Resolve: ledger.ByWorker}
	switch to {
	case ledger.Sending:
		return
	case ledger.Failed:
		c.ErrorClass, c.Effect, c.Retryable = "throttled", ledger.EffectNone, true
	case ledger.Fenced:
		c.Resolve = ledger.Unresolved
		w.pass(2 * time.Minute)
	}
	w.move(c)
}

func (w *world) move(c ledger.Change) {
	w.t.Helper()
	if r := w.ledger.Apply(w.ctx, []ledger.Change{c})[0]; r.Outcome != ledger.Won {
		w.t.Fatalf("move %s from %s to %s: %v %v", c.Key.JobKey, c.From, c.To, r.Outcome, r.Err)
	}
}

func (w *world) state(key string) string {
	w.t.Helper()
	l := w.ledger.Get(w.ctx, []ledger.Key{{JobKey: key, Consumer: "mailer"}})[0]
	w.must(l.Err)
	return fmt.Sprintf("%s %d", l.Row.State, l.Row.Attempt)
}

// policyOf classifies by nothing but the world's one class.
type policyOf struct{ w *world }

func (policyOf) Of(c classify.Class, rule string) classify.Result {
	return classify.Result{Class: c, Rule: rule, Disposition: classify.Discard, Effect: classify.EffectNone}
}

func (p policyOf) Classify(job.Job, time.Time) classify.Result {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.class
}

func (w *world) led() ledger.Ledger {
	if w.noLedger {
		return nil
	}
	return &faultyLedger{w.ledger, w}
}

func (w *world) judge() redrive.Judge {
	r := &reconcile.Reconciler{
		Ledger: w.led(), Verdicts: w.store, Memory: w.store, Holds: w.store, Policy: policyOf{w}, Now: w.clock, Sleep: w.sleep,
		RunLives: func(ctx context.Context, run string) (bool, error) { return w.store.Lives(ctx, redrive.RunID(run)) },
		Settings: reconcile.Settings{Queue: "dlq", Consumer: "mailer", LedgerName: "app", ClaimLife: time.Minute},
	}
	return redrive.Judge{Facts: r, Disposition: func(c classify.Class) (classify.Disposition, bool) {
		return classify.Retry, c == classify.Throttled
	}}
}

func who(name string) audit.Who {
	return audit.Who{Actor: audit.Person{Name: name, Known: "declared"}, Host: "host", ToolVersion: "test"}
}

func (w *world) planner() *redrive.Planner {
	return &redrive.Planner{
		Plans: w.store, Assess: w.judge(), Who: who("requester"), Now: w.clock,
		Nonce: func() string { return fmt.Sprint(w.clock().UnixNano()) }, Customer: func(id string) string { return "hmac:" + id },
		Shipped: map[string]bool{"p1": true, "p2": true, "s1": true},
	}
}

func (w *world) jobs() []job.Job {
	w.t.Helper()
	var js []job.Job
	_, err := w.broker.Browse(w.ctx, 0, func(m broker.Message) error {
		js = append(js, decode(m))
		return nil
	})
	w.must(err)
	return js
}

func decode(m broker.Message) job.Job { return job.Decode(m, "dlq") }

func (w *world) request() redrive.Request {
	caps := w.broker.Capabilities()
	return redrive.Request{
		Queue: redrive.QueueFacts{
			Name: "dlq", Entity: "dlq", Broker: "local", Consumer: "mailer", Destination: "src",
			Ledger: !w.noLedger, LedgerName: "app", LedgerWritable: !w.noLedger && !w.readOnly, LedgerSendBefore: true, Ordered: caps.Ordered,
		},
		Jobs: w.jobs(), Select: redrive.Selection{All: true}, Max: 100, Rate: 50, Expires: 2 * time.Hour,
		Reason: "test", Digests: redrive.Digests{Policy: "p1", Settings: "s1"}, ArchiveRetention: time.Hour,
	}
}

// plan saves a plan of everything in the queue, approved as far as it needs.
func (w *world) plan(change ...func(*redrive.Request)) redrive.PlanID {
	w.t.Helper()
	req := w.request()
	for _, c := range change {
		c(&req)
	}
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	w.must(w.planner().Save(w.ctx, d))
	for i := range d.Plan.Tier.Needed() {
		_, err := w.approver(fmt.Sprintf("approver%d", i)).Approve(w.ctx, string(d.ID), len(d.Plan.Items), "fine")
		w.must(err)
	}
	return d.ID
}

func (w *world) approver(name string) *redrive.Approver {
	return &redrive.Approver{Plans: w.store, Who: who(name), Persons: redrive.Persons{Declared: true}, Now: w.clock}
}

func (w *world) runner(id string) *redrive.Runner {
	return &redrive.Runner{
		Broker: &faultyBroker{w.broker, w}, Ledger: w.led(), LedgerName: "app",
		Plans: w.store, Runs: &faultyRuns{w.store, w}, Rollbacks: w.store, Archive: &faultyArchive{w.store, w},
		Assess: w.judge(), Decode: decode, Current: redrive.Digests{Policy: w.policy, Settings: "s1"},
		Persons: redrive.Persons{Declared: true}, Owner: func(c classify.Class) string { return w.owners[c] }, Who: who("operator"),
		NewRunID: func() redrive.RunID { return redrive.RunID(id) }, Now: w.clock, Sleep: w.sleep,
		Ticks:    func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} },
		LeaseTTL: time.Hour, DeliveryLease: 10 * time.Minute, EmptyTries: 3, EmptyWait: time.Second, Workers: 1,
		Orphans: func(rs []audit.Record) { w.orphans = append(w.orphans, rs...) },
	}
}

// work lets the worker, keeping its contract, handle everything in the source.
func (w *world) work() { w.workOn("src") }

func (w *world) workOn(queue string) {
	w.t.Helper()
	src := w.queues.Queue(queue)
	for {
		ds, err := src.Receive(w.ctx, broker.Request{Max: 10, Lease: time.Minute})
		w.must(err)
		if len(ds) == 0 {
			return
		}
		for _, d := range ds {
			w.handle(src, d)
		}
	}
}

func (w *world) handle(src broker.Broker, d broker.Delivery) {
	w.t.Helper()
	key := ledger.Key{JobKey: decode(d.Message).JobKey, Consumer: "mailer"}
	if w.noLedger {
		w.sends[key.JobKey]++
		w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
		return
	}
	row := w.ledger.Get(w.ctx, []ledger.Key{key})[0].Row
	claim := ledger.Change{Key: key, From: row.State, FromAttempt: row.Attempt, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"}
	if row.State == ledger.Queued && w.ledger.Apply(w.ctx, []ledger.Change{claim})[0].Outcome == ledger.Won {
		w.sends[key.JobKey]++
		w.move(ledger.Change{Key: key, From: ledger.Sending, FromAttempt: row.Attempt, To: ledger.Sent, Resolve: ledger.ByWorker, Actor: "worker"})
		row.State = ledger.Sent
	}
	if row.State.Committed() {
		w.must(src.Ack(w.ctx, []broker.Delivery{d})[0].Err)
	}
}

func (w *world) depth(queue string) int {
	w.t.Helper()
	d, err := w.queues.Queue(queue).Describe(w.ctx)
	w.must(err)
	return int(d.Depth.Total())
}

func (w *world) trace() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.fault = nil, nil
}

// failAt fails the n-th passing of a call, from 1, with errFault.
func failAt(call string, n int) func(string) error {
	return func(name string) error {
		if name == call {
			n--
			if n == 0 {
				return errFault
			}
		}
		return nil
	}
}

type faultyBroker struct {
	broker.Broker
	w *world
}

func (b *faultyBroker) Publish(ctx context.Context, to string, ms []broker.Outgoing) []broker.Result {
	switch err := b.w.call("publish"); {
	case errors.Is(err, errLost):
		b.Broker.Publish(ctx, to, ms)
		return broker.All(len(ms), broker.Result{Err: err})
	case errors.Is(err, broker.ErrThrottled):
		return broker.All(len(ms), broker.Result{Outcome: broker.Refused, Err: err})
	case err != nil:
		return broker.All(len(ms), broker.Result{Outcome: broker.Refused, Err: err})
	}
	return b.Broker.Publish(ctx, to, ms)
}

func (b *faultyBroker) Ack(ctx context.Context, ds []broker.Delivery) []broker.Result {
	switch err := b.w.call("ack"); {
	case errors.Is(err, broker.ErrDenied):
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: err})
	case errors.Is(err, errLost):
		b.Broker.Ack(ctx, ds)
		return broker.All(len(ds), broker.Result{Err: err})
	case err != nil:
		return broker.All(len(ds), broker.Result{Outcome: broker.Refused, Err: broker.ErrLeaseLost})
	}
	return b.Broker.Ack(ctx, ds)
}

func (b *faultyBroker) Release(ctx context.Context, ds []broker.Delivery) []broker.Result {
	_ = b.w.call("release")
	return b.Broker.Release(ctx, ds)
}

// errLost is a call that took place and whose reply was lost.
var errLost = errors.New("reply lost")

type faultyLedger struct {
	ledger.Ledger
	w *world
}

func (l *faultyLedger) Capabilities() ledger.Capabilities {
	c := l.Ledger.Capabilities()
	c.Writable = c.Writable && !l.w.readOnly
	return c
}

func (l *faultyLedger) Apply(ctx context.Context, cs []ledger.Change) []ledger.Result {
	switch err := l.w.call("ledger"); {
	case errors.Is(err, errLost):
		l.Ledger.Apply(ctx, cs)
		return make([]ledger.Result, len(cs))
	case err != nil:
		return make([]ledger.Result, len(cs))
	}
	return l.Ledger.Apply(ctx, cs)
}

type faultyArchive struct {
	redrive.Archive
	w *world
}

func (a *faultyArchive) Save(ctx context.Context, as ...redrive.Archived) error {
	if err := a.w.call("archive"); err != nil {
		return err
	}
	return a.Archive.Save(ctx, as...)
}

type faultyRuns struct {
	redrive.Runs
	w *world
}

func (r *faultyRuns) Fenced(l redrive.Lease) audit.Log { return &faultyLog{r.Runs.Fenced(l), r.w} }

type faultyLog struct {
	audit.Log
	w *world
}

func (l *faultyLog) Append(ctx context.Context, rs ...audit.Record) (audit.Head, error) {
	var kinds []string
	for _, r := range rs {
		kind := string(r.Phase)
		if r.Step != "" {
			kind = r.Step
		}
		if r.Step == audit.StepClose {
			kind += ":" + r.Result + ":" + r.Reason
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if err := l.w.call("log:" + strings.Join(kinds, "+")); err != nil {
		return audit.Head{}, err
	}
	h, err := l.Log.Append(ctx, rs...)
	if err == nil && l.w.after != nil {
		l.w.after(strings.Join(kinds, "+"))
	}
	return h, err
}
