package dump

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func isSQS(o fields) bool {
	return o.has("Body") && (o.has("MessageId") || o.has("ReceiptHandle") || o.has("Attributes") || o.has("MessageAttributes"))
}

// fromSQS reads a message as "aws sqs receive-message" prints it. Attributes
// come sorted by name, since SQS gives them no order.
func fromSQS(e entry) (broker.Message, error) {
	id, err := e.text("MessageId")
	if err != nil {
		return broker.Message{}, fmt.Errorf("SQS message ID: %w", err)
	}
	m := broker.Message{Copy: broker.CopyID{Entity: e.entity, ID: id}, MessageID: id}
	if raw := e.fields["Body"]; len(raw) == 0 || raw[0] != '"' {
		return m, fmt.Errorf("SQS message: its body is no string")
	}
	if m.Body, err = textBytes(e.fields["Body"]); err != nil {
		return m, fmt.Errorf("SQS message body: %w", err)
	}
	as, err := e.object("MessageAttributes")
	if err != nil {
		return m, err
	}
	for _, name := range as.names() {
		a, err := sqsAttribute(name, as[name])
		if err != nil {
			return m, err
		}
		m.Attributes = append(m.Attributes, a)
	}
	system, err := e.object("Attributes")
	if err != nil {
		return m, err
	}
	return m, sqsSystem(&m, system)
}

// sqsAttribute reads one typed attribute; a binary value is base64.
func sqsAttribute(name string, raw json.RawMessage) (broker.Attribute, error) {
	o, err := fieldsOf(raw)
	if err != nil {
		return broker.Attribute{}, fmt.Errorf("attribute %q: %w", name, err)
	}
	a := broker.Attribute{Name: name}
	if a.Type, err = o.text("DataType"); err != nil {
		return a, fmt.Errorf("attribute %q: %w", name, err)
	}
	if b := o.any("BinaryValue"); b != nil {
		s, _ := o.text("BinaryValue")
		a.Value, err = base64.StdEncoding.DecodeString(s)
	} else {
		a.Value, err = textBytes(o.any("StringValue"))
	}
	if err != nil {
		return a, fmt.Errorf("attribute %q: %w", name, err)
	}
	return a, nil
}

// sqsSystem reads the attributes that SQS sets. Those with a field of their own
// fill it; all others are kept under their names.
func sqsSystem(m *broker.Message, as fields) error {
	for _, name := range as.names() {
		value, err := as.text(name)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
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
