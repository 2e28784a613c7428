package dump

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// maxLevels bounds wrappers around wrappers.
const maxLevels = 4

var errShape = errors.New("not the form of an SQS message, of an export, or of a wrapper with \"message\"")

func messages(raw json.RawMessage) ([]broker.Message, error) { return at(raw, "", maxLevels) }

// at reads one value: a message or a wrapper. The entity is the queue that the
// wrapper names.
func at(raw json.RawMessage, entity string, levels int) ([]broker.Message, error) {
	var o map[string]json.RawMessage
	if len(raw) == 0 || raw[0] != '{' || levels == 0 {
		return nil, errShape
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	switch {
	case has(o, "record"):
		m, err := fromRecord(raw)
		return []broker.Message{m}, err
	case has(o, "Messages"), has(o, "messages"):
		return list(o, entity, levels)
	case has(o, "message") && (has(o, "broker") || has(o, "queue")):
		return wrapped(o, levels)
	case has(o, "Body") && (has(o, "MessageId") || has(o, "ReceiptHandle") || has(o, "Attributes") || has(o, "MessageAttributes")):
		m, err := fromSQS(raw, entity)
		return []broker.Message{m}, err
	case has(o, "message") && (has(o, "ackId") || has(o, "ack_id")):
		return nil, errors.New("the form of a Pub/Sub pull, which is not read from a file yet")
	}
	return nil, errShape
}

func has(o map[string]json.RawMessage, key string) bool { _, ok := o[key]; return ok }

func list(o map[string]json.RawMessage, entity string, levels int) ([]broker.Message, error) {
	raw := o["Messages"]
	if raw == nil {
		raw = o["messages"]
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(raw, &raws); err != nil {
		return nil, fmt.Errorf("list of messages: %w", err)
	}
	var ms []broker.Message
	for i, raw := range raws {
		more, err := at(raw, entity, levels-1)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		ms = append(ms, more...)
	}
	return ms, nil
}

// wrapped reads {"broker": …, "queue": …, "message": {…}}.
func wrapped(o map[string]json.RawMessage, levels int) ([]broker.Message, error) {
	kind, err := text(o, "broker")
	if err != nil {
		return nil, err
	}
	if kind != "" && !strings.HasPrefix(kind, "sqs") {
		return nil, fmt.Errorf("a message of broker %q, which is not read from a file yet", kind)
	}
	queue, err := text(o, "queue")
	if err != nil {
		return nil, err
	}
	return at(o["message"], queue, levels-1)
}

func text(o map[string]json.RawMessage, key string) (string, error) {
	raw, ok := o[key]
	if !ok {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("field %q: %w", key, err)
	}
	return s, nil
}

// sqsMessage is one entry of receive-message's output.
type sqsMessage struct {
	MessageID         string                  `json:"MessageId"`
	Body              string                  `json:"Body"`
	Attributes        map[string]any          `json:"Attributes"`
	MessageAttributes map[string]sqsAttribute `json:"MessageAttributes"`
}

type sqsAttribute struct {
	DataType    string  `json:"DataType"`
	StringValue *string `json:"StringValue"`
	BinaryValue *string `json:"BinaryValue"` // base64
}

// fromSQS reads a message as SQS prints it. Attributes come sorted by name,
// since SQS gives them no order.
func fromSQS(raw json.RawMessage, entity string) (broker.Message, error) {
	var s sqsMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		return broker.Message{}, fmt.Errorf("SQS message: %w", err)
	}
	m := broker.Message{Copy: broker.CopyID{Entity: entity, ID: s.MessageID}, MessageID: s.MessageID, Body: []byte(s.Body)}
	for _, name := range slices.Sorted(maps.Keys(s.MessageAttributes)) {
		a, err := attribute(name, s.MessageAttributes[name])
		if err != nil {
			return broker.Message{}, err
		}
		m.Attributes = append(m.Attributes, a)
	}
	return m, system(&m, s.Attributes)
}

func attribute(name string, a sqsAttribute) (broker.Attribute, error) {
	out := broker.Attribute{Name: name, Type: a.DataType}
	switch {
	case a.BinaryValue != nil:
		b, err := base64.StdEncoding.DecodeString(*a.BinaryValue)
		if err != nil {
			return out, fmt.Errorf("attribute %q: %w", name, err)
		}
		out.Value = b
	case a.StringValue != nil:
		out.Value = []byte(*a.StringValue)
	}
	return out, nil
}

// system reads the attributes that SQS sets. Those with a field of their own
// fill it; all others are kept under their names.
func system(m *broker.Message, as map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(as)) {
		value := fmt.Sprint(as[name])
		if n, ok := as[name].(float64); ok {
			value = strconv.FormatFloat(n, 'f', -1, 64)
		}
		var err error
		switch name {
		case "SentTimestamp":
			m.SentAt, err = millis(value)
		case "ApproximateFirstReceiveTimestamp":
			m.FirstReceivedAt, err = millis(value)
		case "ApproximateReceiveCount":
			m.Receives, err = strconv.Atoi(value)
		case "DeadLetterQueueSourceArn":
			m.Origin = value
		case "MessageGroupId":
			m.OrderKey = value
		default:
			m.System = append(m.System, broker.Attribute{Name: name, Type: "String", Value: []byte(value)})
		}
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}

func millis(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(n).UTC(), nil
}
