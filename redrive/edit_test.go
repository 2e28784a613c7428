package redrive_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// json puts a copy with a JSON payload into the dead-letter queue, and its row
// into the ledger, if there is one.
func (w *world) json(key, payload string, to ledger.State) {
	w.t.Helper()
	m := broker.Message{Body: []byte(payload), Attributes: []broker.Attribute{{Name: "n", Type: "Number.int", Value: []byte("7")}}}
	if key != "" {
		m.Attributes = append(m.Attributes, broker.Attribute{Name: "job_key", Type: "String", Value: []byte(key)})
	}
	w.must(w.queues.Queue("src").Publish(w.ctx, "dlq", []broker.Outgoing{{Message: m}})[0].Err)
	if to != "" && !w.noLedger {
		w.row(key, to)
	}
}

// editing makes the request one for an edit.
func (w *world) editing(jq, revision string) func(*redrive.Request) {
	return func(r *redrive.Request) {
		rule, err := redrive.NewEditRule(jq, revision)
		w.must(err)
		e, err := redrive.NewEditor(rule, decode)
		w.must(err)
		r.Lifts.Edit, r.Edits = rule, []redrive.Edited{}
		r.Queue.LedgerReplaces = !w.noLedger
		for _, j := range r.Jobs {
			r.Edits = append(r.Edits, e.Edited(w.ctx, j))
		}
	}
}

// draft makes a plan of everything without saving it.
func (w *world) draft(change ...func(*redrive.Request)) (redrive.Draft, error) {
	req := w.request()
	for _, c := range change {
		c(&req)
	}
	return w.planner().Draft(w.ctx, req)
}

// why is what a plan makes of its one job: the item's action, or why it is held.
func (w *world) why(change ...func(*redrive.Request)) string {
	w.t.Helper()
	d, err := w.draft(change...)
	var empty *redrive.EmptyError
	switch {
	case errors.As(err, &empty) && len(empty.Held) == 1:
		return empty.Held[0].Why
	case err != nil:
		return err.Error()
	case len(d.Plan.Items) == 1:
		return string(d.Plan.Items[0].Action)
	default:
		return fmt.Sprintf("%d items, %d held", len(d.Plan.Items), len(d.Plan.Held))
	}
}

// sources are the bodies of the source queue, by job key.
func (w *world) sources() map[string]string {
	w.t.Helper()
	bodies := map[string]string{}
	_, err := w.queues.Queue("src").Browse(w.ctx, 0, func(m broker.Message) error {
		bodies[decode(m).JobKey] += string(m.Body)
		return nil
	})
	w.must(err)
	return bodies
}

func TestEditPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.class.Class, w.class.Disposition = classify.RejectedPayload, classify.Fix
	w.json("k", `{"a":1}`, ledger.Failed)
	if why := w.why(); why != "needs_fix" {
		t.Errorf("without an edit: %s", why)
	}
	d, err := w.draft(w.editing(".a = 2", "r1"))
	w.must(err)
	edited := decode(broker.Message{Body: []byte(`{"a":2}`), Attributes: []broker.Attribute{
		{Name: "n", Type: "Number.int", Value: []byte("7")}, {Name: "job_key", Type: "String", Value: []byte("k~r1")},
	}})
	it := d.Plan.Items[0]
	want := &redrive.ItemEdit{JobKey: "k~r1", PayloadSHA256: edited.PayloadSHA256, BodySHA256: edited.BodySHA256, MessageSHA256: edited.MessageSHA256}
	if diff := cmp.Diff(want, it.Edit); diff != "" || it.Lift != "edit" || it.JobKey != "k" {
		t.Errorf("%s %+v", diff, it)
	}
	if d.Plan.Tier != redrive.TierOne || !cmp.Equal([]string{"edit"}, d.Plan.TierWhy) {
		t.Errorf("tier %s %v", d.Plan.Tier, d.Plan.TierWhy)
	}
	again, err := redrive.Decode(d.Bytes)
	w.must(err)
	if diff := cmp.Diff(d.Plan, again, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestEditHolds: what must not be edited is held, each with its reason.
func TestEditHolds(t *testing.T) {
	t.Parallel()
	unknown := func(w *world) { w.class.Effect = classify.EffectUnknown }
	for name, c := range map[string]struct {
		want, jq string
		state    ledger.State
		payload  string
		prepare  func(*world)
		change   func(*redrive.Request)
	}{
		"proven":               {want: "redrive"},
		"queued, never tried":  {want: "redrive", state: ledger.Queued},
		"no change":            {want: "edit_no_change", jq: ".a = 1"},
		"not JSON":             {want: "edit_not_json", payload: "a=1"},
		"two values":           {want: "edit_failed", jq: "., ."},
		"key in the way":       {want: "edit_unsupported", jq: `.idempotency_key = "x"`},
		"sending":              {want: "in_flight", state: ledger.Sending},
		"fenced":               {want: "no_provider", state: ledger.Fenced},
		"sent":                 {want: "edit_already_sent", state: ledger.Sent},
		"lifted, not proven":   {want: "edit_needs_no_effect", state: ledger.Fenced, change: func(r *redrive.Request) { r.Lifts.EffectsByFlag = true }},
		"duplicates accepted":  {want: "edit_needs_no_effect", prepare: func(w *world) { unknown(w); w.noLedger = true }, change: func(r *redrive.Request) { r.Lifts.AcceptDuplicates = "x" }},
		"declared by flag":     {want: "edit_needs_no_effect", prepare: func(w *world) { unknown(w); w.noLedger = true }, change: func(r *redrive.Request) { r.Lifts.EffectsByFlag = true }},
		"read-only ledger":     {want: "ledger_read_only", state: ledger.Queued, prepare: func(w *world) { w.readOnly = true }},
		"no column":            {want: "ledger_cannot_replace", change: func(r *redrive.Request) { r.Queue.LedgerReplaces = false }},
		"the key has a row":    {want: "edit_key_taken", prepare: func(w *world) { w.row("k~r", ledger.Failed) }},
		"too large":            {want: "edit_too_large", change: func(r *redrive.Request) { r.Queue.MaxMessageBytes = 10 }},
		"broken rule's result": {want: "edit_failed", jq: ".b.c.d[0] | error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.prepare != nil {
				c.prepare(w)
			}
			if c.jq == "" {
				c.jq = ".a = 2"
			}
			if c.state == "" {
				c.state = ledger.Failed
			}
			if c.payload == "" {
				c.payload = `{"a":1}`
			}
			w.json("k", c.payload, c.state)
			change := []func(*redrive.Request){w.editing(c.jq, "r")}
			if c.want == "edit_already_sent" {
				change[0] = w.editing(c.jq, "")
			}
			if c.change != nil {
				change = append(change, c.change)
			}
			if got := w.why(change...); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestEditOfMissingRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, "")
	if got := w.why(w.editing(".a = 2", "")); got != "ledger_missing" {
		t.Error(got)
	}
	w.json("", `{"a":1}`, "")
	d, err := w.draft(w.editing(".a = 2", ""))
	var empty *redrive.EmptyError
	if !errors.As(err, &empty) || empty.Held[1].Why != "edit_no_job_key" {
		t.Errorf("%+v %v", d.Plan, err)
	}
}

// TestEditBeforeFirstClaim: where the worker writes the row with its claim, there
// is none to replace, and a worker could still claim the original's other copy.
func TestEditBeforeFirstClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var err error
	w.ledger, err = sqlledger.Open(w.ctx, sqlledger.Config{
		Path: filepath.Join(t.TempDir(), "claims.db"), Create: true, Now: w.clock, Consumer: "mailer", RowWritten: ledger.AtClaim,
	})
	w.must(err)
	t.Cleanup(func() { w.must(w.ledger.Close()) })
	w.must(w.ledger.Init(w.ctx))
	w.json("k", `{"a":1}`, "")
	if got := w.why(); got != "redrive" {
		t.Errorf("without an edit: %s", got)
	}
	if got := w.why(w.editing(".a = 2", "r")); got != "edit_needs_row" {
		t.Errorf("with an edit: %s", got)
	}
}

// TestEditOrder: the original is replaced before the edited copy is published,
// and acknowledged only after that; wherever that fails, resume ends it with one
// send of the edited copy and none of the original.
func TestEditOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	id := w.plan(w.editing(".a = 2", "r"))
	w.reset()
	e, err := w.run(id)
	w.must(err)
	if want := "archive log:intent ledger publish log:publish ack log:ack"; w.trace() != want || e.Report.Redriven != 1 {
		t.Errorf("%s, want %s: %+v", w.trace(), want, e.Report)
	}
	if d := cmp.Diff(map[string]string{"k~r": `{"a":2}`}, w.sources()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"replaced 1", "queued 1"}, []string{w.state("k"), w.state("k~r")}); d != "" {
		t.Error(d)
	}
	w.work()
	w.onlyEdited(1)
	var rs []audit.Record
	w.must(w.store.FindAudit(w.ctx, audit.Query{JobKeyPrefix: "k~r", Phase: audit.Intent}, func(e audit.Entry) error {
		rs = append(rs, e.Record)
		return nil
	}))
	if len(rs) != 1 || rs[0].JobKey != "k" || rs[0].Details["replaced_by"] != "k~r" || rs[0].Details["revision"] != "r" || rs[0].Transition != "failed -> replaced" {
		t.Errorf("records of the edited copy: %+v", rs)
	}
}

// onlyEdited demands that "k~r" was sent so often and "k" never, and that no
// plan sends "k" any more.
func (w *world) onlyEdited(times int) {
	w.t.Helper()
	if w.sends["k"] != 0 || w.sends["k~r"] != times {
		w.t.Errorf("sends %v", w.sends)
	}
	if n := w.depth("src"); n != 0 {
		w.t.Errorf("%d copies in the source", n)
	}
	w.json("k", `{"a":1}`, "")
	for name, lift := range map[string]func(*redrive.Request){
		"plain":      func(*redrive.Request) {},
		"duplicates": func(r *redrive.Request) { r.Lifts.AcceptDuplicates = "x" },
		"effects":    func(r *redrive.Request) { r.Lifts.EffectsByFlag = true },
		"edit":       w.editing(".a = 3", ""),
		"same edit":  w.editing(".a = 2", "r"),
		"named edit": w.editing(".a = 3", "r9"),
	} {
		d, err := w.draft(lift)
		var empty *redrive.EmptyError
		if err != nil && !errors.As(err, &empty) {
			w.t.Errorf("%s: %v", name, err)
		}
		for _, it := range d.Plan.Items {
			if it.JobKey == "k" && it.Action == reconcile.Redrive {
				w.t.Errorf("%s: the original would be redriven: %+v", name, it)
			}
		}
	}
}

// TestEditNoSecondEffect stops the process at every call, with a worker that is
// fast or slow.
func TestEditNoSecondEffect(t *testing.T) {
	t.Parallel()
	for _, worker := range []bool{true, false} {
		for n := 1; n <= 8; n++ {
			t.Run(fmt.Sprintf("worker %v call %d", worker, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.json("k", `{"a":1}`, ledger.Failed)
				id := w.plan(w.editing(".a = 2", "r"))
				w.fault = stopAt(n)
				_, err := w.run(id)
				w.fault = nil
				if worker {
					w.work()
				}
				w.pass(65 * time.Minute)
				if err != nil || w.depth("dlq") > 0 {
					_, err = w.resume()
					w.must(err)
				}
				w.work()
				if w.depth("dlq") != 0 {
					t.Errorf("%d dead copies are left", w.depth("dlq"))
				}
				w.onlyEdited(1)
			})
		}
	}
}

// TestEditSameAgain: a run that may publish no more leaves the original replaced
// and the edited copy's row queued. Only the same edit takes that up.
func TestEditSameAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	id := w.plan(w.editing(".a = 2", "r"))
	w.fault = func(call string) error {
		if call == "publish" {
			return errFault
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	w.fault = nil
	if e.Report.Failed != 1 || w.state("k") != "replaced 1" || w.state("k~r") != "queued 1" {
		t.Fatalf("%+v, %s, %s", e.Report, w.state("k"), w.state("k~r"))
	}
	for name, c := range map[string]struct {
		change func(*redrive.Request)
		want   string
	}{
		"no edit":       {func(*redrive.Request) {}, "replaced"},
		"another edit":  {w.editing(".a = 3", "r"), "replaced"},
		"another name":  {w.editing(".a = 2", "r2"), "replaced"},
		"the same edit": {w.editing(".a = 2", "r"), "redrive"},
	} {
		if got := w.why(c.change); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	w.hold("k")
	if got := w.why(w.editing(".a = 2", "r")); got != "manual_hold" {
		t.Errorf("a job on hold: %s", got)
	}
	w.must(w.store.ReleaseHold(w.ctx, reconcile.HoldIDOf(w.jobs()[0]), audit.Record{Action: "release", Phase: audit.Outcome, Result: audit.ResultDone}))
	again := w.plan(w.editing(".a = 2", "r"))
	e, err = w.runner("run2").Run(w.ctx, string(again))
	w.must(err)
	if e.Report.Redriven != 1 || w.state("k") != "replaced 1" || w.state("k~r") != "queued 1" {
		t.Errorf("%+v, %s, %s", e.Report, w.state("k"), w.state("k~r"))
	}
	w.work()
	w.onlyEdited(1)
}

// TestEditAgainLoses: the edited copy was claimed between plan and run.
func TestEditAgainLoses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	w.fault = func(call string) error {
		if call == "publish" {
			return errFault
		}
		return nil
	}
	_, err := w.run(w.plan(w.editing(".a = 2", "r")))
	w.must(err)
	w.fault = nil
	again := w.plan(w.editing(".a = 2", "r"))
	w.move(ledger.Change{Key: ledger.Key{JobKey: "k~r", Consumer: "mailer"}, From: ledger.Queued, FromAttempt: 1, FromRun: "run1", To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
	e, err := w.runner("run2").Run(w.ctx, string(again))
	w.must(err)
	if d := cmp.Diff(map[string]int{"changed_ledger": 1}, e.Report.Skipped); d != "" || w.depth("src") != 0 || w.depth("dlq") != 1 {
		t.Errorf("%s: %+v", d, e.Report)
	}
}

// TestEditSecondSend: a job that was sent goes out in a corrected form only under
// a revision that the operator named, and the record says so.
func TestEditSecondSend(t *testing.T) {
	t.Parallel()
	for n := 0; n <= 8; n++ {
		t.Run(fmt.Sprintf("call %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.json("k", `{"a":1}`, ledger.Sent)
			if got := w.why(w.editing(".a = 2", "")); got != "edit_already_sent" {
				t.Errorf("unnamed: %s", got)
			}
			d, err := w.draft(w.editing(".a = 2", "r"))
			w.must(err)
			if it := d.Plan.Items[0]; !it.Edit.SecondSend || it.Action != reconcile.Redrive || d.Plan.Tier == redrive.TierSelf {
				t.Errorf("%+v, tier %s", it, d.Plan.Tier)
			}
			id := w.plan(w.editing(".a = 2", "r"))
			if n > 0 {
				w.fault = stopAt(n)
			}
			_, err = w.run(id)
			w.fault = nil
			w.pass(65 * time.Minute)
			if err != nil || w.depth("dlq") > 0 {
				_, err = w.resume()
				w.must(err)
			}
			w.work()
			if d := cmp.Diff([]string{"sent 1", "sent 1"}, []string{w.state("k"), w.state("k~r")}); d != "" || w.depth("dlq") != 0 {
				t.Errorf("%s, %d dead copies", d, w.depth("dlq"))
			}
			if w.sends["k"] != 0 || w.sends["k~r"] != 1 {
				t.Errorf("sends %v", w.sends)
			}
			w.json("k", `{"a":1}`, "")
			if got := w.why(); got != "settle" {
				t.Errorf("another copy of the original: %s", got)
			}
		})
	}
}

// TestEditWithoutLedger: the store is the only one who knows, and it does,
// wherever the process stopped.
func TestEditWithoutLedger(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", ""} {
		for n := 0; n <= 7; n++ {
			t.Run(fmt.Sprintf("key %q call %d", key, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.noLedger = true
				w.json(key, `{"a":1}`, "")
				id := w.plan(w.editing(".a = 2", "r"))
				if n > 0 {
					w.fault = stopAt(n)
				}
				_, err := w.run(id)
				w.fault = nil
				published := w.depth("src")
				w.pass(65 * time.Minute)
				w.json(key, `{"a":1}`, "") // another copy of the original, before the resume
				for _, lift := range []string{"", "x"} {
					got, _ := w.draft(func(r *redrive.Request) { r.Lifts.AcceptDuplicates = lift })
					for _, it := range got.Plan.Items {
						if published > 0 {
							t.Errorf("the original would be redriven: %+v", it)
						}
					}
				}
				if err != nil {
					_, err = w.resume()
					w.must(err)
				}
				if n := w.depth("src"); n > 1 {
					t.Errorf("%d copies were published", n)
				}
				if w.depth("src") == 0 {
					return // it failed before anything was sent: the original may go
				}
				for body := range w.sources() {
					if body != map[string]string{"k": "k~r", "": ""}[key] {
						t.Errorf("published as %q", body)
					}
				}
				for _, lift := range []string{"", "x"} {
					_, err := w.draft(func(r *redrive.Request) { r.Lifts.AcceptDuplicates = lift })
					var empty *redrive.EmptyError
					if !errors.As(err, &empty) {
						t.Fatalf("lift %q: %v", lift, err)
					}
					for _, h := range empty.Held {
						if h.Why != "replaced" {
							t.Errorf("lift %q: %+v", lift, h)
						}
					}
				}
			})
		}
	}
}

// TestEditWinsOverOlderPlan: two copies of one job without a key are in two
// approved plans. Once one is edited, the other does not go.
func TestEditWinsOverOlderPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.json("", `{"a":1}`, "")
	older := w.plan()
	w.json("", `{"a":1}`, "")
	_, err := w.run(w.plan(w.editing(".a = 2", "r")))
	w.must(err)
	e, err := w.runner("run2").Run(w.ctx, string(older))
	w.must(err)
	if d := cmp.Diff(map[string]int{"replaced": 1}, e.Report.Skipped); d != "" || w.depth("src") != 1 {
		t.Errorf("%s: %+v, %d copies", d, e.Report, w.depth("src"))
	}
}

// TestEditCopiesOfOne: two copies without a key are one job, so one goes.
func TestEditCopiesOfOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.json("", `{"a":1}`, "")
	w.json("", `{"a":1}`, "")
	d, err := w.draft(w.editing(".a = 2", "r"))
	w.must(err)
	if len(d.Plan.Items) != 1 || len(d.Plan.Held) != 1 || d.Plan.Held[0].Why != "edit_key_taken" {
		t.Errorf("%+v, held %+v", d.Plan.Items, d.Plan.Held)
	}
}

// TestEditDiffers: what the rule makes of the message at the run must be what
// was approved, to the bit.
func TestEditDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	id := w.plan(w.editing(".a = 2", "r"), func(r *redrive.Request) {
		r.Edits[0].BodySHA256 = r.Edits[0].PayloadSHA256[1:] + "0"
	})
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff(map[string]int{"edit_differs": 1}, e.Report.Skipped); d != "" || w.state("k") != "failed 1" || w.depth("src") != 0 {
		t.Errorf("%s, row %s", d, w.state("k"))
	}
}

// TestEditOnLostLedger: the ledger can no longer be written when the run comes to
// it. Nothing is published beside an original that still stands.
func TestEditOnLostLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Queued)
	id := w.plan(w.editing(".a = 2", "r"))
	w.readOnly = true
	e, err := w.run(id)
	w.must(err)
	if w.depth("src") != 0 || e.Report.Redriven != 0 || w.depth("dlq") != 1 {
		t.Errorf("%+v, %d published", e.Report, w.depth("src"))
	}
}

// TestEditLateAccept: a worker records that its send succeeded after all, between
// plan and step 4. The original was sent, so no edit of it may follow.
func TestEditLateAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.json("k", `{"a":1}`, ledger.Failed)
	id := w.plan(w.editing(".a = 2", "r"))
	w.fault = func(call string) error {
		if call == "ledger" {
			w.move(ledger.Change{Key: ledger.Key{JobKey: "k", Consumer: "mailer"}, FromAttempt: 1, LateAccept: true, Actor: "worker"})
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff(map[string]int{"ledger_lost": 1}, e.Report.Skipped); d != "" || w.depth("src") != 0 {
		t.Errorf("%s: %+v", d, e.Report)
	}
}
