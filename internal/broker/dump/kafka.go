package dump

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func isKafka(o fields) bool { return o.has("topic", "partition", "offset") }

// kafkaType is the type of every header: Kafka knows bytes alone.
const kafkaType = "Binary"

// fromKafka reads a record: with its bytes in base64 ("value_base64"), as text
// ("value"), or as kcat -J prints it ("payload"). A copy is named by topic,
// partition and offset.
func fromKafka(e entry) (broker.Message, error) {
	var topic, partition, offset string
	err := texts(e.fields, map[*string]string{&topic: "topic", &partition: "partition", &offset: "offset"})
	if err != nil {
		return broker.Message{}, err
	}
	m := broker.Message{Copy: broker.CopyID{Entity: topic, ID: partition + "/" + offset}}
	m.MessageID = m.Copy.String()
	if m.Body, err = kafkaBytes(e.fields, "value", "payload"); err != nil {
		return m, err
	}
	key, err := kafkaBytes(e.fields, "key")
	if err != nil {
		return m, err
	}
	m.OrderKey = string(key)
	sent, err := e.text("timestamp", "ts")
	if err != nil {
		return m, err
	}
	m.SentAt = timeOf(sent)
	m.Attributes, err = kafkaHeaders(e.any("headers"))
	return m, err
}

// kafkaBytes is a key or a value: base64 under NAME_base64, else the text or the
// JSON under the name itself. What a tool decoded from Avro is not the record's
// own bytes.
func kafkaBytes(o fields, names ...string) ([]byte, error) {
	for _, name := range names {
		if o.any(name+"_base64") != nil {
			return o.decoded(name + "_base64")
		}
		if o.any(name+"_schema_id") != nil {
			return nil, fmt.Errorf("%s: decoded by its schema, so its own bytes are not in the dump", name)
		}
		if raw := o.any(name); raw != nil {
			return textBytes(raw)
		}
	}
	return nil, nil
}

// kafkaHeaders reads headers in order: a list of objects, a flat list of names
// and values, or an object of lists. The last two are kcat's.
func kafkaHeaders(raw json.RawMessage) ([]broker.Attribute, error) {
	if raw == nil {
		return nil, nil
	}
	if raw[0] == '{' {
		return kafkaHeaderMap(raw)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	var as []broker.Attribute
	if len(list) > 0 && list[0][0] == '{' {
		for _, raw := range list {
			a, err := kafkaHeader(raw)
			if err != nil {
				return nil, err
			}
			as = append(as, a)
		}
		return as, nil
	}
	if len(list)%2 != 0 {
		return nil, errors.New("headers: a name without a value")
	}
	for i := 0; i < len(list); i += 2 {
		name, err := textBytes(list[i])
		if err != nil {
			return nil, err
		}
		value, err := textBytes(list[i+1])
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		as = append(as, broker.Attribute{Name: string(name), Type: kafkaType, Value: value})
	}
	return as, nil
}

func kafkaHeader(raw json.RawMessage) (broker.Attribute, error) {
	o, err := fieldsOf(raw)
	if err != nil {
		return broker.Attribute{}, fmt.Errorf("headers: %w", err)
	}
	name, err := o.text("key", "name")
	if err != nil {
		return broker.Attribute{}, err
	}
	value, err := kafkaBytes(o, "value")
	if err != nil {
		return broker.Attribute{}, fmt.Errorf("header %q: %w", name, err)
	}
	return broker.Attribute{Name: name, Type: kafkaType, Value: value}, nil
}

func kafkaHeaderMap(raw json.RawMessage) ([]broker.Attribute, error) {
	o, err := fieldsOf(raw)
	if err != nil {
		return nil, err
	}
	var as []broker.Attribute
	for _, name := range o.names() {
		values := []json.RawMessage{o[name]}
		if o[name][0] == '[' {
			if err := json.Unmarshal(o[name], &values); err != nil {
				return nil, err
			}
		}
		for _, raw := range values {
			value, err := textBytes(raw)
			if err != nil {
				return nil, fmt.Errorf("header %q: %w", name, err)
			}
			as = append(as, broker.Attribute{Name: name, Type: kafkaType, Value: value})
		}
	}
	return as, nil
}
