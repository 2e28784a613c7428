package redrive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// carried is a plan that needs others, and what one of them said of it elsewhere.
func (w *world) carried(needs int) (redrive.Draft, redrive.Approval) {
	w.t.Helper()
	d := w.lifted(needs)
	sp, err := w.store.LoadPlan(w.ctx, string(d.ID))
	w.must(err)
	b, err := redrive.EncodePlan(sp)
	w.must(err)
	elsewhere, err := redrive.DecodePlan(b)
	w.must(err)
	return d, w.approvedElsewhere(elsewhere, "a")
}

func (w *world) approvedElsewhere(sp redrive.StoredPlan, who string) redrive.Approval {
	w.t.Helper()
	st, err := w.approver(who).ApproveFile(sp, len(sp.Plan.Items), "fine")
	w.must(err)
	b, err := redrive.EncodeApproval(st)
	w.must(err)
	back, err := redrive.DecodeApproval(b)
	w.must(err)
	if d := cmp.Diff(st, back); d != "" {
		w.t.Error(d)
	}
	return back
}

// taker is who runs the plan, where files count.
func (w *world) taker() *redrive.Approver {
	a := w.approver("requester")
	a.Files = true
	return a
}

// TestTake: what is carried here counts as an approval for exactly its plan, and
// only where files count.
func TestTake(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world, *redrive.Approver, *redrive.Approval)
		ok     bool
	}{
		{"as it was made", func(*world, *redrive.Approver, *redrive.Approval) {}, true},
		{"in another zone", func(_ *world, _ *redrive.Approver, c *redrive.Approval) {
			c.NotBefore = c.NotBefore.In(time.FixedZone("east", 3600))
		}, true},
		{"known by account there", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Known = "account" }, true},
		{"files do not count", func(_ *world, a *redrive.Approver, _ *redrive.Approval) { a.Files = false }, false},
		{"other plan", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Plan = "other" }, false},
		{"other store", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Store = "other" }, false},
		{"other requester", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Requester = "other" }, false},
		{"other count", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Items = 2 }, false},
		{"the requester", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Approver = "requester" }, false},
		{"the requester, alone", func(_ *world, a *redrive.Approver, c *redrive.Approval) {
			a.Solo, c.Approver, c.Solo = "alone", "requester", "alone"
		}, false},
		{"another, who says he is alone", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Solo = "alone" }, false},
		{"nobody", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Approver = "" }, false},
		{"a rejection", func(_ *world, _ *redrive.Approver, c *redrive.Approval) { c.Decision = redrive.DecisionReject }, false},
		{"not yet in force", func(_ *world, _ *redrive.Approver, c *redrive.Approval) {
			c.NotBefore = c.NotBefore.Add(time.Second)
		}, false},
		{"too long", func(_ *world, _ *redrive.Approver, c *redrive.Approval) {
			c.ExpiresAt = c.NotBefore.Add(redrive.MaxApproval + 1)
		}, false},
		{"expired", func(w *world, _ *redrive.Approver, c *redrive.Approval) {
			c.ExpiresAt = c.NotBefore.Add(time.Minute)
			w.pass(time.Minute)
		}, false},
		{"the plan expired", func(w *world, _ *redrive.Approver, c *redrive.Approval) {
			c.ExpiresAt = c.NotBefore.Add(redrive.MaxApproval)
			w.pass(2 * time.Hour)
		}, false},
		{"the plan was dropped", func(w *world, a *redrive.Approver, c *redrive.Approval) {
			_, err := a.Drop(w.ctx, string(c.Plan), "no")
			w.must(err)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d, c := w.carried(1)
			a := w.taker()
			tt.change(w, a, &c)
			_, dry := a.Admitted(w.ctx, string(d.ID), c)
			before, err := w.store.AuditHead(w.ctx)
			w.must(err)
			err = a.Take(w.ctx, string(d.ID), c)
			if tt.ok != (err == nil) || tt.ok != (dry == nil) || !tt.ok && !errors.Is(err, redrive.ErrRefused) {
				t.Fatalf("%v; in a dry run %v", err, dry)
			}
			after, err := w.store.AuditHead(w.ctx)
			w.must(err)
			s, err := a.Tally(w.ctx, string(d.ID))
			w.must(err)
			if !tt.ok {
				if before != after || s.Given != 0 {
					t.Errorf("%d given, %d records written for a refusal", s.Given, after.Seq-before.Seq)
				}
				return
			}
			if st := s.Statements[0]; !s.Approved || st.Known != redrive.KnownFile || st.Approver != "a" {
				t.Errorf("%+v", s)
			}
			if err := a.Take(w.ctx, string(d.ID), c); err != nil {
				t.Errorf("the same command again: %v", err)
			}
		})
	}
}

// TestTakenInRuns: by whose config a run begins, by that the file counts.
func TestTakenInRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, c := w.carried(1)
	w.must(w.taker().Take(w.ctx, string(d.ID), c))
	if _, err := w.runner("run1").Run(w.ctx, string(d.ID)); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("it runs where files do not count: %v", err)
	}
	r := w.runner("run2")
	r.Files = true
	ended, err := r.Run(w.ctx, string(d.ID))
	if err != nil || ended.Report.Redriven != 1 {
		t.Fatalf("%+v, %v", ended.Report, err)
	}
	var got []audit.Record
	w.must(w.store.FindAudit(w.ctx, audit.Query{Plan: string(d.ID), Action: redrive.DecisionApprove}, func(e audit.Entry) error {
		got = append(got, e.Record)
		return nil
	}))
	digest, err := redrive.StatementSHA256(c)
	w.must(err)
	if len(got) != 1 || got[0].Actor.Name != "requester" || got[0].Details["approver"] != "a" || got[0].Details["file_statement_sha256"] != digest {
		t.Errorf("%+v", got)
	}
}

// TestTwoCarried: two files need two persons, and count with what is here.
func TestTwoCarried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, a := w.carried(2)
	sp, err := w.store.LoadPlan(w.ctx, string(d.ID))
	w.must(err)
	again := a
	again.Reason = "fine, again"
	if _, err := w.taker().Admitted(w.ctx, string(d.ID), a, again); !errors.Is(err, redrive.ErrRefused) {
		t.Errorf("one person counts twice: %v", err)
	}
	b := w.approvedElsewhere(sp, "b")
	w.must(w.taker().Take(w.ctx, string(d.ID), a, b))
	s, err := w.taker().Tally(w.ctx, string(d.ID))
	w.must(err)
	if s.Plan.State != redrive.PlanApproved || s.Given != 2 {
		t.Errorf("%s, %d given", s.Plan.State, s.Given)
	}
}

// TestPlanFile: a plan's file is its bytes in another spacing, and nothing else.
func TestPlanFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sp, err := w.store.LoadPlan(w.ctx, string(w.lifted(1).ID))
	w.must(err)
	b, err := redrive.EncodePlan(sp)
	w.must(err)
	var dense bytes.Buffer
	w.must(json.Compact(&dense, b))
	for _, file := range [][]byte{b, dense.Bytes()} {
		got, err := redrive.DecodePlan(file)
		w.must(err)
		if d := cmp.Diff(redrive.StoredPlan{ID: sp.ID, Bytes: sp.Bytes, Plan: sp.Plan}, got, cmpopts.IgnoreUnexported(redrive.StoredPlan{})); d != "" {
			t.Error(d)
		}
	}
	for name, file := range map[string]string{
		"another maximum":  strings.Replace(string(b), `"max": 100`, `"max": 101`, 1),
		"an item more":     strings.Replace(string(b), `"items": [`, `"items": [{},`, 1),
		"a bound unknown":  strings.Replace(string(b), `"max": 100`, `"max": 100, "min": 1`, 1),
		"a key twice":      strings.Replace(string(b), `"max": 100`, `"max": 1000, "max": 100`, 1),
		"another name":     strings.Replace(string(b), string(sp.ID[:8]), "00000000", 1),
		"another format":   strings.Replace(string(b), "plan-file/v1", "plan-file/v2", 1),
		"no format":        `{}`,
		"a member unknown": strings.Replace(string(b), `"plan":`, `"approved": true, "plan":`, 1),
		"two values":       string(b) + "{}",
		"cut":              string(b[:len(b)/2]),
		"empty":            "",
	} {
		if file == string(b) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := redrive.DecodePlan([]byte(file)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// FuzzDecodeApproval: what is read is whole, and is written as it was read.
func FuzzDecodeApproval(f *testing.F) {
	at := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	whole, err := redrive.EncodeApproval(redrive.Approval{
		Plan: "id", Items: 3, Store: "s", Requester: "r", Approver: "a", Known: "account", Decision: redrive.DecisionApprove,
		Reason: "fine \u2028", NotBefore: at, ExpiresAt: at.Add(time.Hour),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(bytes.Replace(whole, []byte(`"items": 3`), []byte(`"items": 4`), 1))
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := redrive.DecodeApproval(file)
		if err != nil {
			return
		}
		b, err := redrive.EncodeApproval(a)
		if err != nil {
			t.Fatal(err)
		}
		again, err := redrive.DecodeApproval(b)
		if err != nil || !cmp.Equal(a, again) {
			t.Errorf("%+v was read again as %+v, %v", a, again, err)
		}
	})
}
