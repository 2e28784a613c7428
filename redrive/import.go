package redrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/crash"
	"github.com/redrivectl/redrivectl/internal/job"
)

// detailReceives is how often a message was received that its queue takes for a
// new one.
const detailReceives = "receives"

// ActionImport is the action of the records of an import.
const ActionImport = "import"

// maxProblems bounds what an import tells one by one.
const maxProblems = 100

// Copies calls each for every copy that is to be imported: the same copies in
// the same order each time.
type Copies func(ctx context.Context, each func(broker.Message) error) error

// Importer puts copies back into a dead-letter queue, and never anywhere else.
// What comes back is quarantined as before: it goes on only by a plan. A copy
// that is there already is passed over, so that an import that was interrupted
// is completed by doing it again.
type Importer struct {
	Broker broker.Broker
	Log    audit.Log
	// Records calls each for the import records of the queue, oldest first.
	Records  func(ctx context.Context, each func(audit.Record) error) error
	Decode   func(broker.Message) job.Job
	Customer func(id string) string
	Who      audit.Who
	Now      func() time.Time
	Queue    string // as configured
	Entity   string // the dead-letter queue, as the broker names it
	Reason   string
	// Details say in every record where the copies come from.
	Details map[string]string
	// Progress is told after every batch; nil: nobody is.
	Progress func(Imported)
	// Orphans takes outcomes that the log could not.
	Orphans func([]audit.Record)
}

// Imported is what an import did, by count of copies: Read = Imported +
// AlreadyThere + Refused + Unknown + Remaining.
type Imported struct {
	Read         int
	Imported     int
	AlreadyThere int
	Refused      int // provably not put back
	Unknown      int
	Remaining    int // not tried, because the import was interrupted
	// NotKept counts, by field of the message, what could not come back as it was.
	NotKept  map[string]int
	Problems []ImportProblem // the first of what was refused or is unknown
}

// ImportProblem is a copy that is not known to be in the queue.
type ImportProblem struct {
	Copy      broker.CopyID
	MessageID string
	Outcome   broker.Outcome
	Why       error
}

// Survey counts what Import would do now, and changes nothing.
func (im *Importer) Survey(ctx context.Context, copies Copies) (Imported, error) {
	r, err := im.begin(ctx, copies)
	if err != nil {
		return Imported{}, err
	}
	err = copies(ctx, func(m broker.Message) error {
		if r.present.take(m) {
			r.done.AlreadyThere++
		} else {
			r.done.Imported++
		}
		r.done.Remaining--
		return nil
	})
	return r.done, err
}

// Import puts back what is not there yet, in batches: the intents of a batch are
// durable before it, its outcomes before the next. An error that wraps
// audit.ErrNotWritable ended it; ctx ends it between two batches.
func (im *Importer) Import(ctx context.Context, copies Copies) (Imported, error) {
	r, err := im.begin(ctx, copies)
	if err == nil {
		r.open, err = im.openIntents(ctx)
	}
	if err != nil {
		return Imported{}, err
	}
	err = copies(ctx, func(m broker.Message) error { return r.add(ctx, m) })
	if err == nil {
		err = r.flush(ctx)
	}
	return r.done, err
}

// importing is one import at work.
type importing struct {
	*Importer
	present *presence
	open    map[string]bool // intents of an earlier import that has no outcome, by subject
	batch   []broker.Message
	bytes   int
	found   []audit.Record // outcomes of open intents whose copies are there
	done    Imported
}

func (im *Importer) begin(ctx context.Context, copies Copies) (*importing, error) {
	r := &importing{Importer: im, done: Imported{NotKept: map[string]int{}}}
	var err error
	if r.present, r.done.Read, err = im.look(ctx, copies); err != nil {
		return nil, err
	}
	r.done.Remaining = r.done.Read
	return r, nil
}

// openIntents are those that an interrupted import left, by subject.
func (im *Importer) openIntents(ctx context.Context) (map[string]bool, error) {
	open := map[string]bool{}
	err := im.Records(ctx, func(r audit.Record) error {
		switch {
		case r.Phase == audit.Intent:
			open[importSubject(r)] = true
		case r.Closes():
			delete(open, importSubject(r))
		}
		return nil
	})
	return open, err
}

func importSubject(r audit.Record) string { return r.CopyID + "\x00" + r.JobKey }

// add takes the next copy.
func (r *importing) add(ctx context.Context, m broker.Message) error {
	if r.present.take(m) {
		r.passOver(m)
		return r.flushAt(ctx, 0)
	}
	if err := r.flushAt(ctx, messageBytes(m)); err != nil {
		return err
	}
	r.batch = append(r.batch, m)
	r.bytes += messageBytes(m)
	return nil
}

// flushAt carries out the batch if no copy of so many bytes has room in it.
func (r *importing) flushAt(ctx context.Context, next int) error {
	c := r.Broker.Capabilities()
	full := c.MaxBatchBytes > 0 && len(r.batch) > 0 && r.bytes+next > c.MaxBatchBytes
	if !full && len(r.batch)+len(r.found) < c.MaxBatch {
		return nil
	}
	return r.flush(ctx)
}

// passOver counts a copy that is there. If an earlier import put it there and
// could not say so, that is said now.
func (r *importing) passOver(m broker.Message) {
	r.done.AlreadyThere++
	r.done.Remaining--
	if len(r.open) == 0 {
		return
	}
	rec := r.record(m)
	if !r.open[importSubject(rec)] {
		return
	}
	rec.Phase, rec.Result, rec.Reason = audit.Outcome, audit.ResultDone, "found in the queue after the import was interrupted"
	r.found = append(r.found, rec)
}

// flush carries out the batch. Once its copies are handed to the broker, the
// outcomes are recorded even though ctx has ended.
func (r *importing) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	recs := r.found
	for _, m := range r.batch {
		rec := r.record(m)
		rec.Phase, rec.Reason = audit.Intent, r.Reason
		recs = append(recs, rec)
	}
	if len(recs) == 0 {
		return nil
	}
	if _, err := r.Log.Append(ctx, recs...); err != nil {
		return err
	}
	crash.At("import.1.intended")
	batch := r.batch
	r.batch, r.bytes, r.found = nil, 0, nil
	if len(batch) == 0 {
		return nil
	}
	return r.put(context.WithoutCancel(ctx), batch)
}

func (r *importing) put(ctx context.Context, batch []broker.Message) error {
	results := r.restore(ctx, batch)
	crash.At("import.2.restored")
	recs := make([]audit.Record, len(batch))
	for i, m := range batch {
		recs[i] = r.outcome(m, results[i])
		r.count(m, results[i])
	}
	if _, err := r.Log.Append(ctx, recs...); err != nil {
		r.Orphans(recs)
		return err
	}
	crash.At("import.3.recorded")
	if r.Progress != nil {
		r.Progress(r.done)
	}
	return nil
}

func (r *importing) count(m broker.Message, res broker.Result) {
	r.done.Remaining--
	switch res.Outcome {
	case broker.Done:
		r.done.Imported++
		for _, field := range r.notKept(m, res) {
			r.done.NotKept[field]++
		}
		return
	case broker.Refused:
		r.done.Refused++
	default:
		r.done.Unknown++
	}
	if len(r.done.Problems) < maxProblems {
		r.done.Problems = append(r.done.Problems, ImportProblem{m.Copy, m.MessageID, res.Outcome, res.Err})
	}
}

// record is what every record about one copy says. CopyID is the identity that
// the copy had.
func (im *Importer) record(m broker.Message) audit.Record {
	r := JobRecord(im.Who, ActionImport, im.Decode(m), im.Customer)
	r.Queue, r.Details = im.Queue, map[string]string{}
	maps.Copy(r.Details, im.Details)
	if _, restores := im.Broker.(broker.Restorer); !restores && m.Receives > 1 {
		r.Details[detailReceives] = strconv.Itoa(m.Receives) // the queue forgets them, and they count
	}
	return r
}

func (im *Importer) outcome(m broker.Message, res broker.Result) audit.Record {
	r := im.record(m)
	r.Phase, r.Result = audit.Outcome, res.Outcome.String()
	if res.Err != nil {
		r.Reason = reasonOf(res.Err)
	}
	if res.Copy != m.Copy && res.Copy != (broker.CopyID{}) {
		r.Details["new_copy_id"] = res.Copy.String()
	}
	if res.NewMessageID != m.MessageID && res.NewMessageID != "" {
		r.Details["new_message_id"] = res.NewMessageID
	}
	return r
}

// errRestoredShort is a broker that breaks its contract.
var errRestoredShort = errors.New("the broker did not answer for every copy")

// restore has the broker take the batch, as it was where the broker can.
func (im *Importer) restore(ctx context.Context, batch []broker.Message) []broker.Result {
	var results []broker.Result
	if b, ok := im.Broker.(broker.Restorer); ok {
		results = b.Restore(ctx, batch)
	} else {
		results = im.Broker.Publish(ctx, im.Entity, im.outgoing(batch))
	}
	if len(results) != len(batch) {
		return broker.All(len(batch), broker.Result{Err: fmt.Errorf("%w: %d of %d", errRestoredShort, len(results), len(batch))})
	}
	return results
}
