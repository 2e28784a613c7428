package redrive

import (
	"fmt"
	"testing"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// backCase is one combination of what backOf looks at.
type backCase struct {
	action  reconcile.Action
	planned ledger.State // at attempt 3, under run "older" if queued
	row     int          // of the decision table
	begun   bool
	found   ledger.Found
	state   ledger.State
	attempt int
	run     string
	reason  string
	late    bool
}

func (c backCase) item() *Item {
	it := &Item{
		Action: c.action, JobKey: "k", Consumer: "mailer", LedgerState: string(c.planned), LedgerAttempt: new(3), Row: c.row, Class: classify.Throttled,
	}
	if c.planned == ledger.Queued {
		it.LedgerRun = "older"
	}
	return it
}

func (c backCase) lookup() ledger.Lookup {
	return ledger.Lookup{Found: c.found, Row: ledger.Row{State: c.state, Attempt: c.attempt, Run: c.run, Reason: c.reason, LateAccept: c.late}}
}

// backCases are all combinations.
func backCases() (cs []backCase) {
	for _, action := range []reconcile.Action{reconcile.Redrive, reconcile.Settle, reconcile.Discard} {
		for _, planned := range []ledger.State{ledger.Queued, ledger.Failed, ledger.Fenced} {
			for row := rowNoEffect; row <= 14; row++ {
				for _, begun := range []bool{true, false} {
					for _, found := range []ledger.Found{ledger.Present, ledger.Missing, ledger.Unreadable} {
						for _, state := range ledger.States {
							for attempt := 3; attempt <= 5; attempt++ {
								for _, run := range []string{"", "older", "mine", "later"} {
									for _, reason := range []string{"", "rolled_back", "discarded"} {
										for _, late := range []bool{true, false} {
											cs = append(cs, backCase{action, planned, row, begun, found, state, attempt, run, reason, late})
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return cs
}

// wantBack words the table anew, by what must be true rather than by order.
func (c backCase) wantBack() Back {
	present := c.found == ledger.Present
	committed := c.state == ledger.Sent || c.state == ledger.Reconciled || c.late
	own := c.run == "mine"
	asPlanned := c.state == c.planned && c.attempt == 3 && (c.state != ledger.Queued || c.run == "older")
	switch {
	case c.action == reconcile.Settle:
		return BackSettled
	case c.action == reconcile.Discard:
		return BackDropped
	case !c.begun:
		return BackNotOut
	case !present && c.found == ledger.Missing:
		return BackLeft
	case !present:
		return BackUnknown
	case committed, c.state == ledger.Sending:
		return BackClaimed
	case c.state == ledger.Queued && own:
		return BackTaken
	case c.state == ledger.Failed && own && c.reason == "rolled_back":
		return BackBefore
	case asPlanned:
		return BackTaken
	case c.state == ledger.Failed && own:
		return BackClaimed
	default:
		return BackLeft
	}
}

// TestRollbackTable holds every state against the table, and each move against
// what a rollback may never do.
func TestRollbackTable(t *testing.T) {
	t.Parallel()
	seen := map[Back]int{}
	for _, c := range backCases() {
		f := backOf(c.item(), "mine", c.begun, c.lookup())
		seen[f.back]++
		if want := c.wantBack(); f.back != want {
			t.Fatalf("%+v: %s, want %s", c, f.back, want)
		}
		if (f.move != nil) != (f.back == BackTaken) {
			t.Fatalf("%+v: %s with the move %+v", c, f.back, f.move)
		}
		if f.move != nil {
			if why := c.wrong(*f.move); why != "" {
				t.Fatalf("%+v: %s: %+v", c, why, f.move)
			}
		}
	}
	for _, b := range []Back{BackTaken, BackBefore, BackClaimed, BackLeft, BackUnknown, BackNotOut, BackSettled, BackDropped} {
		if seen[b] == 0 {
			t.Errorf("no combination is %s", b)
		}
	}
}

// wrong says what a move must not be.
func (c backCase) wrong(m ledger.Change) string {
	_, err := m.Checked()
	proven := c.row <= rowRejected
	switch {
	case err != nil:
		return err.Error()
	case m.To != ledger.Failed || m.Retryable || m.Run != "mine" || m.Reason != "rolled_back":
		return "somebody could claim the row, or nobody knows why it failed"
	case m.From != c.state || m.FromAttempt != c.attempt || m.FromRun != c.run:
		return "it compares with another row than was read"
	case m.Attempt == 3 && c.run != "mine":
		return "a late step 4 would win"
	case (m.Effect == ledger.EffectNone) != proven:
		return fmt.Sprintf("the effect is %s by row %d", m.Effect, c.row)
	case (m.Resolve == ledger.ByVerdict) != (c.row == rowNotAccepted || c.row == rowRejected):
		return "a verdict is claimed that there is not, or is lost"
	}
	return ""
}

// TestRollbackTableOfSecondSend: the original of a corrected second send was sent,
// and no rollback takes that back.
func TestRollbackTableOfSecondSend(t *testing.T) {
	t.Parallel()
	it := &Item{Action: reconcile.Redrive, JobKey: "k", LedgerState: "sent", LedgerAttempt: new(1), Edit: &ItemEdit{JobKey: "k~r", SecondSend: true}}
	sent := ledger.Lookup{Found: ledger.Present, Row: ledger.Row{State: ledger.Sent, Attempt: 1}}
	if f := backOf(it, "mine", true, sent); f.back != BackNotOut || f.move != nil {
		t.Errorf("the original: %+v", f)
	}
	for state, want := range map[ledger.State]Back{ledger.Queued: BackTaken, ledger.Sending: BackClaimed, ledger.Sent: BackClaimed, ledger.Fenced: BackLeft} {
		edited := ledger.Lookup{Found: ledger.Present, Row: ledger.Row{State: state, Attempt: 1, Run: "mine"}}
		f := backOf(it.edited(), "mine", true, edited)
		if f.back != want || f.move != nil && (f.move.Effect != ledger.EffectNone || f.move.Attempt != 1) {
			t.Errorf("%s: %+v", state, f)
		}
	}
}
