package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func wholeJob(n int, at time.Time) job.Job {
	attempt := n
	return job.Job{
		JobKey: fmt.Sprintf("job-%d", n), Format: "redrivectl/v1", Payload: []byte("secret payload"), PayloadBytes: 14, AttemptOnCopy: &attempt,
		Failure: job.Failure{Type: "E", Message: "bad \x1b[31m", At: at}, References: []job.Reference{{Kind: "payload", URI: "s3://x", SHA256: "00"}},
		Message: broker.Message{
			Copy: broker.CopyID{Entity: "a/dlq", ID: fmt.Sprint(n)}, MessageID: "m", Body: []byte("secret body \xff\x00"),
			Attributes: []broker.Attribute{{Name: "n", Type: "Number.int", Value: []byte("1")}, {Name: "b", Type: "Binary", Value: []byte{0, 255}}},
			RawFormat:  "amqp", Raw: []byte{1, 2, 0}, Receives: 3, SentAt: at,
		},
	}
}

func TestCaptures(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	if _, ok, err := f.LatestCapture(ctx, queue); ok || err != nil {
		t.Fatal(ok, err)
	}
	c := redrive.Capture{Queue: queue, Broker: "local", CapturedAt: f.clock.now(), Complete: true, Counted: "exact", Total: 1203}
	for i := range 1203 {
		c.Jobs = append(c.Jobs, wholeJob(i, f.clock.now()))
	}
	for range 2 { // the second replaces the first
		f.capture(t, c)
	}
	got, ok, err := f.LatestCapture(ctx, queue)
	for i := range c.Jobs {
		c.Jobs[i].Payload, c.Jobs[i].Message.Body, c.Jobs[i].Message.Raw = nil, nil, nil
	}
	if diff := cmp.Diff(c, got); diff != "" || !ok || err != nil {
		t.Error(ok, err, diff)
	}
	if n := f.count(t, `SELECT count(*) FROM capture_jobs`); n != 1203 {
		t.Errorf("%d captured jobs are kept", n)
	}
	if n := f.count(t, `SELECT count(*) FROM capture_jobs WHERE job LIKE '%secret%' OR job LIKE '%c2VjcmV0%'`); n != 0 {
		t.Errorf("%d captured jobs hold content", n)
	}
	f.clock.add(24*time.Hour + 1)
	if _, ok, err := f.LatestCapture(ctx, queue); ok || err != nil {
		t.Error("a capture older than a day is shown:", err)
	}
	f.capture(t, redrive.Capture{Queue: "other", CapturedAt: f.clock.now()})
	if n := f.count(t, `SELECT count(*) FROM capture_jobs`); n != 0 {
		t.Errorf("%d jobs of a capture older than a day are kept", n)
	}
}

// capture keeps c, job by job.
func (f *fixture) capture(t *testing.T, c redrive.Capture) {
	t.Helper()
	w, err := f.NewCapture(t.Context(), c.Queue, c.CapturedAt)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range c.Jobs {
		if err := w.Add(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// count asks the file itself.
func (f *fixture) count(t *testing.T, query string) (n int) {
	t.Helper()
	db := f.raw(t)
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestArchive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	a := redrive.Archived{
		Run: "aa01", Plan: "p", Queue: queue, Owner: "team", Retention: 90 * 24 * time.Hour, Job: wholeJob(1, f.clock.now()),
		Action: reconcile.Settle, At: f.clock.now(),
	}
	b := a
	b.Job = wholeJob(2, f.clock.now())
	b.Job.Message.Raw, b.Job.Message.Body = nil, nil
	for range 2 {
		if err := f.Save(ctx, a, b); err != nil {
			t.Fatal(err)
		}
	}
	if copies, err := f.ArchivedCopies(ctx, "aa01"); err != nil || cmp.Diff([]string{"a/dlq/1", "a/dlq/2"}, copies) != "" {
		t.Error(copies, err)
	}
	want := a
	want.Job.Payload = nil
	got, err := f.Archived(ctx, "aa01", a.Job.Message.Copy)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	other := a
	other.Job.Message.Body = []byte("another")
	if err := f.Save(ctx, other); !errors.Is(err, redrive.ErrChanged) {
		t.Error("a copy was archived twice with two contents:", err)
	}
	if _, err := f.Archived(ctx, "aa02", a.Job.Message.Copy); !errors.Is(err, redrive.ErrNotFound) {
		t.Error(err)
	}
	f.sql(t, `UPDATE archives SET body = x'00'`)
	if _, err := f.Archived(ctx, "aa01", a.Job.Message.Copy); !errors.Is(err, redrive.ErrChanged) {
		t.Error("an archived copy was changed by hand:", err)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	at := f.clock.now()
	found := func(key string, v reconcile.Verdict, at time.Time) reconcile.Found {
		return reconcile.Found{
			Queue: queue, JobKey: key, Attempt: 2, Verdict: v, At: at, Until: at.Add(time.Minute),
			Evidence:       reconcile.Evidence{Looks: []provider.Evidence{{Endpoint: "GET /messages", Rows: 1, AskedAt: at}}, ClockOffset: 0.25, Why: "why"},
			EvidenceSHA256: "e",
		}
	}
	older, newer, other := found("k1", reconcile.TooEarly, at), found("k1", reconcile.NotAccepted, at.Add(1)), found("k2", reconcile.Accepted, at)
	elsewhere := found("k1", reconcile.Accepted, at.Add(9))
	elsewhere.Queue = "other"
	if err := f.SaveVerdicts(ctx, newer, older, other, elsewhere); err != nil {
		t.Fatal(err)
	}
	got, err := f.LatestVerdicts(ctx, queue, []string{"k1", "k1", "k2", "none"})
	if diff := cmp.Diff(map[string]reconcile.Found{"k1": newer, "k2": other}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, err := f.LatestVerdicts(ctx, queue, nil); len(got) > 0 || err != nil {
		t.Error(got, err)
	}
}

func TestMemoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	at := f.clock.now()
	row := func(state ledger.State, attempt int, at time.Time) ledger.Row {
		return ledger.Row{Key: ledger.Key{JobKey: "k", Consumer: "c"}, State: state, Attempt: attempt, UpdatedAt: at}
	}
	for _, r := range []ledger.Row{row(ledger.Queued, 1, at), row(ledger.Sent, 2, at.Add(2)), row(ledger.Failed, 1, at.Add(1)), row(ledger.Failed, 1, at.Add(2))} {
		if err := f.Remember(ctx, "app", []ledger.Row{r}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.Seen(ctx, "app", []ledger.Key{{JobKey: "k", Consumer: "c"}, {JobKey: "k"}, {JobKey: "none"}})
	want := map[ledger.Key]reconcile.SeenRow{{JobKey: "k", Consumer: "c"}: {State: ledger.Sent, Attempt: 2, UpdatedAt: at.Add(2)}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if got, err := f.Seen(ctx, "another", []ledger.Key{{JobKey: "k", Consumer: "c"}}); len(got) > 0 || err != nil {
		t.Error(got, err)
	}
}

// An error names the action and not only the store.
func TestErrorsNameWhatFailed(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Close()
	err := f.SaveVerdicts(context.Background())
	if err == nil || !strings.Contains(err.Error(), "save verdicts") {
		t.Error(err)
	}
}
