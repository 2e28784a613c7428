package dump

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

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
	object, err := e.object("Attributes")
	if err != nil {
		return m, err
	}
	system := make(map[string]string, len(object))
	for _, name := range object.names() {
		if system[name], err = object.text(name); err != nil {
			return m, fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return m, m.SetSQSSystem(system)
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
