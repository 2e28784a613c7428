package redrive

import (
	"slices"
	"testing"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/reconcile"
)

// TestAfterCrash goes through the resume table row by row, in its order.
func TestAfterCrash(t *testing.T) {
	t.Parallel()
	one := 1
	planned := Item{JobKey: "k", LedgerState: "failed", LedgerAttempt: &one, Action: reconcile.Redrive}
	bare := Item{Action: reconcile.Redrive}
	with := func(it Item, f func(*Item)) Item { f(&it); return it }
	row := func(s ledger.State, attempt int, run string) *ledger.Lookup {
		return &ledger.Lookup{Found: ledger.Present, Row: ledger.Row{State: s, Attempt: attempt, Run: run}}
	}
	late := row(ledger.Fenced, 2, "")
	late.Row.LateAccept = true
	begun := entry{intended: true}
	all := entry{intended: true, queued: true, published: true}
	settle := entry{intended: true, queued: true, published: true, settle: true}
	tests := []struct {
		name    string
		item    Item
		publish string
		row     *ledger.Lookup
		next    next
		entry   entry
		end     ItemEnd
	}{
		{"published wins over everything", planned, "done", row(ledger.Failed, 1, ""), toAcknowledge, all, ItemEnd{}},
		{"published, no ledger", bare, "done", nil, toAcknowledge, all, ItemEnd{}},
		{"no ledger holds", bare, "", nil, toClose, begun, ItemEnd{endHeld, "publish_unknown"}},
		{"no ledger, lost reply holds", bare, "unknown", nil, toClose, begun, ItemEnd{endHeld, "publish_unknown"}},
		{"no ledger, declared idempotent", with(bare, func(i *Item) { i.Lift = "idempotent" }), "unknown", nil, toAct, begun, ItemEnd{}},
		{"no ledger, settle", with(bare, func(i *Item) { i.Action = reconcile.Settle }), "", nil, toAct, begun, ItemEnd{}},
		{"ledger gone from the configuration holds", with(planned, func(i *Item) { i.Lift = "idempotent" }), "", nil, toClose, begun, ItemEnd{endHeld, "publish_unknown"}},
		{"as planned", planned, "", row(ledger.Failed, 1, ""), toAct, begun, ItemEnd{}},
		{"as planned, missing", with(planned, func(i *Item) { i.LedgerState, i.LedgerAttempt = "missing", nil }), "", &ledger.Lookup{Found: ledger.Missing}, toAct, begun, ItemEnd{}},
		{"as planned, queued by a dead run", with(planned, func(i *Item) { i.LedgerState, i.LedgerRun = "queued", "r0" }), "", row(ledger.Queued, 1, "r0"), toAct, begun, ItemEnd{}},
		{"sent", planned, "unknown", row(ledger.Sent, 2, "r1"), toAcknowledge, settle, ItemEnd{}},
		{"reconciled", planned, "", row(ledger.Reconciled, 2, "r1"), toAcknowledge, settle, ItemEnd{}},
		{"late accept", planned, "", late, toAcknowledge, settle, ItemEnd{}},
		{"queued by this run", planned, "unknown", row(ledger.Queued, 2, "r1"), toAct, entry{intended: true, queued: true}, ItemEnd{}},
		{"failed since", planned, "unknown", row(ledger.Failed, 2, "r1"), toClose, begun, ItemEnd{endFailed, "row_failed"}},
		{"sending", planned, "unknown", row(ledger.Sending, 2, "r1"), toClose, begun, ItemEnd{endHeld, "row_sending"}},
		{"fenced", planned, "", row(ledger.Fenced, 1, ""), toClose, begun, ItemEnd{endHeld, "row_fenced"}},
		{"queued by another run", planned, "", row(ledger.Queued, 2, "r2"), toClose, begun, ItemEnd{endHeld, "row_queued"}},
		{"replaced", planned, "", row(ledger.Replaced, 1, ""), toClose, begun, ItemEnd{endHeld, "row_replaced"}},
		{"unreadable", planned, "", &ledger.Lookup{Found: ledger.Unreadable}, toLeave, begun, ItemEnd{endUnknown, "ledger_unreadable"}},
		{"missing though planned", planned, "", &ledger.Lookup{Found: ledger.Missing}, toLeave, begun, ItemEnd{endUnknown, "ledger_missing"}},
		{"zero look-up", planned, "", &ledger.Lookup{}, toLeave, begun, ItemEnd{endUnknown, "ledger_"}},
	}
	drop := with(planned, func(i *Item) { i.Action = reconcile.Discard })
	dropQueued := with(drop, func(i *Item) { i.LedgerState, i.LedgerRun = "queued", "r0" })
	for _, tt := range []struct {
		name string
		item Item
		row  *ledger.Lookup
		next next
		ent  entry
		end  ItemEnd
	}{
		{"discard, no ledger", with(bare, func(i *Item) { i.Action = reconcile.Discard }), nil, toAct, begun, ItemEnd{}},
		{"discard, as planned", drop, row(ledger.Failed, 1, ""), toAct, begun, ItemEnd{}},
		{"discarded by this run", drop, row(ledger.Failed, 2, "r1"), toAct, entry{intended: true, queued: true}, ItemEnd{}},
		{"queued, discarded by this run", dropQueued, row(ledger.Failed, 1, "r1"), toAct, entry{intended: true, queued: true}, ItemEnd{}},
		{"queued, failed by a worker", dropQueued, row(ledger.Failed, 1, "r0"), toClose, begun, ItemEnd{endFailed, "row_failed"}},
		{"discard, failed again by a worker", drop, row(ledger.Failed, 2, ""), toClose, begun, ItemEnd{endFailed, "row_failed"}},
		{"discard, queued by this run", drop, row(ledger.Queued, 2, "r1"), toClose, begun, ItemEnd{endHeld, "row_queued"}},
		{"discard, sent meanwhile", drop, row(ledger.Sent, 2, "r2"), toAcknowledge, settle, ItemEnd{}},
		{"discard, sending", drop, row(ledger.Sending, 2, "r2"), toClose, begun, ItemEnd{endHeld, "row_sending"}},
		{"discard, unreadable", drop, &ledger.Lookup{Found: ledger.Unreadable}, toLeave, begun, ItemEnd{endUnknown, "ledger_unreadable"}},
	} {
		n, e, end := afterCrash(&tt.item, "r1", "", tt.row)
		if n != tt.next || e != tt.ent || end != tt.end {
			t.Errorf("%s: got %v %+v %+v, want %v %+v %+v", tt.name, n, e, end, tt.next, tt.ent, tt.end)
		}
	}
	for _, tt := range tests {
		n, e, end := afterCrash(&tt.item, "r1", tt.publish, tt.row)
		if n != tt.next || e != tt.entry || end != tt.end {
			t.Errorf("%s: got %v %+v %+v, want %v %+v %+v", tt.name, n, e, end, tt.next, tt.entry, tt.end)
		}
	}
}

// TestChangeOf holds the table of step 4 over every state, and that each move
// is one that the ledger's own table has.
func TestChangeOf(t *testing.T) {
	t.Parallel()
	moves := map[reconcile.Action]map[ledger.State]string{
		reconcile.Redrive: {ledger.Failed: "queued 4", ledger.Fenced: "queued 4", ledger.Queued: "queued 3"},
		reconcile.Settle: {
			ledger.Queued: "reconciled 3", ledger.Sending: "reconciled 3", ledger.Fenced: "reconciled 3", ledger.Failed: "reconciled 3",
		},
		reconcile.Discard: {ledger.Queued: "failed 3", ledger.Fenced: "failed 3", ledger.Failed: "failed 4"},
	}
	three := 3
	for action, want := range moves {
		for _, from := range append(ledger.States, rowMissing, "") {
			it := Item{JobKey: "k", Consumer: "c", LedgerState: string(from), LedgerAttempt: &three, LedgerRun: "r0"}
			c, ok := changeOf(&it, "r1", action)
			if ok != (want[from] != "") {
				t.Errorf("%s from %q: change %v", action, from, ok)
			}
			if !ok {
				continue
			}
			if got := string(c.To) + " " + string(rune('0'+c.Attempt)); got != want[from] {
				t.Errorf("%s from %s: %s, want %s", action, from, got, want[from])
			}
			if c.From != from || c.FromAttempt != 3 || c.FromRun != "r0" || c.Run != "r1" {
				t.Errorf("%s from %s compares %+v", action, from, c)
			}
			if _, err := c.Checked(); err != nil {
				t.Errorf("%s from %s: %v", action, from, err)
			}
			if move, _ := ledger.Move(c.From, c.To); !slices.Contains(move.By, ledger.Run) {
				t.Errorf("%s from %s: no run may make this move", action, from)
			}
			if c.Retryable {
				t.Errorf("%s from %s: retryable", action, from)
			}
		}
	}
}
