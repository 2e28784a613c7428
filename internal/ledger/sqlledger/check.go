package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

// Finding is one thing that Check found. An error makes the ledger's word
// unsafe to act on; a warning costs something, which Detail says.
type Finding struct {
	Severity string // "error" or "warning"
	What     string // short, stable, snake_case
	Detail   string
}

// skewAllowed is how far the ledger's clock may be from ours without a word.
const skewAllowed = 2 * time.Second

// Check looks at the table, its indexes, its clock and its rows. It writes
// nothing. An error says that a look itself failed; findings are no error.
func (l *Ledger) Check(ctx context.Context) ([]Finding, error) {
	lay, err := l.probe(ctx, l.db)
	if errors.Is(err, ErrSchema) {
		return []Finding{{"error", "no_table", err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	fs := l.checkColumns(lay)
	if len(lay.missing(neededToRead)) > 0 {
		return fs, nil
	}
	looks := []func(context.Context, *layout) ([]Finding, error){l.checkClock}
	if l.cfg.Statements["get"] == "" { // else the table is not ours to know
		looks = append(looks, l.checkIndexes, l.checkRows)
	}
	for _, look := range looks {
		more, err := look(ctx, lay)
		if err != nil {
			return fs, err
		}
		fs = append(fs, more...)
	}
	return fs, nil
}

func (l *Ledger) checkColumns(lay *layout) []Finding {
	var fs []Finding
	need := neededToRead
	if l.cfg.Mode == Write && l.cfg.Statements["change"] == "" {
		need = neededToWrite
	}
	for _, name := range lay.missing(append(slices.Clone(rowColumns), renderingColumns...)) {
		own := l.cfg.column(name)
		switch {
		case slices.Contains(need, name):
			fs = append(fs, Finding{"error", "missing_column", fmt.Sprintf("%s has no column %s (for %s)", l.cfg.Table, own, name)})
		case costs[name] != "":
			fs = append(fs, Finding{"warning", "missing_column", fmt.Sprintf("%s has no column %s (for %s): %s", l.cfg.Table, own, name, costs[name])})
		}
	}
	if !lay.history {
		fs = append(fs, Finding{"warning", "no_history", fmt.Sprintf("there is no table %s with every column of a history: a job received more than once counts as unknown", l.cfg.HistoryTable)})
	}
	return fs
}

// costs is what goes without an optional column.
var costs = map[string]string{
	"consumer":         "where an origin has several consumers its jobs hold",
	"send_before":      "no job can be replay-safe",
	"send_deadline":    "every look-up waits from the fence, not from the deadline",
	"fenced_at":        "no negative look-up can be conclusive without send_deadline",
	"payload_sha256":   "a changed payload is not noticed",
	"subject":          "a newer version is not noticed",
	"version":          "a newer version is not noticed",
	"request_id":       "the provider cannot be asked by its own name for the request",
	"replaced_by":      "no job can be edited",
	"account":          "look-ups are not bound to an account",
	"region":           "look-ups are not bound to a region",
	"rendering":        "the worker cannot store what it sends",
	"rendering_sha256": "the worker cannot store what it sends",
}

func (l *Ledger) checkIndexes(ctx context.Context, lay *layout) (fs []Finding, err error) {
	schema, table, dotted := strings.Cut(l.cfg.Table, ".")
	if !dotted {
		schema, table = l.sql.schema, l.cfg.Table
	}
	query, args, err := l.sql.bind(l.sql.indexes, named{"schema": schema, "table": table})
	if err != nil {
		return nil, err
	}
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("check indexes: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, unique := map[string][]string{}, map[string]bool{}
	for rows.Next() {
		var name, column string
		var only bool
		if err := rows.Scan(&name, &only, &column); err != nil {
			return nil, fmt.Errorf("check indexes: %w", err)
		}
		columns[name], unique[name] = append(columns[name], column), only
	}
	return l.indexFindings(lay, columns, unique), sqlite.Ended(ctx, rows.Err())
}

func (l *Ledger) indexFindings(lay *layout, columns map[string][]string, unique map[string]bool) []Finding {
	key := []string{l.cfg.column("job_key")}
	if lay.has("consumer") {
		key = append(key, l.cfg.column("consumer"))
	}
	slices.Sort(key)
	oneRow, byState := false, false
	for name, cols := range columns {
		byState = byState || cols[0] == l.cfg.column("state")
		oneRow = oneRow || unique[name] && slices.Equal(slices.Sorted(slices.Values(cols)), key)
	}
	var fs []Finding
	if !oneRow {
		fs = append(fs, Finding{"error", "key_not_unique", fmt.Sprintf("%s has no unique index on %s: one job may have two rows", l.cfg.Table, strings.Join(key, ", "))})
	}
	if !byState {
		fs = append(fs, Finding{"warning", "no_state_index", l.cfg.Table + " has no index that begins with the state: scans read the whole table"})
	}
	return fs
}

func (l *Ledger) checkClock(ctx context.Context, _ *layout) ([]Finding, error) {
	before := time.Now()
	now, err := l.Now(ctx)
	if err != nil {
		return nil, err
	}
	after := time.Now()
	if now.After(before.Add(-skewAllowed)) && now.Before(after.Add(skewAllowed)) {
		return nil, nil
	}
	return []Finding{{"warning", "clock_skew", fmt.Sprintf("the ledger's clock is %s off ours", now.Sub(before).Round(time.Millisecond))}}, nil
}

// impossible are rows that no sequence of legal changes leaves behind.
func (l *Ledger) impossible(lay *layout) []struct{ what, where string } {
	states := make([]string, len(ledger.States))
	for i, s := range ledger.States {
		states[i] = "'" + string(s) + "'"
	}
	state := l.col("state")
	all := []struct{ what, where, needs string }{
		{"unknown_state", state + " IS NULL OR " + state + " NOT IN (" + strings.Join(states, ", ") + ")", "state"},
		{"no_attempt", l.col("attempt") + " IS NULL OR " + l.col("attempt") + " < 0", "attempt"},
		{"no_job_key", l.col("job_key") + " IS NULL OR " + l.col("job_key") + " = ''", "job_key"},
		{"sending_unclaimed", state + " = 'sending' AND " + l.col("claimed_at") + " IS NULL", "claimed_at"},
		{"sending_without_deadline", state + " = 'sending' AND " + l.col("send_deadline") + " IS NULL", "send_deadline"},
		{"fenced_without_time", state + " = 'fenced' AND " + l.col("fenced_at") + " IS NULL", "fenced_at"},
		{"replaced_by_nothing", state + " = 'replaced' AND COALESCE(" + l.col("replaced_by") + ", '') = ''", "replaced_by"},
		{"unreadable_deadline", l.unreadable("send_deadline"), "send_deadline"},
		{"unreadable_send_before", l.unreadable("send_before"), "send_before"},
	}
	var out []struct{ what, where string }
	for _, a := range all {
		if lay.has(a.needs) {
			out = append(out, struct{ what, where string }{a.what, a.where})
		}
	}
	return out
}

func (l *Ledger) unreadable(name string) string {
	return l.col(name) + " IS NOT NULL AND " + l.instant(name) + " IS NULL"
}

func (l *Ledger) checkRows(ctx context.Context, lay *layout) ([]Finding, error) {
	var fs []Finding
	table := l.quoted(l.cfg.Table)
	for _, c := range l.impossible(lay) {
		n, err := l.count(ctx, "SELECT count(*) FROM "+table+" d WHERE "+c.where)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			fs = append(fs, Finding{"error", c.what, fmt.Sprintf("%d rows", n)})
		}
	}
	key := l.col("job_key")
	if lay.has("consumer") {
		key += ", " + l.col("consumer")
	}
	n, err := l.count(ctx, "SELECT count(*) FROM (SELECT 1 FROM "+table+" d GROUP BY "+key+" HAVING count(*) > 1) twice")
	if err != nil {
		return nil, err
	}
	if n > 0 {
		fs = append(fs, Finding{"error", "duplicate_key", fmt.Sprintf("%d job keys have several rows", n)})
	}
	return fs, nil
}

func (l *Ledger) count(ctx context.Context, query string) (int64, error) {
	var n int64
	if err := l.db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("check rows: %w", err)
	}
	return n, nil
}
