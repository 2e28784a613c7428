package cmd

import (
	"context"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/rogpeppe/go-internal/testscript"
)

// worker fails CODE MESSAGE is a worker that keeps its contract and has no luck:
// it claims every job that waits in the source, is refused, and quarantines it.
func scriptWorker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 || args[0] != "fails" {
		ts.Fatalf("usage: worker fails CODE MESSAGE")
	}
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
			ts.Check(failRow(ctx, l, job.Decode(d.Message, "digests").JobKey, args[2]))
		}
		for _, r := range q.Quarantine(ctx, ds, broker.Reason{Code: args[1], Message: args[2]}) {
			ts.Check(r.Err)
		}
	}
}

// failRow claims the row's current attempt and records a failure without effect.
func failRow(ctx context.Context, l *sqlledger.Ledger, key, reason string) error {
	k := ledger.Key{JobKey: key, Consumer: "mailer"}
	row := l.Get(ctx, []ledger.Key{k})[0].Row
	for _, c := range []ledger.Change{
		{From: row.State, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute},
		{From: ledger.Sending, To: ledger.Failed, Resolve: ledger.ByWorker, ErrorClass: "throttled", Effect: ledger.EffectNone, Reason: reason},
	} {
		c.Key, c.FromAttempt, c.Actor = k, row.Attempt, "worker"
		if r := l.Apply(ctx, []ledger.Change{c})[0]; r.Err != nil {
			return r.Err
		}
	}
	return nil
}
