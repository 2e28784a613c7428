package redrive_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

func dropping(r *redrive.Request) { r.Only = reconcile.Discard }

// rowOf is the ledger row of a job.
func (w *world) rowOf(key string) ledger.Row {
	w.t.Helper()
	l := w.ledger.Get(w.ctx, []ledger.Key{{JobKey: key, Consumer: "mailer"}})[0]
	w.must(l.Err)
	return l.Row
}

// TestDiscardDraft: what a plan that discards takes, holds and leaves out, and
// that no other plan takes what is to be dropped.
func TestDiscardDraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("failed")
	w.copy("queued", "")
	w.row("queued", ledger.Queued)
	w.copy("sent", "")
	w.row("sent", ledger.Sent)
	w.copy("missing", "")
	w.copy("fenced", "")
	w.row("fenced", ledger.Fenced)
	w.copy("verdict", "")
	w.row("verdict", ledger.Fenced)
	w.must(w.store.SaveVerdicts(w.ctx, reconcile.Found{
		Queue: "dlq", JobKey: "verdict", Attempt: 1, Verdict: reconcile.NotAccepted, At: w.clock(), EvidenceSHA256: "e",
		Evidence: reconcile.Evidence{Why: "not found", FencedAt: w.rowOf("verdict").FencedAt},
	}))
	w.copy("sending", "")
	w.row("sending", ledger.Sending)
	w.pass(5 * time.Minute)

	req := w.request()
	dropping(&req)
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	type item struct{ Key, Row, Why, Lift string }
	var got []item
	for _, it := range d.Plan.Items {
		if it.Action != reconcile.Discard || it.Destination != "" {
			t.Errorf("%s: %s to %s", it.JobKey, it.Action, it.Destination)
		}
		got = append(got, item{it.JobKey, it.LedgerState, it.Why, it.Lift})
	}
	// The world has no provider: what is not resolved cannot be asked about.
	want := []item{
		{"failed", "failed", "requested", "discard"},
		{"queued", "queued", "requested", "discard"},
		{"fenced", "fenced", "nobody_to_ask", "discard"},
		{"verdict", "fenced", "requested", "discard"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	held := map[string]string{}
	for _, h := range d.Plan.Held {
		held[h.JobKey] = h.Why
	}
	if d := cmp.Diff(map[string]string{"missing": "ledger_missing", "sending": "not_fenced"}, held); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"action_settle": 1}, d.Plan.LeftOut); d != "" {
		t.Error(d)
	}
	if d.Plan.Tier != redrive.TierOne || !d.Plan.Lifts.Discard || d.Plan.Discards() != 4 {
		t.Error(d.Plan.Tier, d.Plan.TierWhy, d.Plan.Lifts)
	}

	w.class = classify.Result{Class: classify.Stale, Rule: "r", Effect: classify.EffectNone, Disposition: classify.Discard}
	d, err = w.planner().Draft(w.ctx, w.request())
	w.must(err)
	if len(d.Plan.Items) != 1 || d.Plan.Items[0].JobKey != "sent" {
		t.Errorf("%+v", d.Plan.Items)
	}
	for _, h := range d.Plan.Held {
		if h.JobKey == "failed" && (h.Why != "outdated" || h.Needs != redrive.NeedsDiscard) {
			t.Errorf("%+v", h)
		}
	}
}

// TestDiscardReadOnlyLedger: what somebody could claim is not dropped where that
// cannot be prevented.
func TestDiscardReadOnlyLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("failed")
	w.copy("queued", "")
	w.row("queued", ledger.Queued)
	w.readOnly = true
	req := w.request()
	dropping(&req)
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	if len(d.Plan.Items) != 1 || d.Plan.Items[0].JobKey != "failed" || d.Plan.Held[0].Why != "ledger_read_only" {
		t.Errorf("%+v %+v", d.Plan.Items, d.Plan.Held)
	}
	e, err := w.run(w.plan(dropping))
	w.must(err)
	if e.Report.Discarded != 1 || w.state("failed") != "failed 1" {
		t.Errorf("%+v %s", e.Report, w.state("failed"))
	}
}

// TestDiscardOrder holds the order archive, intent, ledger, acknowledge, and for a
// fault at each call that the copy stays until its archive is written, what the
// row is, and how resume ends.
func TestDiscardOrder(t *testing.T) {
	t.Parallel()
	const all = "archive log:intent ledger ack log:ack"
	tests := []struct {
		name, failAt string
		err          error // errFault by default
		calls        string
		wantErr      error
		state        redrive.RunState
		row          string
		left         int                   // copies, before the resume
		resumed      func(*redrive.Report) // nil: nothing to resume
	}{
		{"no fault", "", nil, all, nil, redrive.RunFinished, "failed 2", 0, nil},
		{
			"archive fails", "archive", nil, "archive release", audit.ErrNotWritable, redrive.RunFailed, "failed 1", 1,
			func(r *redrive.Report) { r.Discarded = 1 },
		},
		{
			"intent not durable", "log:intent", nil, "archive log:intent release", audit.ErrNotWritable, redrive.RunFailed, "failed 1", 1,
			func(r *redrive.Report) { r.Discarded = 1 },
		},
		{
			"ledger does not answer", "ledger", nil, "archive log:intent ledger release", nil, redrive.RunInterrupted, "failed 1", 1,
			func(r *redrive.Report) { r.Discarded = 1 },
		},
		{"ledger's reply lost", "ledger", errLost, all, nil, redrive.RunFinished, "failed 2", 0, nil},
		{
			"ack refused", "ack", nil, "archive log:intent ledger ack log:ack release archive ack log:ack", nil, redrive.RunFinished, "failed 2", 0, nil,
		},
		{
			"ack's reply lost", "ack", errLost, "archive log:intent ledger ack ack log:ack release", nil, redrive.RunInterrupted, "failed 2", 0,
			func(r *redrive.Report) { r.Unknown = 1 },
		},
		{
			"ack not recorded", "log:ack", nil, all + " release", audit.ErrNotWritable, redrive.RunFailed, "failed 2", 0,
			func(r *redrive.Report) { r.Unknown = 1 },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan(dropping)
			w.reset()
			w.fault = failAt(tt.failAt, 1)
			if tt.err != nil {
				w.fault = always(tt.failAt, tt.err)
			}
			e, err := w.run(id)
			if !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
			if got := w.trace(); got != tt.calls {
				t.Errorf("calls\n got %s\nwant %s", got, tt.calls)
			}
			if e.State != tt.state || w.state("k1") != tt.row || w.depth("dlq") != tt.left {
				t.Errorf("run %s, row %s, %d left; want %s, %s, %d", e.State, w.state("k1"), w.depth("dlq"), tt.state, tt.row, tt.left)
			}
			w.reset()
			if tt.resumed != nil {
				e, err := w.resume()
				w.must(err)
				if d := cmp.Diff(report(1, tt.resumed), e.Report); d != "" || e.State != redrive.RunFinished {
					t.Error("resumed", e.State, d)
				}
			}
			w.dropped("k1")
		})
	}
}

func always(at string, err error) func(string) error {
	return func(call string) error {
		if call == at {
			return err
		}
		return nil
	}
}

// dropped demands that a job was discarded for good: it is in no queue, it is in
// the archive, nobody can claim its row, and it was never sent.
func (w *world) dropped(key string) {
	w.t.Helper()
	w.work()
	if w.depth("dlq") != 0 || w.depth("src") != 0 || w.sends[key] != 0 {
		w.t.Errorf("%s: %d dead, %d in the source, %d sends", key, w.depth("dlq"), w.depth("src"), w.sends[key])
	}
	if got := w.archivedKeys(); got[key] != 1 {
		w.t.Errorf("archived: %v", got)
	}
	row := w.rowOf(key)
	if row.State != ledger.Failed || row.Retryable || row.Reason != "discarded" || row.Run != "run1" {
		w.t.Errorf("row of %s: %+v", key, row)
	}
	claim := ledger.Change{
		Key: row.Key, From: row.State, FromAttempt: row.Attempt, FromRun: row.Run, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker",
	}
	if r := w.ledger.Apply(w.ctx, []ledger.Change{claim})[0]; r.Outcome != ledger.Lost {
		w.t.Errorf("a worker claims %s", key)
	}
}

// archivedKeys counts the archived copies of each job of run1.
func (w *world) archivedKeys() map[string]int {
	w.t.Helper()
	copies, err := w.store.ArchivedCopies(w.ctx, "run1")
	w.must(err)
	keys := map[string]int{}
	for _, c := range copies {
		var id broker.CopyID
		_, err := fmt.Sscanf(c, "dlq/%s", &id.ID)
		w.must(err)
		id.Entity = "dlq"
		a, err := w.store.Archived(w.ctx, "run1", id)
		w.must(err)
		keys[decode(a.Job.Message).JobKey]++
	}
	return keys
}

// TestDiscardNothingLost is promise 2 for what is dropped: wherever the process
// stops, each job is in its queue or whole in the archive, and none is sent.
func TestDiscardNothingLost(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 12; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("failed")
			w.copy("queued", "")
			w.row("queued", ledger.Queued)
			w.copy("fenced", "")
			w.row("fenced", ledger.Fenced)
			keys := []string{"failed", "queued", "fenced"}
			id := w.plan(dropping, func(r *redrive.Request) { r.Rate = 2 })
			w.fault = stopAt(n)
			_, err := w.run(id)
			w.fault = nil
			dead := map[string]bool{}
			for _, j := range w.jobs() {
				dead[j.JobKey] = true
			}
			kept := w.archivedKeys()
			for _, k := range keys {
				if !dead[k] && kept[k] == 0 {
					t.Errorf("%s is lost", k)
				}
			}
			w.pass(65 * time.Minute)
			if err != nil {
				_, err = w.resume()
				w.must(err)
			}
			for _, k := range keys {
				w.dropped(k)
			}
		})
	}
}

// TestDiscardArchive: what is kept is the whole copy, under the owner of its class
// or else the requester, for as long as the plan says.
func TestDiscardArchive(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]string{"team": "team", "": "requester"} {
		w := newWorld(t)
		w.owners = map[classify.Class]string{classify.Throttled: owner}
		w.must(w.queues.CreateQueue(w.ctx, local.QueueConfig{Name: "app", DeadLetter: "dlq", MaxReceives: 9}))
		w.copyTo("app", "k1", "group")
		w.row("k1", ledger.Failed)
		app := w.queues.Queue("app")
		taken, err := app.Receive(w.ctx, broker.Request{Max: 1, Lease: time.Minute})
		w.must(err)
		w.must(app.Quarantine(w.ctx, taken, broker.Reason{Type: "transient", Code: "503"})[0].Err)
		before := w.jobs()[0]
		id := w.plan(dropping)
		_, err = w.run(id)
		w.must(err)
		got, err := w.store.Archived(w.ctx, "run1", before.Message.Copy)
		w.must(err)
		kept := redrive.Archived{
			Run: "run1", Plan: id, Queue: "dlq", Owner: want, Retention: time.Hour, Job: before, Action: reconcile.Discard, At: w.clock(),
		}
		ignore := []cmp.Option{
			cmpopts.IgnoreFields(job.Job{}, "Payload"), cmpopts.IgnoreFields(broker.Message{}, "Receives", "FirstReceivedAt"),
			cmpopts.IgnoreFields(redrive.Archived{}, "At"), cmpopts.EquateEmpty(),
		}
		if d := cmp.Diff(kept, got, ignore...); d != "" {
			t.Error(d)
		}
	}
}

// TestDiscardLosesToTheLedger: a row that moves after the re-check keeps its copy.
func TestDiscardLosesToTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan(dropping)
	w.reset()
	w.fault = func(call string) error {
		if call == "ledger" {
			w.move(ledger.Change{Key: ledger.Key{JobKey: "k1", Consumer: "mailer"}, From: ledger.Failed, FromAttempt: 1, To: ledger.Sending, ClaimLife: time.Minute, Actor: "worker"})
		}
		return nil
	}
	e, err := w.run(id)
	w.must(err)
	if d := cmp.Diff(report(1, func(r *redrive.Report) { r.Skipped["ledger_lost"] = 1 }), e.Report); d != "" || w.depth("dlq") != 1 {
		t.Error(d, w.depth("dlq"))
	}
}

// TestDiscardStops: after revocation or expiry nothing is destroyed any more, also
// not by a resume that finds its row moved already; and what was not destroyed can
// still be redriven by another plan.
func TestDiscardStops(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(*world, redrive.PlanID){
		"revoked": func(w *world, id redrive.PlanID) {
			_, err := w.approver("approver0").Revoke(w.ctx, string(id), "no")
			w.must(err)
		},
		"expired": func(w *world, _ redrive.PlanID) { w.pass(3 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1")
			id := w.plan(dropping)
			w.fault = func(call string) error {
				if call == "ack" {
					return errFault
				}
				return always("log:ack", errFault)(call)
			}
			if _, err := w.run(id); !errors.Is(err, audit.ErrNotWritable) {
				t.Fatal(err)
			}
			w.reset()
			happens(w, id)
			e, err := w.resume()
			if !errors.Is(err, redrive.ErrRefused) || e.Report.Discarded != 0 || w.depth("dlq") != 1 {
				t.Errorf("%v %+v, %d dead", err, e.Report, w.depth("dlq"))
			}
			w.pass(time.Hour)
			again, err := w.runner("run2").Run(w.ctx, string(w.plan()))
			w.must(err)
			w.work()
			if again.Report.Redriven != 1 || w.sends["k1"] != 1 {
				t.Errorf("%+v, %d sends", again.Report, w.sends["k1"])
			}
		})
	}
}

// TestDiscardExpiresUnderWay: a plan that expires in the middle of a batch takes
// no copy away.
func TestDiscardExpiresUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	id := w.plan(dropping, func(r *redrive.Request) { r.Expires = 8 * time.Minute })
	w.fault = func(call string) error {
		if call == "ledger" {
			w.fault = nil
			w.pass(9 * time.Minute)
		}
		return nil
	}
	e, err := w.run(id)
	if d := cmp.Diff(report(1, func(r *redrive.Report) { r.Skipped["expired"] = 1 }), e.Report); d != "" || w.depth("dlq") != 1 {
		t.Error(err, d, w.depth("dlq"))
	}
}

// TestDiscardNeedsAnother: neither a plan that pretends to need nobody nor one
// that mixes what destroys with what does not is ever begun.
func TestDiscardNeedsAnother(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redrive.Plan){
		"self":  func(p *redrive.Plan) { p.Tier = redrive.TierSelf },
		"mixed": func(p *redrive.Plan) { p.Items[1].Action, p.Items[1].Destination = reconcile.Redrive, "src" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2")
			req := w.request()
			dropping(&req)
			d, err := w.planner().Draft(w.ctx, req)
			w.must(err)
			change(&d.Plan)
			d.ID, d.Bytes, err = redrive.Canonical(d.Plan)
			w.must(err)
			w.must(w.planner().Save(w.ctx, d))
			if d.Plan.Tier.Needed() > 0 {
				_, err = w.approver("approver0").Approve(w.ctx, string(d.ID), 2, "fine")
				w.must(err)
			}
			w.reset()
			if _, err := w.run(d.ID); !errors.Is(err, redrive.ErrRefused) || w.trace() != "" || w.depth("dlq") != 2 {
				t.Errorf("%v; calls %s; %d dead", err, w.trace(), w.depth("dlq"))
			}
		})
	}
}

// TestDiscardRecords: intent and outcome name the lift, the class and the move.
func TestDiscardRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	_, err := w.run(w.plan(dropping))
	w.must(err)
	var intents, ends int
	err = w.store.FindAudit(w.ctx, audit.Query{OldestFirst: true}, func(e audit.Entry) error {
		r := e.Record
		switch {
		case r.Action != audit.ActionDiscard:
		case r.Phase == audit.Intent:
			intents++
			if r.Transition != "failed -> failed" || r.Reason != "requested" || r.Details["lift"] != "discard" || r.Details["class"] != "throttled" {
				t.Errorf("%+v", r)
			}
		case r.Ended() == "discarded":
			ends++
		}
		return nil
	})
	w.must(err)
	if intents != 1 || ends != 1 {
		t.Errorf("%d intents, %d ends", intents, ends)
	}
}
