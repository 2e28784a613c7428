package sqlledger

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
)

// historyColumns are the columns of a history, besides its sequence number.
var historyColumns = []string{
	"job_key", "consumer", "at", "actor", "from_state", "to_state", "attempt", "run", "reason",
	"error_class", "effect", "request_id", "resolution", "late_accept", "send_deadline",
}

// What a history must tell of the attempts, and what else of the events.
var (
	attemptColumns = []string{
		"job_key", "consumer", "seq", "at", "from_state", "to_state", "attempt", "error_class", "effect", "request_id",
		"resolution", "send_deadline",
	}
	eventColumns = []string{"actor", "run", "reason"}
)

// event is one line of the history, read by itself or from the database's
// aggregate.
type event struct {
	Seq          int    `json:"seq"`
	At           any    `json:"at"`
	Actor        string `json:"actor"`
	From         string `json:"from_state"`
	To           string `json:"to_state"`
	Attempt      int    `json:"attempt"`
	Run          string `json:"run"`
	Reason       string `json:"reason"`
	ErrorClass   string `json:"error_class"`
	Effect       string `json:"effect"`
	RequestID    string `json:"request_id"`
	Resolution   string `json:"resolution"`
	SendDeadline any    `json:"send_deadline"`

	at, deadline time.Time
}

// decodeEvents reads the aggregate; kept is false where there is no history.
func decodeEvents(v any, f TimeFormat) (es []event, kept bool, err error) {
	var raw []byte
	switch x := v.(type) {
	case nil:
		return nil, false, nil
	case string:
		raw = []byte(x)
	case []byte:
		raw = x
	}
	if err := json.Unmarshal(raw, &es); err != nil {
		return nil, false, fmt.Errorf("ledger history: %w", err)
	}
	for i := range es {
		if es[i].at, err = decodeJSONTime(es[i].At, f); err != nil {
			return nil, false, fmt.Errorf("ledger history: %w", err)
		}
		if es[i].deadline, err = decodeJSONTime(es[i].SendDeadline, f); err != nil {
			return nil, false, fmt.Errorf("ledger history: %w", err)
		}
	}
	return es, true, nil
}

// event decodes a line that was read by itself.
func (r *record) event(f TimeFormat) event {
	return event{
		Seq: r.number("seq"), Actor: r.text("actor"), From: r.text("from_state"), To: r.text("to_state"),
		Attempt: r.number("attempt"), Run: r.text("run"), Reason: r.text("reason"),
		ErrorClass: r.text("error_class"), Effect: r.text("effect"), RequestID: r.text("request_id"),
		Resolution: r.text("resolution"), at: r.time("at", f), deadline: r.time("send_deadline", f),
	}
}

// decodeJSONTime reads a number as exact as milliseconds need it.
func decodeJSONTime(v any, f TimeFormat) (time.Time, error) {
	if n, ok := v.(float64); ok {
		return f.fromNumber(int64(n))
	}
	return f.decode(v)
}

// attemptsOf folds the history into the tries. An attempt begins with its claim;
// what was never claimed is no attempt.
func attemptsOf(es []event) []ledger.Attempt {
	as := []ledger.Attempt{}
	for _, e := range es {
		if e.To == string(ledger.Sending) && e.From != e.To {
			as = append(as, ledger.Attempt{Number: e.Attempt, ClaimedAt: e.at, SendDeadline: e.deadline})
			continue
		}
		for i := range as {
			as[i] = e.onto(as[i])
		}
	}
	return as
}

// onto adds what the event tells of the attempt. A worker speaks of its own
// attempt, a verdict also of all before it.
func (e event) onto(a ledger.Attempt) ledger.Attempt {
	own := a.Number == e.Attempt
	if own {
		a.RequestID = or(e.RequestID, a.RequestID)
		a.ErrorClass = or(e.ErrorClass, a.ErrorClass)
		a.Effect = or(e.Effect, a.Effect)
	}
	covers := own || e.Resolution == string(ledger.ByVerdict) && a.Number <= e.Attempt
	if covers && a.Resolution == ledger.Unresolved {
		a.Resolution = ledger.Resolution(e.Resolution)
	}
	return a
}

// withUnrecorded adds the claim that the row tells of and the history does not:
// a worker that keeps the row but no history has tried all the same, and its
// outcome is known only where the row says so.
func withUnrecorded(r ledger.Row, es []event) []ledger.Attempt {
	as := attemptsOf(es)
	claimed := r.State == ledger.Sending || !r.ClaimedAt.IsZero()
	for _, a := range as {
		same := a.Number == r.Attempt && r.State == ledger.Sending
		if same || !r.ClaimedAt.IsZero() && !a.ClaimedAt.Before(r.ClaimedAt) {
			claimed = false
		}
	}
	if !claimed {
		return as
	}
	a := ledger.Attempt{Number: r.Attempt, ClaimedAt: r.ClaimedAt, SendDeadline: r.SendDeadline, RequestID: r.RequestID}
	if r.State == ledger.Failed {
		a.ErrorClass, a.Effect = r.ErrorClass, r.Effect
	}
	if r.State == ledger.Sent || r.State == ledger.Failed && r.Effect == ledger.EffectNone {
		a.Resolution = ledger.ByWorker
	}
	for _, e := range es {
		if e.Resolution == string(ledger.ByVerdict) && !e.at.Before(r.ClaimedAt) {
			a.Resolution = ledger.ByVerdict
		}
	}
	return append(as, a)
}

func eventsOf(es []event) []ledger.Event {
	out := make([]ledger.Event, len(es))
	for i, e := range es {
		out[i] = ledger.Event{
			At: e.at, Actor: e.Actor, From: ledger.State(e.From), To: ledger.State(e.To), Attempt: e.Attempt,
			Run: e.Run, Reason: e.Reason, ErrorClass: e.ErrorClass, RequestID: e.RequestID,
		}
	}
	return out
}
