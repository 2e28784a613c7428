package sqlledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// The statements that a configuration may replace. Parameters are written
// ":name" for every database.
//
//   - now: no parameters; one value, the ledger's clock, as text or in the
//     table's time format.
//   - get: :keys, a JSON array of {"job_key","consumer"}. One row for each that
//     exists, its columns named as in the shipped schema, those the application
//     does not have left out. Two more are computed: newer_sent (0 or 1), and
//     events, a JSON array of the history's lines, whose members are the columns
//     of the shipped history; NULL or absent means that there is no history.
//   - scan: the same columns; :states (JSON array, empty for all), :consumer,
//     :region, :account (empty for all), :updated_after, :deadline_before
//     (NULL for any), :limit (-1 for none). Order is the statement's own.
//   - change: :job_key, :consumer, :from_state, :from_attempt, :from_run,
//     :to_state, :attempt, :run, :now, :deadline, :send_before, :reason,
//     :request_id, :error_class, :effect, :retryable, :replaced_by, :late (1: the
//     record compares nothing), :late_accept. It must keep every rule of
//     ledger.Change and affect exactly one row when it wins, none when it loses.
//   - append: those, with :actor and :resolution; adds the line to the history,
//     in the transaction of the change.
var statementNames = []string{"now", "get", "scan", "change", "append"}

// statement is the configured one, or the given default.
func (l *Ledger) statement(name, own string) string { return or(l.cfg.Statements[name], own) }

// selectRows reads what exists of a row, by this package's names.
func (l *Ledger) selectRows(lay *layout) string {
	cols := append(l.rowColumns(lay), l.eventsColumn(lay)+" AS events")
	return "SELECT " + strings.Join(cols, ", ") + " FROM " + l.quoted(l.cfg.Table) + " d"
}

func (l *Ledger) rowColumns(lay *layout) []string {
	var cols []string
	for _, name := range rowColumns {
		if lay.has(name) {
			cols = append(cols, l.col(name)+" AS "+l.sql.quote(name))
		}
	}
	return append(cols, l.newerSent(lay)+" AS newer_sent")
}

// getStatement reads the rows of the keys in :pairs and, in the same statement so
// that they belong together, the lines of their history: taking those one by one
// costs a fraction of what aggregating them does. A line is what has a seq. Without
// events what only they tell is left out.
func (l *Ledger) getStatement(lay *layout, events bool) string {
	lines := slices.Clone(attemptColumns)
	if events {
		lines = append(lines, eventColumns...)
	}
	rows := "SELECT " + strings.Join(l.rowColumns(lay), ", ")
	history := "SELECT "
	for _, name := range append(slices.Clone(rowColumns), "newer_sent") {
		switch i := slices.Index(lines, name); {
		case name != "newer_sent" && !lay.has(name):
		case i < 0:
			history += "NULL, "
		default:
			history += "h." + name + ", "
			lines = slices.Delete(lines, i, i+1)
		}
	}
	for _, name := range lines {
		rows += ", NULL AS " + name
	}
	rows += " FROM " + l.quoted(l.cfg.Table) + " d" + l.whereKeys(lay, l.col("job_key"), l.col("consumer"))
	if !lay.history {
		return rows
	}
	return rows + " UNION ALL " + history + "h." + strings.Join(lines, ", h.") +
		" FROM " + l.quoted(l.cfg.HistoryTable) + " h" + l.whereKeys(lay, "h.job_key", "h.consumer")
}

// newerSent asks for a committed row of the same subject with a newer version.
func (l *Ledger) newerSent(lay *layout) string {
	if !lay.has("subject") || !lay.has("version") {
		return "0"
	}
	n := func(name string) string { return "n." + l.sql.quote(l.cfg.column(name)) }
	committed := n("state") + " IN ('sent', 'reconciled')"
	if lay.has("late_accept") {
		committed = "(" + committed + " OR " + n("late_accept") + " = 1)"
	}
	where := []string{
		n("subject") + " = " + l.col("subject"), n("subject") + " <> ''", committed,
		n("version") + " <> ''", l.col("version") + " <> ''",
		l.sql.newer(n("version"), l.col("version"), l.cfg.VersionOrder),
	}
	if lay.has("consumer") {
		where = append(where, n("consumer")+" = "+l.col("consumer"))
	}
	return "EXISTS (SELECT 1 FROM " + l.quoted(l.cfg.Table) + " n WHERE " + strings.Join(where, " AND ") + ")"
}

func (l *Ledger) eventsColumn(lay *layout) string {
	if !lay.history {
		return "NULL"
	}
	pairs := [][2]string{{"seq", "h.seq"}}
	for _, c := range historyColumns {
		if c != "job_key" && c != "consumer" {
			pairs = append(pairs, [2]string{c, "h." + c})
		}
	}
	where := "h.job_key = " + l.col("job_key")
	if lay.has("consumer") {
		where += " AND h.consumer = " + l.col("consumer")
	}
	return "(SELECT " + l.sql.events(pairs) + " FROM " + l.quoted(l.cfg.HistoryTable) + " h WHERE " + where + ")"
}

func (l *Ledger) whereKeys(lay *layout, jobKey, consumer string) string {
	if lay.has("consumer") {
		jobKey = "(" + jobKey + ", " + consumer + ")"
	}
	return " WHERE " + jobKey + " IN (" + l.sql.keys(lay.has("consumer")) + ")"
}

// windowClause is the condition, order and bound of a scan with its parameters.
func (l *Ledger) windowClause(lay *layout, w ledger.Window) (string, named, error) {
	states := make([]string, len(w.States))
	var quoted []string
	for i, s := range w.States {
		states[i] = string(s)
		if !slices.Contains(ledger.States, s) {
			return "", nil, fmt.Errorf("scan ledger: state %q is not known", s)
		}
		quoted = append(quoted, "'"+string(s)+"'")
	}
	asked, err := json.Marshal(states)
	if err != nil {
		return "", nil, fmt.Errorf("scan ledger: %w", err)
	}
	p := named{
		"states": string(asked), "consumer": w.Consumer, "region": w.Region, "account": w.Account,
		"updated_after": l.cfg.TimeFormat.encode(w.UpdatedAfter), "deadline_before": l.cfg.TimeFormat.encode(w.DeadlineBefore),
		"limit": or(w.Limit, -1),
	}
	where := []string{"1 = 1"}
	if len(quoted) > 0 {
		where = append(where, l.col("state")+" IN ("+strings.Join(quoted, ", ")+")")
	}
	for _, c := range []struct {
		column, condition string
		asked             bool
	}{
		{"consumer", l.col("consumer") + " = :consumer", w.Consumer != ""},
		{"region", l.col("region") + " = :region", w.Region != ""},
		{"account", l.col("account") + " = :account", w.Account != ""},
		{"updated_at", l.instant("updated_at") + " > " + l.instantOf(":updated_after"), !w.UpdatedAfter.IsZero()},
		{"send_deadline", l.instant("send_deadline") + " < " + l.instantOf(":deadline_before"), !w.DeadlineBefore.IsZero()},
	} {
		if !c.asked || c.column == "consumer" && !lay.has("consumer") {
			continue
		}
		if !lay.has(c.column) {
			return "", nil, fmt.Errorf("scan ledger: table %s has no column for %s", l.cfg.Table, c.column)
		}
		where = append(where, c.condition)
	}
	return " WHERE " + strings.Join(where, " AND ") + l.scanOrder(lay, w.NewestFirst) + " LIMIT :limit", p, nil
}

func (l *Ledger) scanOrder(lay *layout, newestFirst bool) string {
	dir := " ASC"
	if newestFirst {
		dir = " DESC"
	}
	by := l.col("job_key") + dir
	if lay.has("updated_at") {
		by = l.col("updated_at") + dir + ", " + by
	}
	return " ORDER BY " + by
}

func (l *Ledger) instant(name string) string   { return l.instantOf(l.col(name)) }
func (l *Ledger) instantOf(expr string) string { return l.sql.instant(expr, l.cfg.TimeFormat) }
func (l *Ledger) own(name string) string       { return l.sql.quote(l.cfg.column(name)) }
func (l *Ledger) keyIs(lay *layout) string {
	where := l.own("job_key") + " = :job_key"
	if lay.has("consumer") {
		where += " AND " + l.own("consumer") + " = :consumer"
	}
	return where
}
