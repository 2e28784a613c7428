package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/ledgertest"
)

// The suites run on the parts as a process in calm weather sees them, without the
// schedule: bare is a handle that takes no time.

type bareQueue struct {
	qs *queues
	q  *queue
}

func (b bareQueue) Capabilities() broker.Capabilities { return b.qs.caps }

func (b bareQueue) Describe(context.Context) (broker.Description, error) {
	return b.qs.describe(b.q), nil
}

func (b bareQueue) Browse(ctx context.Context, limit int, each func(broker.Message) error) (broker.Completeness, error) {
	return b.qs.browse(ctx, b.q, limit, each)
}

func (b bareQueue) Receive(_ context.Context, r broker.Request) ([]broker.Delivery, error) {
	return b.qs.receive(b.q, r, nil), nil
}

func (b bareQueue) Extend(_ context.Context, ds []broker.Delivery, d time.Duration) []broker.Result {
	return b.qs.extend(b.q, ds, d)
}

func (b bareQueue) Ack(_ context.Context, ds []broker.Delivery) []broker.Result {
	return b.qs.ack(b.q, ds)
}

func (b bareQueue) Release(_ context.Context, ds []broker.Delivery) []broker.Result {
	return b.qs.release(b.q, ds)
}

func (b bareQueue) Publish(_ context.Context, to string, ms []broker.Outgoing) []broker.Result {
	rs := make([]broker.Result, len(ms))
	for i, m := range ms {
		rs[i] = b.qs.publish(to, m)
	}
	return rs
}

func (b bareQueue) Quarantine(_ context.Context, ds []broker.Delivery, r broker.Reason) []broker.Result {
	return b.qs.quarantine(b.q, ds, r)
}

func TestQueueKeepsTheContract(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered %t", ordered), func(t *testing.T) {
			brokertest.RunBut(t, map[string]string{
				"two receivers never hold one copy": "one process at a time holds the baton here",
				"an ended context applies nothing":  "no context of a schedule ends",
			}, func(*testing.T) brokertest.Fixture { return queueFixture(ordered) })
		})
	}
}

func queueFixture(ordered bool) brokertest.Fixture {
	now := epoch
	qs := newQueues(func() time.Time { return now }, broker.Capabilities{
		FreePeek: true, ExactCounts: true, NativeQuarantine: true, StableMessageID: true, SelectiveReceive: true, Ordered: ordered,
		MaxBatch: 100, MaxBatchBytes: 16 << 20, MaxMessageBytes: 1 << 20, MaxLease: 12 * time.Hour, DedupWindow: 5 * time.Minute,
	}, sourceName, deadName)
	qs.named[sourceName].deadLetter = deadName
	dead := bareQueue{qs, qs.named[deadName]}
	return brokertest.Fixture{
		Broker: dead, Destination: sourceName, Source: bareQueue{qs, qs.named[sourceName]}, SourceName: sourceName,
		Ordered: ordered, Advance: func(d time.Duration) { now = now.Add(d) },
		Seed: func(t *testing.T, ms []broker.Outgoing) {
			for _, r := range dead.Publish(t.Context(), deadName, ms) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		},
		Read: func(_ *testing.T, name string) (ms []broker.Message) {
			for _, c := range qs.named[name].copies {
				ms = append(ms, c.msg)
			}
			return ms
		},
	}
}

type bareLedger struct {
	l        *rows
	asked    *int
	readOnly bool
}

func (b bareLedger) Capabilities() ledger.Capabilities {
	c := b.l.caps
	c.Writable = !b.readOnly
	return c
}

func (b bareLedger) Now(context.Context) (time.Time, error) { return b.l.now(), nil }

func (b bareLedger) Get(_ context.Context, ks []ledger.Key) []ledger.Lookup {
	*b.asked++
	ls := make([]ledger.Lookup, len(ks))
	for i, k := range ks {
		ls[i] = b.l.get(k)
	}
	return ls
}

func (b bareLedger) History(_ context.Context, k ledger.Key) (ledger.Row, bool, error) {
	r := b.l.byKey[b.l.key(k)]
	if r == nil {
		return ledger.Row{}, false, nil
	}
	return b.l.read(r, true), true, nil
}

func (b bareLedger) Scan(_ context.Context, w ledger.Window, each func(ledger.Row) error) error {
	return b.l.scan(w, each)
}

func (b bareLedger) Apply(_ context.Context, cs []ledger.Change) []ledger.Result {
	rs := make([]ledger.Result, len(cs))
	for i, c := range cs {
		rs[i] = ledger.Result{Outcome: ledger.Lost, Err: ledger.ErrReadOnly}
		if !b.readOnly {
			rs[i] = b.l.apply(c)
		}
	}
	return rs
}

func TestLedgerKeepsTheContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Fixture {
		if t.Name() == "TestLedgerKeepsTheContract/race" {
			t.Skip("one process at a time holds the baton here")
		}
		now := epoch
		l := newRows(func() time.Time { return now }, "mailer")
		asked := 0
		own := bareLedger{l, &asked, false}
		return ledgertest.Fixture{
			Ledger: own, Second: own, ReadOnly: bareLedger{l, &asked, true},
			Insert:     func(n ledger.NewRow) error { return l.insert(n, "", time.Time{}) },
			Advance:    func(d time.Duration) { now = now.Add(d) },
			Spoil:      func(k ledger.Key) { l.unanswers[l.key(k)] = true },
			Statements: func() int { return asked },
			Dump: func() (s string) {
				for _, k := range l.order {
					s += fmt.Sprintf("%+v\n", l.byKey[k].Row)
				}
				return s
			},
		}
	})
}
