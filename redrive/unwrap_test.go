package redrive_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// original is what the wrapper of the tests holds, with an escape and a space that
// a second encoding would lose.
const original = `{ "job_key" : "k1", "text":"\u00e9" }`

func (w *world) wrapped(group string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"error":{"name":"Throttled","message":"429"},"original":{"body":%q,"messageAttributes":`+
		`{"n":{"DataType":"Number","StringValue":"7"},"b":{"DataType":"Binary","BinaryValue":"AP8="}}}}`, original)
	rs := w.queues.Queue("src").Publish(w.ctx, "dlq", []broker.Outgoing{{Message: broker.Message{
		Body: []byte(body), OrderKey: group,
		Attributes: []broker.Attribute{{Name: "wrapper", Type: "String", Value: []byte("x")}},
		System:     []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1")}},
	}}})
	w.must(rs[0].Err)
}

// source is what lies in the source queue, as its sender would have made it.
func (w *world) source() []broker.Message {
	w.t.Helper()
	var ms []broker.Message
	_, err := w.queues.Queue("src").Browse(w.ctx, 0, func(m broker.Message) error {
		ms = append(ms, broker.Message{Body: m.Body, Attributes: m.Attributes, System: m.System, OrderKey: m.OrderKey, Raw: m.Raw})
		return nil
	})
	w.must(err)
	return ms
}

func unwrappedOriginal() broker.Message {
	return broker.Message{Body: []byte(original), OrderKey: "group", Attributes: []broker.Attribute{
		{Name: "b", Type: "Binary", Value: []byte{0, 255}}, {Name: "n", Type: "Number", Value: []byte("7")},
	}}
}

// TestUnwrap is promise 8 for what an integration wrapped: the original's bytes
// and attributes alone go out, in its group, and the records name both hashes.
func TestUnwrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wrapped("group")
	w.row("k1", ledger.Failed)
	id := w.plan()
	sp, err := w.store.LoadPlan(w.ctx, string(id))
	w.must(err)
	dead := w.jobs()[0]
	sent := job.Decode(unwrappedOriginal(), "src")
	it := sp.Plan.Items[0]
	if !it.Unwrap || it.JobKey != "k1" || it.PayloadSHA256 != sent.PayloadSHA256 || it.BodySHA256 != sent.BodySHA256 ||
		it.MessageSHA256 != dead.MessageSHA256 || it.SentSHA256 != sent.MessageSHA256 || it.SentSHA256 == it.MessageSHA256 {
		t.Errorf("item %+v", it)
	}
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff([]broker.Message{unwrappedOriginal()}, w.source()); d != "" || e.Report.Redriven != 1 || w.depth("dlq") != 0 {
		t.Error(e.Report, d)
	}
	records := 0
	err = w.store.FindAudit(w.ctx, audit.Query{JobKey: "k1"}, func(e audit.Entry) error {
		records++
		d := e.Record.Details
		if d["unwrap"] != "true" || d["message_sha256"] != it.MessageSHA256 || d["sent_body_sha256"] != it.BodySHA256 || d["sent_sha256"] != it.SentSHA256 {
			t.Errorf("%+v", e.Record)
		}
		return nil
	})
	w.must(err)
	if records != 3 {
		t.Errorf("%d records", records)
	}
	w.work()
	if w.sends["k1"] != 1 {
		t.Errorf("%d sends", w.sends["k1"])
	}
}

// TestUnwrapCrash: wherever a run stops, the original is sent once and is not
// lost, and nobody is ever given the wrapper.
func TestUnwrapCrash(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.wrapped("group")
			w.row("k1", ledger.Failed)
			id := w.plan()
			w.reset()
			w.fault = stopAt(n)
			_, err := w.run(id)
			w.reset()
			w.pass(65 * time.Minute)
			if err != nil {
				_, err = w.resume()
				w.must(err)
			}
			for _, m := range w.source() {
				if d := cmp.Diff(unwrappedOriginal(), m); d != "" {
					t.Error(d)
				}
			}
			w.work()
			if w.sends["k1"] != 1 {
				t.Errorf("%d sends, %d dead", w.sends["k1"], w.depth("dlq"))
			}
		})
	}
}

// TestUnwrapChanged: an original that reads otherwise than it was approved is not
// sent, also where only its attributes do.
func TestUnwrapChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Job){
		"not unwrapped":      func(j *job.Job) { j.Original = nil },
		"body":               func(j *job.Job) { j.BodySHA256 = j.MessageSHA256 },
		"payload":            func(j *job.Job) { j.PayloadSHA256 = j.MessageSHA256 },
		"sent attributes":    func(j *job.Job) { j.SentSHA256 = j.MessageSHA256 },
		"the wrapper itself": func(j *job.Job) { j.MessageSHA256 = j.SentSHA256 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.wrapped("")
			w.row("k1", ledger.Failed)
			id := w.plan()
			r := w.runner("run1")
			r.Decode = func(m broker.Message) job.Job { j := decode(m); change(&j); return j }
			e, err := r.Run(w.ctx, string(id))
			w.must(err)
			if e.Report.Skipped["changed_message"] != 1 || w.depth("src") != 0 || w.depth("dlq") != 1 {
				t.Errorf("%+v", e.Report)
			}
		})
	}
}

// TestNotWhole: a message that does not hold its whole original is held, and says
// why; it can still be discarded.
func TestNotWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rs := w.queues.Queue("src").Publish(w.ctx, "dlq", []broker.Outgoing{{Message: broker.Message{
		Body: []byte(`{"error":{"name":"Throttled","message":"429"},"original":{"a":1},"truncated":true,"job_key":"k1"}`),
	}}})
	w.must(rs[0].Err)
	w.noLedger = true
	var empty *redrive.EmptyError
	if _, err := w.planner().Draft(w.ctx, w.request()); !errors.As(err, &empty) {
		t.Fatal(err)
	}
	want := "the job published again by its application, since the envelope does not hold the whole original"
	if h := empty.Held[0]; h.Why != "not_redrivable" || h.Needs != want {
		t.Errorf("%+v", h)
	}
	req := w.request()
	dropping(&req)
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	if len(d.Plan.Items) != 1 {
		t.Errorf("%+v", d.Plan.Held)
	}
}
