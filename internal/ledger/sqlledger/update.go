package sqlledger

import (
	"strings"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// updateRow is the compare-and-set of one change. What it compares is all in
// its condition, so that the database decides in one step.
func (l *Ledger) updateRow(lay *layout, c ledger.Change) string {
	return "UPDATE " + l.quoted(l.cfg.Table) + " SET " + strings.Join(l.sets(lay, c), ", ") +
		" WHERE " + strings.Join(l.conditions(lay, c), " AND ")
}

// assignment is one column and the expression it becomes.
type assignment struct{ column, value string }

func (l *Ledger) sets(lay *layout, c ledger.Change) []string {
	as := []assignment{{"updated_at", ":now"}}
	if !c.Late() {
		as = append(as, assignment{"state", ":to_state"}, assignment{"attempt", ":attempt"})
		as = append(as, l.setsTo(lay, c.To)...)
	}
	if c.To == ledger.Failed && c.Run != "" {
		as = append(as, assignment{"run", ":run"})
	}
	if c.LateAccept {
		as = append(as, assignment{"late_accept", "1"})
	}
	if c.Replace != nil {
		as = append(as, assignment{"replaced_by", ":replaced_by"})
	}
	if c.RequestID != "" {
		as = append(as, assignment{"request_id", ":request_id"})
	}
	if c.Reason != "" && !c.Late() {
		as = append(as, assignment{"reason", ":reason"})
	}
	var out []string
	for _, a := range as {
		if lay.has(a.column) {
			out = append(out, l.own(a.column)+" = "+a.value)
		}
	}
	return out
}

// setsTo is what only one new state sets.
func (l *Ledger) setsTo(lay *layout, to ledger.State) []assignment {
	switch to {
	case ledger.Sending:
		return []assignment{{"claimed_at", ":now"}, {"send_deadline", l.deadline(lay)}, {"fenced_at", "NULL"}}
	case ledger.Queued:
		return []assignment{{"run", ":run"}, {"send_before", ":send_before"}}
	case ledger.Fenced:
		return []assignment{{"fenced_at", "COALESCE(" + l.own("fenced_at") + ", :now)"}}
	case ledger.Failed:
		return []assignment{{"error_class", ":error_class"}, {"effect", ":effect"}, {"retryable", ":retryable"}}
	default:
		return nil
	}
}

// deadline is min(now + claim life, send_before).
func (l *Ledger) deadline(lay *layout) string {
	if !lay.has("send_before") {
		return ":deadline"
	}
	before := l.own("send_before")
	return "CASE WHEN " + before + " IS NOT NULL AND " + l.instantOf(before) + " < " + l.instantOf(":deadline") +
		" THEN " + before + " ELSE :deadline END"
}

func (l *Ledger) conditions(lay *layout, c ledger.Change) []string {
	where := []string{l.keyIs(lay)}
	if c.Late() {
		return where
	}
	where = append(where, l.own("state")+" = :from_state", l.own("attempt")+" = :from_attempt")
	if c.From == ledger.Queued {
		where = append(where, "COALESCE("+l.own("run")+", '') = :from_run")
	}
	return append(where, l.conditionsTo(lay, c)...)
}

// conditionsTo is what a move asks of the row beyond the comparison. A time that
// cannot be read compares as NULL, which refuses.
func (l *Ledger) conditionsTo(lay *layout, c ledger.Change) []string {
	late := "COALESCE(" + l.own("late_accept") + ", 0)"
	var where []string
	move, _ := ledger.Move(c.From, c.To)
	if move.LateAccept {
		where = append(where, late+" = 1")
	}
	switch c.To {
	case ledger.Sending:
		where = append(where, late+" = 0")
		if lay.has("send_before") {
			before := l.own("send_before")
			where = append(where, "("+before+" IS NULL OR "+l.instantOf(before)+" > "+l.instantOf(":now")+")")
		}
		if c.From == ledger.Failed {
			where = append(where, l.own("retryable")+" = 1", l.own("effect")+" = 'none'")
		}
	case ledger.Replaced:
		where = append(where, late+" = 0") // what was sent must not be sent again in another form
	case ledger.Fenced:
		if c.From == ledger.Sending {
			deadline := l.own("send_deadline")
			where = append(where, "("+deadline+" IS NULL OR "+l.instantOf(deadline)+" <= "+l.instantOf(":now")+")")
		}
	}
	return where
}
