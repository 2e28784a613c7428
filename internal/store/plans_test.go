package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/redrive"
)

func TestPlanKeepsItsJobs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	first := f.plan(t, "1", item(1), item(2))
	sameKey := item(9)
	sameKey.JobKey = "job-2"
	keyless := item(3)
	keyless.JobKey = ""
	for name, items := range map[string][]redrive.Item{"c": {item(7), {Copy: item(1).Copy}}, "k": {sameKey}} {
		_, err := f.savePlan(name, redrive.TierOne, items...)
		var in *redrive.InPlanError
		if !errors.As(err, &in) || !errors.Is(err, redrive.ErrRefused) || in.Plan != first {
			t.Errorf("%s: %v", name, err)
		}
	}
	second := f.plan(t, "2", keyless)
	got, err := f.InLivePlans(ctx, queue, f.clock.now())
	want := map[string]redrive.PlanID{"a/dlq/c1": first, "job-1": first, "a/dlq/c2": first, "job-2": first, "a/dlq/c3": second}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if ps, err := f.ListPlans(ctx, ""); err != nil || len(ps) != 2 {
		t.Error("refused plans were kept:", len(ps), err)
	}
	f.clock.add(3 * time.Hour)
	f.plan(t, "3", item(1), item(2)) // the first has expired
	if got, err := f.LoadPlan(ctx, string(first)); err != nil || got.State != redrive.PlanExpired {
		t.Error(got.State, err)
	}
}

func TestPlanStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	id := f.plan(t, "1", item(1))
	rec := audit.Record{Action: "plan", Phase: audit.Outcome}
	before, _ := f.AuditHead(ctx)
	if err := f.SetPlanState(ctx, id, redrive.PlanApproved, redrive.PlanDropped, rec); !errors.Is(err, redrive.ErrRefused) {
		t.Error(err)
	}
	if after, _ := f.AuditHead(ctx); after != before {
		t.Error("a refused move was recorded")
	}
	if err := f.SetPlanState(ctx, id, redrive.PlanWaiting, redrive.PlanDropped, rec); err != nil {
		t.Error(err)
	}
	f.plan(t, "2", item(1)) // the first has freed it
	if err := f.SetPlanState(ctx, "none", redrive.PlanWaiting, redrive.PlanDropped, rec); !errors.Is(err, redrive.ErrNotFound) {
		t.Error(err)
	}
}

func TestPlanPrefixes(t *testing.T) {
	t.Parallel()
	f := open(t)
	for i := range 17 { // two of them begin alike
		f.plan(t, string(rune('a'+i)), item(i))
	}
	ps, err := f.ListPlans(context.Background(), queue)
	if err != nil || len(ps) != 17 {
		t.Fatal(len(ps), err)
	}
	first := map[byte]int{}
	for _, p := range ps {
		first[p.ID[0]]++
	}
	for c, n := range first {
		_, err := f.LoadPlan(context.Background(), string(c))
		if (n == 1 && err != nil) || (n > 1 && !errors.Is(err, redrive.ErrAmbiguous)) {
			t.Errorf("%d plans with %c: %v", n, c, err)
		}
	}
	for _, prefix := range []string{"", "zz", "%", "_"} {
		if _, err := f.LoadPlan(context.Background(), prefix); !errors.Is(err, redrive.ErrNotFound) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestPlanBytesMustHashToID(t *testing.T) {
	t.Parallel()
	f := open(t)
	err := f.SavePlan(context.Background(), "00", []byte("{}"), redrive.Plan{}, audit.Record{})
	if !errors.Is(err, redrive.ErrChanged) {
		t.Error(err)
	}
}

func TestSelfRedrives(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	start := f.clock.now()
	settle := item(3)
	settle.Action = "settle"
	dropped, err := f.savePlan("1", redrive.TierSelf, item(1), item(2), settle)
	if err != nil {
		t.Fatal(err)
	}
	want := func(want int, since time.Time) {
		t.Helper()
		if n, err := f.SelfRedrives(ctx, queue, since); n != want || err != nil {
			t.Errorf("%d, want %d, %v", n, want, err)
		}
	}
	want(2, start)
	want(0, start.Add(1))
	f.plan(t, "2", item(5)) // tier one
	want(2, start)
	if err := f.SetPlanState(ctx, dropped, redrive.PlanApproved, redrive.PlanDropped, audit.Record{}); err != nil {
		t.Fatal(err)
	}
	want(0, start)
	ran, err := f.savePlan("3", redrive.TierSelf, item(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.end(f.begin(t, ran, "aa01"), redrive.RunFinished); err != nil {
		t.Fatal(err)
	}
	if _, err := f.savePlan("4", redrive.TierSelf, item(2)); err != nil {
		t.Fatal(err)
	}
	want(2, start)
	f.clock.add(3 * time.Hour) // the last expires unused
	want(1, start)
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	id := f.plan(t, "1", item(1))
	f.approve(t, id, "bo")
	f.approve(t, id, "cy")
	got, err := f.Approvals(ctx, id)
	if diff := cmp.Diff([]redrive.Approval{f.approval(id, "bo"), f.approval(id, "cy")}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	digests, err := f.ApprovedDigests(ctx)
	if diff := cmp.Diff(map[string]bool{"policy": true, "settings": true}, digests); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if err := f.SaveApproval(ctx, f.approval("none", "bo"), audit.Record{}); !errors.Is(err, redrive.ErrNotFound) {
		t.Error(err)
	}
}

func TestOwnApprovalApprovesNoSettings(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.approve(t, f.plan(t, "1", item(1)), "ana")
	if digests, err := f.ApprovedDigests(context.Background()); len(digests) > 0 || err != nil {
		t.Error(digests, err)
	}
}

// TestUnprovenNameApprovesNoSettings: the plan's requester is known by account,
// and a name that was only declared, or that only a file has, may be the
// requester's.
func TestUnprovenNameApprovesNoSettings(t *testing.T) {
	t.Parallel()
	for _, known := range []string{"declared", redrive.KnownFile} {
		f := open(t)
		bo := f.approval(f.plan(t, "1", item(1)), "bo")
		bo.Known = known
		if err := f.SaveApproval(context.Background(), bo, audit.Record{}); err != nil {
			t.Fatal(err)
		}
		if digests, err := f.ApprovedDigests(context.Background()); len(digests) > 0 || err != nil {
			t.Errorf("%s: %v, %v", known, digests, err)
		}
	}
}

func TestApprovalsChangedByHand(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"edited":  `UPDATE approvals SET statement = replace(statement, '"bo"', '"eve"')`,
		"removed": `DELETE FROM approvals`,
		"added":   `INSERT INTO approvals SELECT 99, plan, statement FROM approvals`,
		"record edited": `DROP TRIGGER audit_no_update;
			UPDATE audit SET record = replace(record, '"action":"approve"', '"action":"reveal"') WHERE action = 'approve'`,
		"record hidden": `DROP TRIGGER audit_no_update; UPDATE audit SET action = 'reveal' WHERE action = 'approve'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			id := f.plan(t, "1", item(1))
			f.approve(t, id, "bo")
			f.sql(t, change)
			if as, err := f.Approvals(context.Background(), id); !errors.Is(err, redrive.ErrChanged) && !errors.Is(err, audit.ErrBroken) {
				t.Errorf("%+v, %v", as, err)
			}
			if digests, err := f.ApprovedDigests(context.Background()); len(digests) > 0 || err != nil {
				t.Error(digests, err)
			}
			if _, err := f.tryBegin(id, "aa01"); err == nil {
				t.Error("the run began")
			}
		})
	}
}

func TestPublishedOf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	keyless := item(2)
	keyless.JobKey = ""
	id := f.plan(t, "1", item(1), keyless, item(3))
	log := f.Fenced(f.begin(t, id, "aa01"))
	publish := func(n int, result, key string) {
		rs := []audit.Record{step(n, audit.Intent, "", ""), step(n, audit.Outcome, "publish", result), step(n, audit.Outcome, "close", "failed")}
		for i := range rs {
			rs[i].JobKey, rs[i].Plan = key, string(id)
			if attempt := n + 1; key != "" {
				rs[i].LedgerRow, rs[i].Attempt = "app/mailer/"+key, &attempt
			}
		}
		if _, err := log.Append(ctx, rs...); err != nil {
			t.Fatal(err)
		}
		f.clock.add(time.Second)
	}
	publish(1, "unknown", "job-1")
	publish(1, "done", "job-1")
	publish(2, "unknown", "")
	publish(3, "refused", "job-3")
	start := newClock().now()
	got, err := f.PublishedOf(ctx, []redrive.Identity{
		{JobKey: "job-1", LedgerRow: "app/mailer/job-1"},
		{JobKey: "job-1", LedgerRow: "other/mailer/job-1"},
		{Origin: "src", PayloadSHA256: "p2"},
		{JobKey: "job-3"},
		{Origin: "elsewhere", PayloadSHA256: "p2", Entity: "a/dlq"},
		{Origin: "src", PayloadSHA256: "p1"},
		{PayloadSHA256: "p2", Entity: "a/dlq"}, // the broker has forgotten the origin
		{PayloadSHA256: "p2", Entity: "other/dlq"},
	}, "")
	want := []redrive.Published{
		{Count: 1, Last: start.Add(time.Second), LastRun: "aa01", Copies: []broker.CopyID{{Entity: "a/dlq", ID: "c1"}}, Attempt: 2},
		{Count: 1, Last: start.Add(time.Second), LastRun: "aa01", Copies: []broker.CopyID{{Entity: "a/dlq", ID: "c1"}}},
		{Count: 1, Last: start.Add(2 * time.Second), LastRun: "aa01", Copies: []broker.CopyID{{Entity: "a/dlq", ID: "c2"}}},
		{},
		{},
		{},
		{Count: 1, Last: start.Add(2 * time.Second), LastRun: "aa01", Copies: []broker.CopyID{{Entity: "a/dlq", ID: "c2"}}},
		{},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	got, err = f.PublishedOf(ctx, []redrive.Identity{{JobKey: "job-1"}}, "aa01")
	if diff := cmp.Diff([]redrive.Published{{}}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
