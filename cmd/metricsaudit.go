package cmd

import (
	"context"
	"slices"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// auditTally is what was counted of the audit log so far. The log only grows, so
// its counts are true counters, and each collection reads only what is new.
type auditTally struct {
	store    string // its ID
	seq      int64  // of the last record counted
	approved map[string]time.Time
	queues   map[string]*queueTally
}

type queueTally struct {
	closed    map[string]int
	publishes map[string]int
	prevented int
	lag       *metrics.Buckets
}

// The words that the labels of these figures can have; any other is "other".
var (
	closings = []string{
		"redriven", "settled", "discarded", audit.ResultSkipped, audit.ResultHeld, audit.ResultFailed, audit.ResultUnknown,
	}
	publishings = []string{audit.ResultDone, audit.ResultRefused, audit.ResultUnknown}
)

// oneOf is a word of a closed list, or "other".
func oneOf(word string, list []string) string {
	if slices.Contains(list, word) {
		return word
	}
	return "other"
}

// count reads what the log holds beyond what was counted. A log that is another,
// or shorter than before, is counted anew.
func (t *auditTally) count(ctx context.Context, st *store.Store) error {
	head, err := st.AuditHead(ctx)
	if err != nil {
		return err
	}
	if t.store != st.StoreID() || head.Seq < t.seq {
		*t = auditTally{store: st.StoreID(), approved: map[string]time.Time{}, queues: map[string]*queueTally{}}
	}
	if head.Seq == t.seq {
		return nil
	}
	return st.FindAudit(ctx, audit.Query{After: t.seq, OldestFirst: true}, func(e audit.Entry) error {
		t.seq = e.Record.Seq
		t.add(e.Record)
		return nil
	})
}

func (t *auditTally) add(r audit.Record) {
	if r.Action == "approve" {
		t.approved[r.Plan] = r.Time
	}
	if r.Run == "" || r.CopyID == "" || r.Phase != audit.Outcome {
		return
	}
	q := t.queue(r.Queue)
	if r.Step == audit.StepPublish {
		q.publishes[oneOf(r.Result, publishings)]++
	}
	if !r.Closes() {
		return
	}
	q.closed[oneOf(r.Ended(), closings)]++
	if end := (redrive.ItemEnd{Result: r.Ended(), Reason: r.Reason}); end.Prevented() {
		q.prevented++
	}
	if at, ok := t.approved[r.Plan]; ok {
		q.lag.Observe(r.Time.Sub(at).Seconds())
	}
}

// queue is the tally of one queue. One that was never seen has zeros, which is
// what a whole log that does not name it says.
func (t *auditTally) queue(name string) *queueTally {
	if t.queues[name] == nil {
		t.queues[name] = &queueTally{
			closed: map[string]int{}, publishes: map[string]int{},
			lag: metrics.NewBuckets(60, 300, 900, 3600, 4*3600, 8*3600, 24*3600),
		}
	}
	return t.queues[name]
}

// put writes the tally of one queue. A word that never occurred is 0, since the
// whole log was read.
func (t *auditTally) put(set *metrics.Set, queue string) {
	q := t.queue(queue)
	for _, word := range closings {
		set.Add("redrivectl_closed_items_total", 0, queue, word)
	}
	for word, n := range q.closed {
		set.Add("redrivectl_closed_items_total", float64(n), queue, word)
	}
	for _, word := range publishings {
		set.Add("redrivectl_publishes_total", 0, queue, word)
	}
	for word, n := range q.publishes {
		set.Add("redrivectl_publishes_total", float64(n), queue, word)
	}
	set.Add("redrivectl_duplicates_prevented_total", float64(q.prevented), queue)
	set.Distribution("redrivectl_approval_to_close_seconds", q.lag, queue)
}
