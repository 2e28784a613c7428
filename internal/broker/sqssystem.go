package broker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// SetSQSSystem reads the system attributes of an SQS message, which the service and
// its tools print alike. Those with a field of their own fill it; all others are kept
// under their names, sorted, since SQS gives them no order.
func (m *Message) SetSQSSystem(as map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(as)) {
		value := as[name]
		var err error
		switch name {
		case "SentTimestamp":
			m.SentAt, err = ofMillis(value)
		case "ApproximateFirstReceiveTimestamp":
			m.FirstReceivedAt, err = ofMillis(value)
		case "ApproximateReceiveCount":
			m.Receives, err = strconv.Atoi(value)
		case "DeadLetterQueueSourceArn":
			m.Origin = value
		case "MessageGroupId":
			m.OrderKey = value
		default:
			m.System = append(m.System, Attribute{Name: name, Type: "String", Value: []byte(value)})
		}
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	return nil
}

// ofMillis reads a time in milliseconds since 1970.
func ofMillis(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(n).UTC(), nil
}
