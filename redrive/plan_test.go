package redrive_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestDraft: what becomes of each job, and what the plan says of the others.
func TestDraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	w.copy("k1", "") // another copy of the same job
	w.copy("k2", "")
	w.row("k2", ledger.Sent)
	w.copy("k3", "") // no row though there should be one
	w.copy("k4", "")
	w.row("k4", ledger.Sending)
	w.dead("k5", "k6")
	d, err := w.planner().Draft(w.ctx, func() redrive.Request { r := w.request(); r.Max = 3; return r }())
	w.must(err)
	type item struct {
		key    string
		action reconcile.Action
		row    string
		to     string
	}
	var got []item
	for _, it := range d.Plan.Items {
		got = append(got, item{it.JobKey, it.Action, fmt.Sprint(it.LedgerState, " ", *it.LedgerAttempt), it.Destination})
	}
	want := []item{
		{"k1", reconcile.Redrive, "failed 1", "src"}, {"k2", reconcile.Settle, "sent 1", ""}, {"k5", reconcile.Redrive, "failed 1", "src"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(item{})); d != "" {
		t.Error(d)
	}
	held := map[string]string{}
	for _, h := range d.Plan.Held {
		held[h.JobKey] = h.Why
		if h.Needs == "" {
			t.Errorf("%s needs nothing", h.JobKey)
		}
	}
	if d := cmp.Diff(map[string]string{"k3": "ledger_missing", "k4": "in_flight"}, held); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]int{"duplicate_copy": 1, "over_max": 1}, d.Plan.LeftOut); d != "" {
		t.Error(d)
	}
	if d.Plan.Tier != redrive.TierSelf || len(d.Held) != len(d.Plan.Held) {
		t.Error(d.Plan.Tier, d.Plan.TierWhy)
	}
	if strings.Contains(string(d.Bytes), "body of") {
		t.Error("a payload is in the plan")
	}
}

func TestDraftRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*redrive.Request)
		says   string
	}{
		{"no selection", func(r *redrive.Request) { r.Select = redrive.Selection{} }, "at least one filter"},
		{"nothing matches", func(r *redrive.Request) { r.Select = redrive.Selection{Class: []string{"auth"}} }, "throttled (2)"},
		{"no reason", func(r *redrive.Request) { r.Reason = " " }, "reason"},
		{"no maximum", func(r *redrive.Request) { r.Max = 0 }, "maximum"},
		{"too slow", func(r *redrive.Request) { r.Rate, r.Expires = 0.01, 150*time.Second }, "longer than"},
		{"no time to observe", func(r *redrive.Request) { r.Expires, r.Gate = 30*time.Second, canary(1) }, "observation"},
		{"canary without thresholds", func(r *redrive.Request) { r.Gate.Canary = 1 }, "no thresholds"},
		{"gate without a canary", func(r *redrive.Request) { r.Gate.Kind = redrive.GateLedger }, "there is none"},
		{"no such gate", func(r *redrive.Request) { r.Gate = canary(1); r.Gate.Kind = "guess" }, "no gate"},
		{"gate without its ledger", func(r *redrive.Request) {
			r.Gate, r.Queue.Ledger = canary(1), false
			r.Gate.Kind = redrive.GateLedger
		}, "needs a ledger"},
		{"more than all", func(r *redrive.Request) { r.Gate = canary(1); r.Gate.Thresholds.MinSuccess = 1.01 }, "share success"},
		{"held is no action", func(r *redrive.Request) { r.Only = reconcile.Hold }, "hold"},
		{"discard with a redrive's option", func(r *redrive.Request) { r.Only, r.Lifts.Fixed = reconcile.Discard, "x" }, "discards"},
		{"bad expression", func(r *redrive.Request) { r.Select = redrive.Selection{Where: "nonsense("} }, "--where"},
		{"no condition", func(r *redrive.Request) { r.Select = redrive.Selection{Where: "receives"} }, "condition"},
		{"unknown class claimed", func(r *redrive.Request) { r.Lifts.As = "nonsense" }, "nonsense"},
		{"effects declared against a provider", func(r *redrive.Request) {
			r.Lifts.EffectsByFlag, r.Queue.Provider = true, &provider.Capabilities{}
		}, "provider"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dead("k1", "k2")
			req := w.request()
			tt.change(&req)
			_, err := w.planner().Draft(w.ctx, req)
			if !errors.Is(err, redrive.ErrRefused) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want a refusal with %q", err, tt.says)
			}
		})
	}
}

// TestInPlan: jobs of a live plan are left out, or refused when named.
func TestInPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	first := w.plan()
	w.dead("k2")
	d, err := w.planner().Draft(w.ctx, w.request())
	w.must(err)
	if d := cmp.Diff(map[string]int{"in_plan:" + string(first): 1}, d.Plan.LeftOut); d != "" {
		t.Error(d)
	}
	req := w.request()
	req.Select = redrive.Selection{Jobs: []string{"k1"}}
	var in *redrive.InPlanError
	if _, err := w.planner().Draft(w.ctx, req); !errors.As(err, &in) || in.Plan != first {
		t.Errorf("named: %v", err)
	}
	_, err = w.approver("approver").Reject(w.ctx, string(first), "no")
	w.must(err)
	if d, err = w.planner().Draft(w.ctx, req); err != nil || len(d.Plan.Items) != 1 {
		t.Errorf("a rejected plan holds its jobs: %v", err)
	}
}

// TestPlanKeepsOrder: on an ordered queue nothing is planned behind a job that
// stays, unless the plan says so.
func TestPlanKeepsOrder(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		w := newWorld(t)
		w.must(w.queues.CreateQueue(w.ctx, orderedQueue("dlq.fifo")))
		for _, k := range []string{"a1", "a2", "b1"} {
			w.copyTo("dlq.fifo", k, k[:1])
			if k != "a1" { // a1 has no row: held
				w.row(k, ledger.Failed)
			}
		}
		w.broker = w.queues.Queue("dlq.fifo")
		req := w.request()
		req.Lifts.BreakOrder = broken
		d, err := w.planner().Draft(w.ctx, req)
		w.must(err)
		if want := map[bool]int{false: 1, true: 2}[broken]; len(d.Plan.Items) != want {
			t.Errorf("break order %v: %d items, held %+v", broken, len(d.Plan.Items), d.Plan.Held)
		}
		if want := map[bool]redrive.Tier{false: redrive.TierSelf, true: redrive.TierOne}[broken]; d.Plan.Tier != want {
			t.Error(d.Plan.Tier)
		}
	}
}

// TestFanOutAndDestination: no job goes to unknown or to many consumers unasked.
func TestFanOutAndDestination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	for why, change := range map[string]func(*redrive.Request){
		"fan_out":        func(r *redrive.Request) { r.Queue.FanOut = true },
		"no_destination": func(r *redrive.Request) { r.Queue.Destination = "" },
	} {
		req := w.request()
		change(&req)
		var empty *redrive.EmptyError
		if _, err := w.planner().Draft(w.ctx, req); !errors.As(err, &empty) || empty.Held[0].Why != why {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// TestRepublish: without a ledger a job that was published before needs two.
func TestRepublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.dead("k1")
	_, err := w.run(w.plan())
	w.must(err)
	w.dead("k1")
	req := w.request()
	var empty *redrive.EmptyError
	if _, err := w.planner().Draft(w.ctx, req); !errors.As(err, &empty) || empty.Held[0].Why != "published_before" {
		t.Fatal(err)
	}
	req.Lifts.AcceptDuplicates = "the customer asked"
	d, err := w.planner().Draft(w.ctx, req)
	w.must(err)
	if d.Plan.Tier != redrive.TierTwo || !d.Plan.Items[0].Republish {
		t.Error(d.Plan.Tier, d.Plan.TierWhy)
	}
}

// TestRestoredLedger: a row that lies before the attempt that this store has
// published was restored from a backup, whatever it says.
func TestRestoredLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.clock()
	w.dead("k1")
	w.pass(time.Hour)
	_, err := w.run(w.plan())
	w.must(err)
	w.work()
	w.copy("k1", "") // the worker died before its acknowledgement
	w.ledger, err = sqlledger.Open(w.ctx, sqlledger.Config{
		Path: filepath.Join(t.TempDir(), "backup.db"), Create: true, Now: func() time.Time { return before }, Consumer: "mailer",
	})
	w.must(err)
	t.Cleanup(func() { w.must(w.ledger.Close()) })
	w.must(w.ledger.Init(w.ctx))
	w.row("k1", ledger.Failed)
	var empty *redrive.EmptyError
	if d, err := w.planner().Draft(w.ctx, w.request()); !errors.As(err, &empty) || empty.Held[0].Why != "ledger_older" {
		t.Errorf("%v, %+v", err, d.Plan.Items)
	}
}

// TestSelection goes through every filter.
func TestSelection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1", "k2")
	at := w.jobs()[0].Message.SentAt
	tests := []struct {
		sel  redrive.Selection
		want int
		text string
	}{
		{redrive.Selection{All: true}, 2, "--all"},
		{redrive.Selection{Class: []string{"x", "throttled", "x"}}, 2, `--class "throttled" --class "x"`},
		{redrive.Selection{Class: []string{"auth"}}, 0, `--class "auth"`},
		{redrive.Selection{Jobs: []string{"k2"}}, 1, `--job "k2"`},
		{redrive.Selection{Where: `job_key == "k1" && attributes["n"] == "7"`}, 1, `--where "job_key == \"k1\" && attributes[\"n\"] == \"7\""`},
		{redrive.Selection{Since: at.Add(time.Second)}, 0, "--since 2026-05-04T10:00:01Z"},
		{redrive.Selection{Until: at}, 0, "--until 2026-05-04T10:00:00Z"},
		{redrive.Selection{OlderThan: time.Hour}, 0, "--older-than 1h0m0s"},
		{redrive.Selection{Receives: 1}, 0, "--receives 1"},
		{
			redrive.Selection{Region: []string{"eu"}, Period: []string{"p"}, ReasonType: []string{"r"}, Schema: []string{"s"}, CustomerStatus: []string{"c"}, Channel: []string{"m"}},
			0,
			`--reason-type "r" --period "p" --region "eu" --schema "s" --customer-status "c" --channel "m"`,
		},
	}
	for _, tt := range tests {
		req := w.request()
		req.Select = tt.sel
		d, err := w.planner().Draft(w.ctx, req)
		var empty *redrive.EmptyError
		if err != nil && !errors.As(err, &empty) {
			t.Errorf("%s: %v", tt.text, err)
		}
		if len(d.Plan.Items) != tt.want || tt.sel.Canonical() != tt.text {
			t.Errorf("%d items by %s, want %d by %s", len(d.Plan.Items), tt.sel.Canonical(), tt.want, tt.text)
		}
	}
}

// TestStoredPlanChanged: bytes that do not hash to their name are never run.
func TestStoredPlanChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead("k1")
	d, err := w.planner().Draft(w.ctx, w.request())
	w.must(err)
	sp := redrive.StoredPlan{ID: d.ID, Bytes: d.Bytes}
	p, err := sp.Verify()
	w.must(err)
	if diff := cmp.Diff(d.Plan, p); diff != "" {
		t.Error(diff)
	}
	for i := range d.Bytes {
		b := append([]byte(nil), d.Bytes...)
		b[i] ^= 1
		if _, err := (redrive.StoredPlan{ID: d.ID, Bytes: b}).Verify(); !errors.Is(err, redrive.ErrChanged) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add("k", "why", "2", int64(0))
	f.Add("\u2028<&>\"", "é\x00", "", int64(1<<40))
	f.Fuzz(func(t *testing.T, key, why, version string, at int64) {
		p := redrive.Plan{Held: []redrive.Held{}, Terms: redrive.Terms{
			Format: redrive.PlanFormat, Reason: why, CreatedAt: time.Unix(at%1e10, 5).UTC(), LeftOut: map[string]int{key: 1},
		}, Items: []redrive.Item{{JobKey: key, Copy: broker.CopyID{Entity: "q", ID: key}, Version: version, Class: classify.Unknown}}}
		id, b, err := redrive.Canonical(p)
		if err != nil {
			return
		}
		q, err := redrive.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		id2, b2, err := redrive.Canonical(q)
		if err != nil || id2 != id || string(b2) != string(b) {
			t.Fatalf("%v\n%s\n%s", err, b, b2)
		}
	})
}
