package sqlledger

import (
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// shape is all of a change that the text of its statements depends on. There are few,
// and a state in the text, unlike one in a parameter, never has the database plan
// again for the sake of an index that holds one state alone.
type shape struct {
	from, to             ledger.State // to is empty for a late record
	lateAccept, replaces bool
	// Which of these the change tells.
	run, reason, errorClass, effect, requestID, resolution bool
}

func shapeOf(c ledger.Change) shape {
	return shape{
		from: c.From, to: c.To, lateAccept: c.LateAccept, replaces: c.Replace != nil,
		run: c.Run != "", reason: c.Reason != "", errorClass: c.ErrorClass != "", effect: c.Effect != "",
		requestID: c.RequestID != "", resolution: c.Resolve != "",
	}
}

func (s shape) late() bool { return s.to == "" }

// changeStatements are those of the changes of one shape.
type changeStatements struct{ change, append bound }

// statementsOf puts the statements of a shape together once.
func (l *Ledger) statementsOf(lay *layout, s shape) changeStatements {
	lay.mu.Lock()
	defer lay.mu.Unlock()
	c, ok := lay.changes[s]
	if !ok {
		c = changeStatements{
			change: l.sql.bound(l.statement("change", l.updateRow(lay, s))),
			append: l.sql.bound(l.statement("append", l.appendLine(lay, s))),
		}
		lay.changes[s] = c
	}
	return c
}

// appendLine adds the row as it now is to the history.
func (l *Ledger) appendLine(lay *layout, s shape) string {
	told := func(name string, told bool) string {
		if told {
			return ":" + name
		}
		return "''"
	}
	from, deadline := l.own("state"), "NULL"
	if !s.late() {
		from = "'" + string(s.from) + "'"
	}
	if s.to == ledger.Sending {
		deadline = l.own("send_deadline")
	}
	return "INSERT INTO " + l.quoted(l.cfg.HistoryTable) + " (" + strings.Join(historyColumns, ", ") + ") SELECT " + strings.Join([]string{
		":job_key", ":consumer", ":now", ":actor", from, l.own("state"), ":attempt", told("run", s.run), told("reason", s.reason),
		told("error_class", s.errorClass), told("effect", s.effect), told("request_id", s.requestID),
		told("resolution", s.resolution), strconv.Itoa(bit(s.lateAccept)), deadline,
	}, ", ") + " FROM " + l.quoted(l.cfg.Table) + " WHERE " + l.keyIs(lay)
}

// updateRow is the compare-and-set of one change. What it compares is all in
// its condition, so that the database decides in one step.
func (l *Ledger) updateRow(lay *layout, s shape) string {
	return "UPDATE " + l.quoted(l.cfg.Table) + " SET " + strings.Join(l.sets(lay, s), ", ") +
		" WHERE " + strings.Join(l.conditions(lay, s), " AND ")
}

// assignment is one column and the expression it becomes.
type assignment struct{ column, value string }

func (l *Ledger) sets(lay *layout, s shape) []string {
	as := []assignment{{"updated_at", ":now"}}
	if !s.late() {
		as = append(as, assignment{"state", "'" + string(s.to) + "'"}, assignment{"attempt", ":attempt"})
		as = append(as, l.setsTo(lay, s.to)...)
	}
	if s.to == ledger.Failed && s.run {
		as = append(as, assignment{"run", ":run"})
	}
	if s.lateAccept {
		as = append(as, assignment{"late_accept", "1"})
	}
	if s.replaces {
		as = append(as, assignment{"replaced_by", ":replaced_by"})
	}
	if s.requestID {
		as = append(as, assignment{"request_id", ":request_id"})
	}
	if s.reason && !s.late() {
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

func (l *Ledger) conditions(lay *layout, s shape) []string {
	where := []string{l.keyIs(lay)}
	if s.late() {
		return where
	}
	where = append(where, l.own("state")+" = '"+string(s.from)+"'", l.own("attempt")+" = :from_attempt")
	if s.from == ledger.Queued {
		where = append(where, "COALESCE("+l.own("run")+", '') = :from_run")
	}
	return append(where, l.conditionsTo(lay, s)...)
}

// conditionsTo is what a move asks of the row beyond the comparison. A time that
// cannot be read compares as NULL, which refuses.
func (l *Ledger) conditionsTo(lay *layout, s shape) []string {
	late := "COALESCE(" + l.own("late_accept") + ", 0)"
	var where []string
	move, _ := ledger.Move(s.from, s.to)
	if move.LateAccept {
		where = append(where, late+" = 1")
	}
	switch s.to {
	case ledger.Sending:
		where = append(where, late+" = 0")
		if lay.has("send_before") {
			before := l.own("send_before")
			where = append(where, "("+before+" IS NULL OR "+l.instantOf(before)+" > "+l.instantOf(":now")+")")
		}
		if s.from == ledger.Failed {
			where = append(where, l.own("retryable")+" = 1", l.own("effect")+" = 'none'")
		}
	case ledger.Replaced:
		where = append(where, late+" = 0") // what was sent must not be sent again in another form
	case ledger.Fenced:
		if s.from == ledger.Sending {
			deadline := l.own("send_deadline")
			where = append(where, "("+deadline+" IS NULL OR "+l.instantOf(deadline)+" <= "+l.instantOf(":now")+")")
		}
	}
	return where
}
