package sqlledger

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// record is one line of an answer as the driver returned it, by this package's
// names. The first value that does not decode is kept; the others are then not
// trusted.
type record struct {
	at     map[string]int // column by name
	values []any
	into   []any // where the values are
	err    error
}

func newRecord(names []string) *record {
	r := &record{at: make(map[string]int, len(names)), values: make([]any, len(names)), into: make([]any, len(names))}
	for i, n := range names {
		r.at[n], r.into[i] = i, &r.values[i]
	}
	return r
}

// scan reads the next line in the place of the last.
func (r *record) scan(rows *sql.Rows) error {
	r.err = nil
	return rows.Scan(r.into...)
}

// value is nil where the answer has no such column.
func (r *record) value(name string) any {
	if i, ok := r.at[name]; ok {
		return r.values[i]
	}
	return nil
}

func (r *record) fail(name string, v any) {
	if r.err == nil {
		r.err = fmt.Errorf("ledger column %s holds %v", name, v)
	}
}

func (r *record) text(name string) string {
	switch x := r.value(name).(type) {
	case nil:
		return ""
	case string:
		return x
	case []byte:
		return string(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case time.Time:
		return x.Format(time.RFC3339Nano) // the driver takes such a text for a time, and only where it comes out the same
	default:
		r.fail(name, x)
		return ""
	}
}

func (r *record) number(name string) int {
	switch x := r.value(name).(type) {
	case nil:
		return 0
	case int64:
		return int(x)
	case string, []byte:
		n, err := strconv.Atoi(r.text(name))
		if err != nil {
			r.fail(name, r.text(name))
		}
		return n
	default:
		r.fail(name, x)
		return 0
	}
}

func (r *record) flag(name string) bool {
	if b, ok := r.value(name).(bool); ok {
		return b
	}
	return r.number(name) != 0
}

func (r *record) time(name string, f TimeFormat) time.Time {
	t, err := f.decode(r.value(name))
	if err != nil {
		r.fail(name, r.value(name))
	}
	return t
}

// key is the key of a row or of a line of its history.
func (r *record) key() ledger.Key {
	return ledger.Key{JobKey: r.text("job_key"), Consumer: r.text("consumer")}
}

// found is what was read of one key so far, in any order. The key of the row is
// there even where the rest is unreadable.
type found struct {
	row     ledger.Row
	rows    int // of the table; more than one is a fault
	history []event
	kept    bool // there is a history
	err     error
}

func (f *found) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// addRow decodes the row, and its events where the statement aggregates them.
func (f *found) addRow(r *record, t TimeFormat) {
	row := r.row(t)
	if !slices.Contains(ledger.States, row.State) {
		r.fail("state", strconv.Quote(string(row.State)))
	}
	f.row, f.rows = row, f.rows+1
	switch {
	case f.rows > 1:
		f.err = fmt.Errorf("ledger has several rows for job key %q", row.JobKey)
	case r.err != nil:
		f.fail(r.err)
	}
	if es, kept, err := decodeEvents(r.value("events"), t); err != nil {
		f.fail(err)
	} else if kept {
		f.history, f.kept = es, true
	}
}

// addEvent decodes a line of the history that was read by itself.
func (f *found) addEvent(r *record, t TimeFormat) {
	e := r.event(t)
	if r.err != nil {
		f.fail(fmt.Errorf("ledger history: %w", r.err))
	}
	f.history = append(f.history, e)
}

// lookup is the answer, once everything was read.
func (f *found) lookup(events bool) ledger.Lookup {
	if f.err != nil {
		return ledger.Lookup{Found: ledger.Unreadable, Row: ledger.Row{Key: f.row.Key}, Err: f.err}
	}
	slices.SortFunc(f.history, func(a, b event) int { return cmp.Compare(a.Seq, b.Seq) })
	row := f.row
	if f.kept {
		row.Attempts = withUnrecorded(row, f.history)
	}
	if events {
		row.Events = eventsOf(f.history)
	}
	return ledger.Lookup{Found: ledger.Present, Row: row}
}

func (r *record) row(f TimeFormat) ledger.Row {
	return ledger.Row{
		Key:           r.key(),
		State:         ledger.State(r.text("state")),
		Attempt:       r.number("attempt"),
		Run:           r.text("run"),
		Subject:       r.text("subject"),
		Version:       r.text("version"),
		PayloadSHA256: r.text("payload_sha256"),
		Region:        r.text("region"),
		Account:       r.text("account"),
		CustomerID:    r.text("customer_id"),
		RequestID:     r.text("request_id"),
		LateAccept:    r.flag("late_accept"),
		Retryable:     r.flag("retryable"),
		ErrorClass:    r.text("error_class"),
		Effect:        r.text("effect"),
		Reason:        r.text("reason"),
		ReplacedBy:    r.text("replaced_by"),
		CreatedAt:     r.time("created_at", f),
		UpdatedAt:     r.time("updated_at", f),
		ClaimedAt:     r.time("claimed_at", f),
		SendDeadline:  r.time("send_deadline", f),
		SendBefore:    r.time("send_before", f),
		FencedAt:      r.time("fenced_at", f),
		NewerSent:     r.flag("newer_sent"),
	}
}
