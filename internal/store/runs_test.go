package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

const queue = "shipments"

func item(n int) redrive.Item {
	return redrive.Item{
		Copy: broker.CopyID{Entity: "a/dlq", ID: fmt.Sprintf("c%d", n)}, JobKey: fmt.Sprintf("job-%d", n),
		Origin: "src", PayloadSHA256: fmt.Sprintf("p%d", n), Action: reconcile.Redrive,
	}
}

// plan is saved with these items; its nonce makes each its own.
func (f *fixture) plan(t testing.TB, nonce string, items ...redrive.Item) redrive.PlanID {
	t.Helper()
	id, err := f.savePlan(nonce, redrive.TierOne, items...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) savePlan(nonce string, tier redrive.Tier, items ...redrive.Item) (redrive.PlanID, error) {
	p := redrive.Plan{Items: items, Terms: redrive.Terms{
		Format: "redrivectl/plan/v1", Store: f.StoreID(), Queue: queue, Entity: "a/dlq", Broker: "local",
		CreatedAt: f.clock.now(), ExpiresAt: f.clock.now().Add(2 * time.Hour), Requester: "ana", RequesterKnown: "account", Tier: tier, Nonce: nonce,
		PolicySHA256: "policy", SettingsSHA256: "settings",
	}}
	b, err := json.Marshal(p)
	if err == nil {
		b, err = jcs.Transform(b)
	}
	if err != nil {
		return "", err
	}
	id := redrive.PlanID(audit.Hash(b))
	return id, f.SavePlan(context.Background(), id, b, p, audit.Record{Action: "plan", Phase: audit.Outcome, Result: "done"})
}

func (f *fixture) approve(t testing.TB, id redrive.PlanID, who string) {
	t.Helper()
	if err := f.SaveApproval(context.Background(), f.approval(id, who), audit.Record{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) approval(id redrive.PlanID, who string) redrive.Approval {
	return redrive.Approval{
		Plan: id, Items: 1, Store: f.StoreID(), Requester: "ana", Approver: who, Known: "account",
		Decision: "approve", Reason: "fine", NotBefore: f.clock.now(), ExpiresAt: f.clock.now().Add(time.Hour),
	}
}

const ttl = 30 * time.Second

func (f *fixture) begin(t testing.TB, id redrive.PlanID, run redrive.RunID) redrive.Lease {
	t.Helper()
	l, err := f.tryBegin(id, run)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (f *fixture) tryBegin(id redrive.PlanID, run redrive.RunID) (redrive.Lease, error) {
	b := redrive.Begin{Plan: id, Run: run, Holder: "ana@host", TTL: ttl, Now: f.clock.now()}
	p, l, err := f.Begin(context.Background(), b, func(redrive.Frozen, []redrive.Approval) error { return nil },
		audit.Record{Action: "run", Step: "start", Phase: audit.Outcome})
	return l, errors.Join(err, p.Items.Close())
}

func (f *fixture) resume(run redrive.RunID) (redrive.Lease, error) {
	b := redrive.Begin{Holder: "bo@host", TTL: ttl, Now: f.clock.now()}
	return f.Resume(context.Background(), run, b, audit.Record{Action: "run", Step: "resume", Phase: audit.Outcome})
}

func (f *fixture) end(l redrive.Lease, s redrive.RunState) error {
	return f.End(context.Background(), l, s, redrive.Report{Planned: 1, Redriven: 1, Skipped: map[string]int{}},
		audit.Record{Action: "run", Step: "end", Phase: audit.Outcome})
}

func TestRunLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	id := f.plan(t, "1", item(1))
	l := f.begin(t, id, "aa01")
	now := f.clock.now()
	if diff := cmp.Diff(redrive.Lease{Queue: queue, Run: "aa01", Holder: "ana@host", Token: 1, Expires: now.Add(ttl), Since: now}, l); diff != "" {
		t.Error(diff)
	}
	if p, err := f.LoadPlan(ctx, string(id)[:8]); err != nil || p.State != redrive.PlanRunning || p.Run != "aa01" {
		t.Error(p.State, p.Run, err)
	}
	f.clock.add(10 * time.Second)
	if err := f.end(l, redrive.RunFinished); err != nil {
		t.Fatal(err)
	}
	got, err := f.LoadRun(ctx, "aa")
	want := redrive.RunRecord{
		ID: "aa01", Plan: id, Queue: queue, State: redrive.RunFinished, Holder: "ana@host", StartedAt: now,
		EndedAt: f.clock.now(), Report: redrive.Report{Planned: 1, Redriven: 1, Skipped: map[string]int{}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if p, err := f.LoadPlan(ctx, string(id)); err != nil || p.State != redrive.PlanFinished {
		t.Error(p.State, err)
	}
	if rs, err := f.ListRuns(ctx, ""); err != nil || len(rs) != 1 {
		t.Error(rs, err)
	}
	if _, err := f.resume("aa01"); !errors.Is(err, redrive.ErrRefused) {
		t.Error("a finished run was resumed:", err)
	}
	f.verified(t)
}

func TestRunStartAndEndAreRemembered(t *testing.T) {
	t.Parallel()
	f := open(t)
	l := f.begin(t, f.plan(t, "1", item(1)), "aa01")
	f.wantRemembered(t)
	if err := f.end(l, redrive.RunFinished); err != nil {
		t.Fatal(err)
	}
	f.wantRemembered(t)
}

func (f *fixture) wantRemembered(t testing.TB) {
	t.Helper()
	head, err := f.AuditHead(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if h, err := f.Checkpoint(); err != nil || h == nil || *h != head {
		t.Errorf("remembered %+v, %v; the log ends at %+v", h, err, head)
	}
}

func TestOnePlanOneRun(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.plan(t, "1", item(1))
	since := f.clock.now()
	l := f.begin(t, id, "aa01")
	var taken *redrive.TakenError
	_, err := f.tryBegin(id, "aa02")
	want := &redrive.TakenError{What: "plan", Run: "aa01", Holder: "ana@host", Since: since, Until: l.Expires}
	if !errors.As(err, &taken) || !errors.Is(err, redrive.ErrRefused) || cmp.Diff(want, taken) != "" {
		t.Error(err, cmp.Diff(want, taken))
	}
	other := f.plan(t, "2", item(2))
	_, err = f.tryBegin(other, "aa03")
	want.What = "queue"
	if !errors.As(err, &taken) || cmp.Diff(want, taken) != "" {
		t.Error(err, cmp.Diff(want, taken))
	}
	f.clock.add(ttl + 1)
	if l2 := f.begin(t, other, "aa03"); l2.Token <= l.Token {
		t.Error("the fencing token did not grow:", l.Token, l2.Token)
	}
	if _, err := f.tryBegin(id, "aa04"); !errors.As(err, &taken) || taken.What != "plan" {
		t.Error("a plan was run twice:", err)
	}
	if rs, err := f.ListRuns(context.Background(), queue); err != nil || len(rs) != 2 {
		t.Error("a refused run left a trace:", rs, err)
	}
	f.verified(t)
}

func TestBeginRefusedByCheckLeavesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.plan(t, "1", item(1))
	f.approve(t, id, "bo")
	before, _ := f.AuditHead(context.Background())
	no := errors.New("no")
	var saw []redrive.Approval
	_, _, err := f.Begin(context.Background(), redrive.Begin{Plan: id, Run: "aa01", TTL: ttl}, func(p redrive.Frozen, as []redrive.Approval) error {
		saw = as
		if it, err := p.Items.At(0); err != nil || p.ID != id || p.Queue != queue || p.Items.Len() != 1 || it.Copy != item(1).Copy {
			t.Error("check got another plan", p, err)
		}
		return no
	}, audit.Record{Action: "run"})
	if !errors.Is(err, no) || errors.Is(err, audit.ErrNotWritable) {
		t.Error(err)
	}
	if diff := cmp.Diff([]redrive.Approval{f.approval(id, "bo")}, saw); diff != "" {
		t.Error(diff)
	}
	after, _ := f.AuditHead(context.Background())
	if rs, err := f.ListRuns(context.Background(), ""); len(rs) > 0 || err != nil || before != after {
		t.Error(rs, err, before, after)
	}
}

// TestBeginOfAnOpenPlan: the jobs of a plan that is open already are those that
// run, as long as the store still has the same plan.
func TestBeginOfAnOpenPlan(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	var opened [2]redrive.Frozen
	for i := range opened {
		var err error
		if opened[i], err = f.OpenPlan(ctx, string(f.plan(t, fmt.Sprint(i), item(i+1)))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened[i].Items.Close() })
	}
	begin := func(i int, run redrive.RunID) (redrive.Frozen, error) {
		b := redrive.Begin{Plan: opened[i].ID, Opened: &opened[i], Run: run, Holder: "ana@host", TTL: ttl, Now: f.clock.now()}
		check := func(redrive.Frozen, []redrive.Approval) error { return nil }
		p, _, err := f.Begin(ctx, b, check, audit.Record{Action: "run", Step: "start", Phase: audit.Outcome})
		return p, err
	}
	f.sql(t, `UPDATE plan_bytes SET bytes = CAST(replace(CAST(bytes AS TEXT), '"job-1"', '"job-9"') AS BLOB) WHERE plan = ?`, string(opened[0].ID))
	if _, err := begin(0, "aa01"); !errors.Is(err, redrive.ErrChanged) {
		t.Errorf("a changed plan: %v", err)
	}
	p, err := begin(1, "aa02")
	if err != nil || p.Items != opened[1].Items || p.State != opened[1].State {
		t.Fatal(p, err)
	}
	var taken *redrive.TakenError
	if _, err := begin(1, "aa03"); !errors.As(err, &taken) || taken.Run != "aa02" {
		t.Errorf("a second run: %v", err)
	}
	if it, err := p.Items.At(0); err != nil || it.Copy != item(2).Copy {
		t.Error("what an error leaves open was closed:", err)
	}
}

func TestFencing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	l := f.begin(t, f.plan(t, "1", item(1)), "aa01")
	log := f.Fenced(l)
	if _, err := log.Append(ctx, record(1)); err != nil {
		t.Fatal(err)
	}
	f.clock.add(ttl)
	if _, err := log.Append(ctx, record(2)); !errors.Is(err, audit.ErrFenced) || errors.Is(err, audit.ErrNotWritable) {
		t.Error("an expired lease wrote:", err)
	}
	l, err := f.Heartbeat(ctx, l, f.clock.now(), ttl)
	if err != nil || !l.Expires.Equal(f.clock.now().Add(ttl)) {
		t.Fatal("an expired lease that nobody took was not renewed:", l, err)
	}
	if _, err := log.Append(ctx, record(3)); err != nil {
		t.Error(err)
	}
	if _, err := f.resume("aa01"); !errors.Is(err, redrive.ErrRefused) {
		t.Error("a run that lives was resumed:", err)
	}
	f.clock.add(ttl)
	l2, err := f.resume("aa01")
	if err != nil || l2.Token <= l.Token {
		t.Fatal(l2, err)
	}
	if _, err := log.Append(ctx, record(4)); !errors.Is(err, audit.ErrFenced) {
		t.Error("a lease that was taken over wrote:", err)
	}
	if _, err := f.Heartbeat(ctx, l, f.clock.now(), ttl); !errors.Is(err, audit.ErrFenced) {
		t.Error("a lease that was taken over was renewed:", err)
	}
	if err := f.end(l, redrive.RunFinished); !errors.Is(err, audit.ErrFenced) {
		t.Error("a lease that was taken over ended the run:", err)
	}
	if _, err := f.Fenced(l2).Append(ctx, record(5)); err != nil {
		t.Error(err)
	}
	f.verified(t)
}

// A fenced append fails alone; what others wrote in the same commit stands.
func TestFencedAppendFailsAlone(t *testing.T) {
	t.Parallel()
	f := open(t)
	l := f.begin(t, f.plan(t, "1", item(1)), "aa01")
	f.clock.add(ttl)
	fenced := f.Fenced(l)
	results := make(chan error)
	for i := range 40 {
		log := audit.Log(f)
		if i%2 == 1 {
			log = fenced
		}
		go func() {
			_, err := log.Append(context.Background(), record(i))
			if i%2 == 1 && errors.Is(err, audit.ErrFenced) {
				err = nil
			} else if i%2 == 1 {
				err = fmt.Errorf("fenced append: %w", err)
			}
			results <- err
		}()
	}
	for range 40 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if r := f.verified(t); r.Records != 3+20 {
		t.Errorf("%d records", r.Records)
	}
}

func TestLives(t *testing.T) {
	t.Parallel()
	f := open(t)
	want := func(run redrive.RunID, want bool) {
		t.Helper()
		if got, err := f.Lives(context.Background(), run); got != want || err != nil {
			t.Errorf("%s lives: %v, %v", run, got, err)
		}
	}
	l := f.begin(t, f.plan(t, "1", item(1)), "aa01")
	want("aa01", true)
	want("of another store", true)
	f.clock.add(ttl)
	want("aa01", false)
	if _, err := f.Heartbeat(context.Background(), l, f.clock.now(), ttl); err != nil {
		t.Fatal(err)
	}
	want("aa01", true)
	if err := f.end(l, redrive.RunInterrupted); err != nil {
		t.Fatal(err)
	}
	want("aa01", false)
	if _, err := f.resume("aa01"); err != nil {
		t.Fatal(err)
	}
	want("aa01", true)
}

func step(n int, phase audit.Phase, step, result string) audit.Record {
	return audit.Record{
		Run: "aa01", Action: "redrive", Phase: phase, Step: step, Result: result, Reason: "why",
		CopyID: item(n).Copy.String(), JobKey: item(n).JobKey,
	}
}

func TestOpenIntentsAndEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	id := f.plan(t, "1", item(1), item(2), item(3), item(4), item(5), item(6), item(7))
	log := f.Fenced(f.begin(t, id, "aa01"))
	var seqs []int64
	for _, r := range []audit.Record{
		step(1, audit.Intent, "", ""), step(1, audit.Outcome, "publish", "done"), step(1, audit.Outcome, "ack", "done"),
		step(2, audit.Intent, "", ""), step(2, audit.Outcome, "publish", "unknown"), step(2, audit.Intent, "", ""), step(2, audit.Outcome, "publish", "refused"),
		step(3, audit.Intent, "", ""),
		step(4, audit.Outcome, "close", "skipped"),
		step(5, audit.Intent, "", ""), step(5, audit.Outcome, "publish", "done"), step(5, audit.Outcome, "ack", "unknown"),
		step(6, audit.Intent, "", ""), step(6, audit.Outcome, "publish", "done"),
		step(7, audit.Intent, "", ""), step(7, audit.Outcome, "close", "held"), step(7, audit.Intent, "", ""),
	} {
		h, err := log.Append(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, h.Seq)
	}
	open, err := f.OpenIntents(ctx, "aa01")
	if err != nil {
		t.Fatal(err)
	}
	type brief struct {
		Seq     int64
		Copy    string
		Publish string
	}
	var got []brief
	for _, i := range open {
		got = append(got, brief{i.Seq, i.Record.CopyID, i.Publish})
	}
	want := []brief{{seqs[5], "a/dlq/c2", "unknown"}, {seqs[7], "a/dlq/c3", ""}, {seqs[9], "a/dlq/c5", "done"}, {seqs[12], "a/dlq/c6", "done"}, {seqs[16], "a/dlq/c7", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	ends, err := f.Ends(ctx, "aa01")
	wantEnds := map[string]redrive.ItemEnd{"a/dlq/c1": {Result: "redriven", Reason: "why"}, "a/dlq/c4": {Result: "skipped", Reason: "why"}}
	if diff := cmp.Diff(wantEnds, ends); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if r := f.verified(t); r.OpenIntents != len(want) {
		t.Errorf("verification counts %d open intents", r.OpenIntents)
	}
}

// TestBeginNeedsTheLogsWord: a plan that was put into the tables by hand does
// not run, nor one whose run was taken out of them.
func TestBeginNeedsTheLogsWord(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.plan(t, "1", item(1))
	const text = `{"format":"redrivectl/plan/v1","items":[],"tier":"self"}`
	forged := redrive.PlanID(audit.Hash([]byte(text)))
	f.sql(t, `INSERT INTO plans SELECT ?, CAST(? AS BLOB), state, queue, lease_key, 'self', redrives, created_at, expires_at FROM plans`,
		string(forged), text)
	if _, err := f.tryBegin(forged, "aa01"); !errors.Is(err, redrive.ErrChanged) {
		t.Errorf("forged: %v", err)
	}
	if err := f.end(f.begin(t, id, "aa02"), redrive.RunFinished); err != nil {
		t.Fatal(err)
	}
	f.sql(t, `DELETE FROM runs; UPDATE plans SET state = 'approved'`)
	if _, err := f.tryBegin(id, "aa03"); !errors.Is(err, redrive.ErrChanged) {
		t.Errorf("a second run: %v", err)
	}
}
