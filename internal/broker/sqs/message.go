package sqs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// message is what was received, in the contract's form. SQS gives attributes no
// order, so they are sorted by name.
func (q *Queue) message(m types.Message) (broker.Message, error) {
	id := own(m.MessageId)
	out := broker.Message{
		Copy: broker.CopyID{Entity: q.facts.arn, ID: id}, MessageID: id, Body: []byte(text(m.Body)),
	}
	for _, name := range slices.Sorted(maps.Keys(m.MessageAttributes)) {
		v := m.MessageAttributes[name]
		a := broker.Attribute{Name: name, Type: text(v.DataType), Value: v.BinaryValue}
		if v.StringValue != nil {
			a.Value = []byte(*v.StringValue)
		}
		if name == markName && unmark(&out, a.Value) {
			continue
		}
		out.Attributes = append(out.Attributes, a)
	}
	if err := out.SetSQSSystem(m.Attributes); err != nil {
		return out, fmt.Errorf("message %s of %s: %w", id, q.facts.name, err)
	}
	if r := q.facts.retention; r > 0 && !out.SentAt.IsZero() {
		out.ExpiresAt = out.SentAt.Add(r)
	}
	return out, nil
}

// entryOf is a message to send. The attributes keep their types, with whatever
// suffix; of the system attributes only the trace header can be sent.
func entryOf(id string, o broker.Outgoing, fifo bool) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: aws.String(id), MessageBody: aws.String(string(o.Body))}
	if len(o.Attributes) > 0 {
		e.MessageAttributes = map[string]types.MessageAttributeValue{}
	}
	for _, a := range o.Attributes {
		v := types.MessageAttributeValue{DataType: aws.String(a.Type)}
		if isBinary(a.Type) {
			v.BinaryValue = a.Value
		} else {
			v.StringValue = aws.String(string(a.Value))
		}
		e.MessageAttributes[a.Name] = v
	}
	for _, a := range o.System {
		if a.Name == broker.SystemTraceHeader {
			e.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
				a.Name: {DataType: aws.String("String"), StringValue: aws.String(string(a.Value))},
			}
		}
	}
	if o.OrderKey != "" {
		e.MessageGroupId = aws.String(o.OrderKey) // legal on standard queues too
	}
	if fifo {
		e.MessageDeduplicationId = aws.String(o.DedupID)
	} else {
		e.DelaySeconds = int32(wholeSeconds(o.Delay))
	}
	return e
}

func isBinary(attributeType string) bool {
	return attributeType == "Binary" || strings.HasPrefix(attributeType, "Binary.")
}

// wholeSeconds rounds up: a wait is never shorter than was asked.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// sizeOf is what the service counts of a message: body and attributes, the trace
// header left out.
func sizeOf(m broker.Message) int {
	n := len(m.Body)
	for _, a := range m.Attributes {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// markName is the one attribute that Quarantine adds, where the message has room
// for it. It never travels with a redrive.
const markName = "redrivectl.dead_letter"

// mark is why a copy was quarantined, when and from where.
type mark struct {
	Origin  string    `json:"origin"`
	Type    string    `json:"type,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

// marked is a message with the reason of its quarantine beside its own
// attributes, or as it was where there is no room for one more, or not within
// maxBytes.
func marked(m broker.Message, k mark, maxBytes int) (broker.Message, error) {
	value, err := json.Marshal(k)
	if err != nil || len(m.Attributes) >= maxAttributes {
		return m, err
	}
	with := m
	with.Attributes = append(slices.Clone(m.Attributes), broker.Attribute{Name: markName, Type: "String", Value: value})
	if sizeOf(with) > maxBytes {
		return m, nil
	}
	return with, nil
}

// unmark reads a mark back into the message's system attributes; false where it
// is none of ours.
func unmark(m *broker.Message, value []byte) bool {
	var k mark
	if json.Unmarshal(value, &k) != nil || k.Origin == "" {
		return false
	}
	m.Origin = k.Origin
	for _, a := range []struct{ name, value string }{
		{broker.SystemReasonType, k.Type},
		{broker.SystemReasonCode, k.Code},
		{broker.SystemReasonMessage, k.Message},
		{broker.SystemReasonAt, k.At.UTC().Format(time.RFC3339Nano)},
		{broker.SystemQuarantinedBy, broker.QuarantinedByApplication},
	} {
		if a.value != "" {
			m.System = append(m.System, broker.Attribute{Name: a.name, Type: "String", Value: []byte(a.value)})
		}
	}
	return true
}
