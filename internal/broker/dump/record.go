package dump

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// recordVersion marks the records of an export.
const recordVersion = "redrivectl/message/v1"

// record is one message without loss: bytes are base64, times RFC 3339 with
// nanoseconds in UTC. docs/envelope.md describes it.
type record struct {
	Record          string        `json:"record"`
	Copy            broker.CopyID `json:"copy"`
	MessageID       string        `json:"message_id"`
	Origin          string        `json:"origin"`
	OrderKey        string        `json:"order_key"`
	BodyBase64      []byte        `json:"body_base64"`
	Attributes      []attr        `json:"attributes"`
	System          []attr        `json:"system"`
	RawFormat       string        `json:"raw_format"`
	RawBase64       []byte        `json:"raw_base64"`
	Receives        int           `json:"receives"`
	SentAt          time.Time     `json:"sent_at,omitzero"`
	FirstReceivedAt time.Time     `json:"first_received_at,omitzero"`
	ExpiresAt       time.Time     `json:"expires_at,omitzero"`
}

type attr struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	ValueBase64 []byte `json:"value_base64"`
}

// encode is the line of a message, with its end, that Read gives back with the same
// bytes, types, order and identity. A message of which that would lose something
// is an error.
func encode(m broker.Message) ([]byte, error) {
	if err := checkText(m); err != nil {
		return nil, fmt.Errorf("record of copy %s: %w", m.Copy, err)
	}
	line, err := json.Marshal(record{
		Record: recordVersion, Copy: m.Copy, MessageID: m.MessageID, Origin: m.Origin, OrderKey: m.OrderKey, BodyBase64: m.Body,
		Attributes: toAttrs(m.Attributes), System: toAttrs(m.System), RawFormat: m.RawFormat, RawBase64: m.Raw,
		Receives: m.Receives, SentAt: utc(m.SentAt), FirstReceivedAt: utc(m.FirstReceivedAt), ExpiresAt: utc(m.ExpiresAt),
	})
	if err != nil {
		return nil, fmt.Errorf("record of message %s: %w", m.MessageID, err)
	}
	if len(line) >= MaxRecord {
		return nil, fmt.Errorf("record of copy %s: longer than the %d bytes that can be read back", m.Copy, MaxRecord)
	}
	return append(line, '\n'), nil
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func toAttrs(as []broker.Attribute) []attr {
	out := make([]attr, 0, len(as))
	for _, a := range as {
		out = append(out, attr{a.Name, a.Type, a.Value})
	}
	return out
}

func fromAttrs(as []attr) []broker.Attribute {
	var out []broker.Attribute
	for _, a := range as {
		out = append(out, broker.Attribute{Name: a.Name, Type: a.Type, Value: a.ValueBase64})
	}
	return out
}

// fromRecord reads a record strictly: an unknown field would be a loss.
func fromRecord(raw json.RawMessage) (broker.Message, error) {
	var r record
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return broker.Message{}, fmt.Errorf("exported record: %w", err)
	}
	if r.Record != recordVersion {
		return broker.Message{}, fmt.Errorf("exported record of unknown version %q", r.Record)
	}
	return broker.Message{
		Copy: r.Copy, MessageID: r.MessageID, Origin: r.Origin, OrderKey: r.OrderKey, Body: r.BodyBase64,
		Attributes: fromAttrs(r.Attributes), System: fromAttrs(r.System), RawFormat: r.RawFormat, Raw: r.RawBase64,
		Receives: r.Receives, SentAt: r.SentAt, FirstReceivedAt: r.FirstReceivedAt, ExpiresAt: r.ExpiresAt,
	}, nil
}
