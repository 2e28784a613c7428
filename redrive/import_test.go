package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/redrive"
)

// importLog is a log in memory that fails when told to.
type importLog struct {
	records []audit.Record
	fails   func(rs []audit.Record) error
}

func (l *importLog) Append(_ context.Context, rs ...audit.Record) (audit.Head, error) {
	if l.fails != nil {
		if err := l.fails(rs); err != nil {
			return audit.Head{}, errors.Join(audit.ErrNotWritable, err)
		}
	}
	l.records = append(l.records, rs...)
	return audit.Head{}, nil
}

// open are the intents that have no outcome.
func (l *importLog) open() (open []string) {
	for _, r := range l.records {
		if r.Phase == audit.Intent {
			open = append(open, r.CopyID)
		} else {
			open = slices.DeleteFunc(open, func(id string) bool { return id == r.CopyID })
		}
	}
	return open
}

// onlyPublish hides what else a broker can do.
type onlyPublish struct{ broker.Broker }

// importWorld is a queue to import into, in a file of its own.
type importWorld struct {
	*testing.T
	queue *local.Queue
	log   *importLog
	im    *redrive.Importer
}

func newImportWorld(t *testing.T) *importWorld {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC) }
	f, err := local.Open(t.TempDir()+"/queue.db", local.Options{Create: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.CreateQueue(t.Context(), local.QueueConfig{Name: "dlq"}); err != nil {
		t.Fatal(err)
	}
	w := &importWorld{T: t, queue: f.Queue("dlq"), log: &importLog{}}
	w.im = &redrive.Importer{
		Broker: w.queue, Log: w.log, Queue: "jobs", Entity: "dlq", Reason: "ticket", Details: map[string]string{"export_sha256": "x"},
		Decode: func(m broker.Message) job.Job { return job.Decode(m, "jobs") }, Customer: func(string) string { return "" },
		Who: audit.Who{Actor: audit.Person{Name: "operator", Known: "account"}}, Now: now,
		Records: func(_ context.Context, each func(audit.Record) error) error {
			for _, r := range w.log.records {
				if err := each(r); err != nil {
					return err
				}
			}
			return nil
		},
		Orphans: func([]audit.Record) {},
	}
	return w
}

func copiesOf(ms ...broker.Message) redrive.Copies {
	return func(_ context.Context, each func(broker.Message) error) error {
		for _, m := range ms {
			if err := each(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func deadCopy(entity string, id int) broker.Message {
	return broker.Message{
		Copy: broker.CopyID{Entity: entity, ID: fmt.Sprint(id)}, MessageID: fmt.Sprintf("m-%d", id), Origin: "jobs", Receives: 3,
		Body: fmt.Appendf(nil, "body %d", id), SentAt: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		System: []broker.Attribute{{Name: broker.SystemQuarantinedBy, Type: "String", Value: []byte("max_receives")}},
	}
}

func deadCopies(entity string, n int) []broker.Message {
	ms := make([]broker.Message, n)
	for i := range ms {
		ms[i] = deadCopy(entity, i+1)
	}
	return ms
}

func (w *importWorld) imports(want redrive.Imported, ms ...broker.Message) {
	w.Helper()
	if want.NotKept == nil {
		want.NotKept = map[string]int{}
	}
	got, err := w.im.Import(w.Context(), copiesOf(ms...))
	if err != nil {
		w.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		w.Fatalf("imported (-want +got):\n%s", d)
	}
}

func (w *importWorld) held() []broker.Message {
	w.Helper()
	var ms []broker.Message
	if _, err := w.queue.Browse(w.Context(), 0, func(m broker.Message) error { ms = append(ms, m); return nil }); err != nil {
		w.Fatal(err)
	}
	return ms
}

// TestImport: copies come back as they were, with a record before and after
// each, and once however often they are imported.
func TestImport(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	ms := deadCopies("dlq", 250)
	w.imports(redrive.Imported{Read: 250, Imported: 250}, ms...)
	if d := cmp.Diff(ms, w.held()); d != "" {
		t.Fatal(d)
	}
	if n := len(w.log.records); n != 500 || len(w.log.open()) != 0 {
		t.Errorf("%d records, open: %v", n, w.log.open())
	}
	j := job.Decode(ms[0], "jobs")
	want := audit.Record{
		Actor: w.im.Who.Actor, Queue: "jobs", Action: redrive.ActionImport, Phase: audit.Intent, Reason: "ticket",
		JobKey: j.JobKey, MessageID: "m-1", CopyID: "dlq/1", PayloadSHA256: j.PayloadSHA256, Details: w.im.Details,
	}
	if d := cmp.Diff(want, w.log.records[0]); d != "" {
		t.Errorf("record: %s", d)
	}
	w.imports(redrive.Imported{Read: 250, AlreadyThere: 250}, ms...)
	if n := len(w.log.records); n != 500 {
		t.Errorf("an import of nothing wrote %d records", n-500)
	}
}

// TestImportPresent: of equal copies as many are imported as are missing.
func TestImportPresent(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	same := func(entity string, id int) broker.Message {
		m := deadCopy(entity, 1)
		m.Copy.ID = fmt.Sprint(id)
		return m
	}
	w.imports(redrive.Imported{Read: 1, Imported: 1}, same("dlq", 7))
	w.imports(redrive.Imported{Read: 2, Imported: 1, AlreadyThere: 1}, same("dlq", 5), same("dlq", 7))
	w.imports(redrive.Imported{Read: 2, AlreadyThere: 2}, same("elsewhere", 1), same("elsewhere", 2))
	w.imports(redrive.Imported{Read: 3, Imported: 1, AlreadyThere: 2, NotKept: map[string]int{"copy_id": 1}},
		same("elsewhere", 1), same("elsewhere", 2), same("elsewhere", 3))
	w.imports(redrive.Imported{Read: 3, AlreadyThere: 3}, same("elsewhere", 1), same("elsewhere", 2), same("elsewhere", 3))

	other := deadCopy("dlq", 5) // its identity is another message's
	w.imports(redrive.Imported{Read: 1, Imported: 1, NotKept: map[string]int{"copy_id": 1}}, other)
	w.imports(redrive.Imported{Read: 2, AlreadyThere: 2}, other, same("dlq", 5))
	if n := len(w.held()); n != 4 {
		t.Errorf("%d copies", n)
	}
}

// TestImportInterrupted: whatever the log refuses, nothing is put back without
// an intent, and the import done again completes without a second copy and
// without an open intent.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	for _, entity := range []string{"dlq", "elsewhere"} {
		for _, phase := range []audit.Phase{audit.Intent, audit.Outcome} {
			t.Run(entity+" "+string(phase), func(t *testing.T) {
				t.Parallel()
				w := newImportWorld(t)
				var told []audit.Record
				w.im.Orphans = func(rs []audit.Record) { told = append(told, rs...) }
				calls := 0
				w.log.fails = func(rs []audit.Record) error {
					if calls++; calls > 2 && rs[0].Phase == phase {
						return errFault
					}
					return nil
				}
				ms := deadCopies(entity, 250)
				done, err := w.im.Import(t.Context(), copiesOf(ms...))
				if !errors.Is(err, audit.ErrNotWritable) {
					t.Fatal(err)
				}
				put, unrecorded := 100, 0
				if phase == audit.Outcome {
					put, unrecorded = 200, 100
				}
				if len(w.held()) != put || len(told) != unrecorded || len(w.log.open()) != unrecorded {
					t.Errorf("%d copies, %d outcomes told, %d intents open", len(w.held()), len(told), len(w.log.open()))
				}
				if done.Imported != put || done.Remaining != 250-put {
					t.Errorf("%+v", done)
				}
				w.log.fails = nil
				again, err := w.im.Import(t.Context(), copiesOf(ms...))
				if err != nil || again.Imported != 250-put || again.AlreadyThere != put {
					t.Errorf("%+v, %v", again, err)
				}
				if len(w.held()) != 250 || len(w.log.open()) != 0 {
					t.Errorf("%d copies, %d intents open", len(w.held()), len(w.log.open()))
				}
			})
		}
	}
}

// TestImportByPublish: a broker that cannot restore takes new messages, and what
// is lost is told.
func TestImportByPublish(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	w.im.Broker = onlyPublish{w.queue}
	ms := deadCopies("dlq", 3)
	lost := map[string]int{"copy_id": 3, "message_id": 3, "origin": 3, "receives": 3, "sent_at": 3, "system": 3}
	w.imports(redrive.Imported{Read: 3, Imported: 3, NotKept: lost}, ms...)
	w.imports(redrive.Imported{Read: 3, AlreadyThere: 3}, ms...)
	for i, m := range w.held() {
		if string(m.Body) != string(ms[i].Body) || m.MessageID == ms[i].MessageID {
			t.Errorf("copy %d: %+v", i, m)
		}
	}
}

// TestImportRefused: one copy that the queue cannot take stops no other.
func TestImportRefused(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	ms := deadCopies("dlq", 3)
	ms[1].OrderKey = "\x00"
	done, err := w.im.Import(t.Context(), copiesOf(ms...))
	if err != nil || done.Imported != 2 || done.Refused != 1 || len(done.Problems) != 1 || done.Problems[0].Copy != ms[1].Copy {
		t.Errorf("%+v, %v", done, err)
	}
	if len(w.log.open()) != 0 {
		t.Errorf("open: %v", w.log.open())
	}
}

func TestImportSurvey(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	ms := deadCopies("dlq", 3)
	w.imports(redrive.Imported{Read: 1, Imported: 1}, ms[1])
	w.log.records = nil
	got, err := w.im.Survey(t.Context(), copiesOf(ms...))
	if d := cmp.Diff(redrive.Imported{Read: 3, Imported: 2, AlreadyThere: 1, NotKept: map[string]int{}}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if len(w.held()) != 1 || len(w.log.records) != 0 {
		t.Errorf("%d copies, %d records", len(w.held()), len(w.log.records))
	}
}

// TestImportStopped: what ended before a batch tries nothing of it.
func TestImportStopped(t *testing.T) {
	t.Parallel()
	w := newImportWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.im.Progress = func(redrive.Imported) { cancel() }
	done, err := w.im.Import(ctx, copiesOf(deadCopies("dlq", 250)...))
	if !errors.Is(err, context.Canceled) || done.Imported != 100 || done.Remaining != 150 || len(w.held()) != 100 || len(w.log.open()) != 0 {
		t.Errorf("%+v, %v, %d copies, open %v", done, err, len(w.held()), w.log.open())
	}
}
