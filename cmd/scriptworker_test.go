package cmd

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/worker"
	"github.com/rogpeppe/go-internal/testscript"
)

// worker fails CODE MESSAGE is a worker that keeps its contract and has no luck:
// it claims every job that waits in the source, is refused, and quarantines it.
// worker handles N is the reference worker: it takes N copies from the source.
func scriptWorker(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case !neg && len(args) == 3 && args[0] == "fails":
		workerFails(ts, args[1], args[2])
	case !neg && len(args) == 2 && args[0] == "handles":
		workerHandles(ts, args[1])
	default:
		ts.Fatalf("usage: worker fails CODE MESSAGE, worker handles N")
	}
}

func workerHandles(ts *testscript.TestScript, number string) {
	n, err := strconv.Atoi(number)
	ts.Check(err)
	f, err := local.Open(ts.MkAbs("queue.db"), local.Options{})
	ts.Check(err)
	defer f.Close()
	l := openScriptLedger(ts)
	defer func() { ts.Check(l.Close()) }()
	scriptHandles(ts, scriptMailer(ts, f.Queue("digests"), l), n)
}

// scriptHandles lets a worker take n copies, one by one.
func scriptHandles(ts *testscript.TestScript, w *worker.Worker, n int) {
	w.Batch = 1
	for end := time.Now().Add(scriptPatience); n > 0; {
		took, err := w.Step(context.Background())
		ts.Check(err)
		n -= took
		if time.Now().After(end) {
			ts.Fatalf("%d copies did not come in %s", n, scriptPatience)
		}
	}
}

// scriptMailer is the reference worker on a queue. It sends to the script's
// provider.
func scriptMailer(ts *testscript.TestScript, q broker.Broker, l *sqlledger.Ledger) *worker.Worker {
	return &worker.Worker{
		Queue: q, Ledger: l, Renderings: l, Sender: &worker.HTTP{BaseURL: ts.Getenv("PROVIDER_URL"), Client: worker.NewClient()},
		Decode: func(m broker.Message) (worker.Work, error) {
			return worker.Work{Key: ledger.Key{JobKey: job.Decode(m, "digests").JobKey, Consumer: "mailer"}}, nil
		},
		Render:    func(m broker.Message, _ ledger.Row) ([]byte, error) { return json.Marshal(string(m.Body)) },
		Retry:     classify.RetryPolicy{Base: time.Millisecond, Cap: time.Millisecond, Budget: 2},
		ClaimLife: 2 * time.Second, Lease: 5 * time.Second, Batch: 10, Actor: "worker", Now: time.Now,
		Rand: rand.New(rand.NewPCG(1, 2)), Report: func(err error) { ts.Logf("worker: %v", err) },
	}
}

func workerFails(ts *testscript.TestScript, code, message string) {
	ctx := context.Background()
	f, err := local.Open(ts.MkAbs("queue.db"), local.Options{})
	ts.Check(err)
	defer f.Close()
	l, err := sqlledger.Open(ctx, sqlledger.Config{Path: ts.MkAbs("ledger.db"), Consumer: "mailer"})
	ts.Check(err)
	defer l.Close()
	q := f.Queue("digests")
	for {
		ds, err := q.Receive(ctx, broker.Request{Max: 10, Lease: time.Minute})
		ts.Check(err)
		if len(ds) == 0 {
			return
		}
		for _, d := range ds {
			ts.Check(failRow(ctx, l, job.Decode(d.Message, "digests").JobKey, code, message))
		}
		for _, r := range q.Quarantine(ctx, ds, broker.Reason{Code: code, Message: message}) {
			ts.Check(r.Err)
		}
	}
}

// failRow claims the row's current attempt and records a failure without effect: of
// the payload where the code is 400, else a throttled one.
func failRow(ctx context.Context, l *sqlledger.Ledger, key, code, reason string) error {
	class := "throttled"
	if code == "400" {
		class = "rejected_payload"
	}
	k := ledger.Key{JobKey: key, Consumer: "mailer"}
	row := l.Get(ctx, []ledger.Key{k})[0].Row
	for _, c := range []ledger.Change{
		{From: row.State, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute},
		{From: ledger.Sending, To: ledger.Failed, Resolve: ledger.ByWorker, ErrorClass: class, Effect: ledger.EffectNone, Reason: reason},
	} {
		c.Key, c.FromAttempt, c.Actor = k, row.Attempt, "worker"
		if r := l.Apply(ctx, []ledger.Change{c})[0]; r.Err != nil {
			return r.Err
		}
	}
	return nil
}
