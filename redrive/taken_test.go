package redrive_test

import (
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/redrive"
)

// TestEditKeyInQueue: a job that waits in the queue under the edited copy's key is
// another job, or an edit that came back. No second one goes beside it.
func TestEditKeyInQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.noLedger = true
	w.json("k", `{"a":1}`, "")
	w.json("k~r", `{"a":3}`, "")
	got := w.why(w.editing(".a = 2", "r"), func(r *redrive.Request) { r.Select = redrive.Selection{Jobs: []string{"k"}} })
	if got != "edit_key_taken" {
		t.Error(got)
	}
}

// TestApprovalFileChanged: a statement that is not what its digest was made of is
// no approval.
func TestApprovalFileChanged(t *testing.T) {
	t.Parallel()
	b, err := redrive.EncodeApproval(redrive.Approval{Plan: "aa", Items: 3, Approver: "approver", Decision: redrive.DecisionApprove})
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), `"items": 3`, `"items": 300`, 1)
	if _, err := redrive.DecodeApproval([]byte(changed)); err == nil || changed == string(b) {
		t.Errorf("read all the same: %s", changed)
	}
}
