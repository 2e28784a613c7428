package sqlledger

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// record is one row as the driver returned it, by this package's names. The
// first value that does not decode is kept; the others are then not trusted.
type record struct {
	values map[string]any
	err    error
}

func (r *record) fail(name string, v any) {
	if r.err == nil {
		r.err = fmt.Errorf("ledger column %s holds %v", name, v)
	}
}

func (r *record) text(name string) string {
	switch x := r.values[name].(type) {
	case nil:
		return ""
	case string:
		return x
	case []byte:
		return string(x)
	case int64:
		return strconv.FormatInt(x, 10)
	default:
		r.fail(name, x)
		return ""
	}
}

func (r *record) number(name string) int {
	switch x := r.values[name].(type) {
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
	if b, ok := r.values[name].(bool); ok {
		return b
	}
	return r.number(name) != 0
}

func (r *record) time(name string, f TimeFormat) time.Time {
	t, err := f.decode(r.values[name])
	if err != nil {
		r.fail(name, r.values[name])
	}
	return t
}

// lookup decodes the record. The key is there even where the rest is unreadable.
func (r *record) lookup(f TimeFormat, events bool) ledger.Lookup {
	row := r.row(f)
	history, kept, err := decodeEvents(r.values["events"], f)
	if r.err == nil {
		r.err = err
	}
	if r.err == nil && !slices.Contains(ledger.States, row.State) {
		r.fail("state", strconv.Quote(string(row.State)))
	}
	if r.err != nil {
		return ledger.Lookup{Found: ledger.Unreadable, Row: ledger.Row{Key: row.Key}, Err: r.err}
	}
	if kept {
		row.Attempts = withUnrecorded(row, history)
	}
	if events {
		row.Events = eventsOf(history)
	}
	return ledger.Lookup{Found: ledger.Present, Row: row}
}

func (r *record) row(f TimeFormat) ledger.Row {
	return ledger.Row{
		Key:           ledger.Key{JobKey: r.text("job_key"), Consumer: r.text("consumer")},
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
