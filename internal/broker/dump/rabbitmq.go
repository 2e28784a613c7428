package dump

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func isRabbitMQ(o fields) bool {
	return o.has("payload") && (o.has("routing_key") || o.has("exchange") || o.has("payload_encoding"))
}

// fromRabbitMQ reads a message as the management API and rabbitmqadmin print it.
// RabbitMQ gives a copy no name of its own: its place in the dump stands for it.
func fromRabbitMQ(e entry) (broker.Message, error) {
	m := broker.Message{Copy: broker.CopyID{Entity: e.entity, ID: e.place()}}
	properties, err := e.object("properties")
	if err != nil {
		return m, err
	}
	headers, err := properties.object("headers")
	if err != nil {
		return m, err
	}
	if m.Body, err = rabbitBody(e.fields); err != nil {
		return m, err
	}
	if m.Attributes, err = headers.attributes(setByRabbitMQ); err != nil {
		return m, err
	}
	if m.System, err = properties.attributes(func(name string) bool { return name == "headers" }); err != nil {
		return m, err
	}
	if m.MessageID, err = properties.text("message_id"); err != nil {
		return m, err
	}
	if m.MessageID == "" {
		m.MessageID = m.Copy.ID
	}
	sent, err := properties.text("timestamp")
	if err != nil {
		return m, err
	}
	m.SentAt = timeOf(sent)
	if err := rabbitDeath(&m, headers); err != nil {
		return m, err
	}
	if err := rabbitWhole(&m, e.fields); err != nil {
		return m, err
	}
	sortSystem(&m)
	return m, nil
}

func sortSystem(m *broker.Message) {
	slices.SortStableFunc(m.System, func(x, y broker.Attribute) int { return strings.Compare(x.Name, y.Name) })
}

func rabbitBody(o fields) ([]byte, error) {
	encoding, err := o.text("payload_encoding")
	if err != nil {
		return nil, err
	}
	body, err := o.text("payload")
	if err != nil || encoding != "base64" {
		return []byte(body), err
	}
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("field \"payload\": %w", err)
	}
	return b, nil
}

// rabbitWhole marks a body of which the tool printed only the beginning, as it
// does when it is told to truncate.
func rabbitWhole(m *broker.Message, o fields) error {
	if o.any("payload_bytes") == nil {
		return nil
	}
	n, err := o.count("payload_bytes")
	if err == nil && n > len(m.Body) {
		mark(m, broker.SystemIncomplete, fmt.Sprintf("the dump has %d of the body's %d bytes", len(m.Body), n))
	}
	return err
}

// setByRabbitMQ reports whether a header is one that the broker writes when it
// dead-letters or counts deliveries.
func setByRabbitMQ(name string) bool {
	return name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// death is one entry of the header x-death: how often a queue dead-lettered the
// message for one reason. The newest stands first.
type death struct {
	Reason   string      `json:"reason"`
	Queue    string      `json:"queue"`
	Exchange string      `json:"exchange"`
	Count    int         `json:"count"`
	Time     json.Number `json:"time"`
}

// rabbitDeath reads where the message was dead-lettered, and why the broker says
// it was: rejected, expired, maxlen or delivery_limit. The reason counts only
// with the death that it is of.
func rabbitDeath(m *broker.Message, headers fields) error {
	kept, err := headers.attributes(func(name string) bool { return !setByRabbitMQ(name) })
	if err != nil {
		return err
	}
	m.System = append(m.System, kept...)
	var deaths []death
	if raw := headers.any("x-death"); raw != nil {
		if err := json.Unmarshal(raw, &deaths); err != nil {
			return fmt.Errorf("header x-death: %w", err)
		}
	}
	first, err := headers.text("x-first-death-reason")
	if err != nil {
		return err
	}
	if m.Origin, err = headers.text("x-last-death-queue", "x-first-death-queue"); err != nil {
		return err
	}
	if len(deaths) > 0 {
		m.Origin = deaths[0].Queue
		mark(m, broker.SystemReasonAt, stamp(timeOf(deaths[0].Time.String())))
	}
	if len(deaths) == 0 && m.Origin == "" {
		return rabbitReceives(m, headers, nil)
	}
	reason := deathReason(first, deaths)
	mark(m, broker.SystemReasonType, reason)
	mark(m, broker.SystemQuarantinedBy, map[string]string{
		"rejected": broker.QuarantinedByApplication, "delivery_limit": broker.QuarantinedByMaxReceives,
		"expired": broker.QuarantinedByBroker, "maxlen": broker.QuarantinedByBroker,
	}[reason])
	return rabbitReceives(m, headers, deaths)
}

// deathReason is the first death's. Expiry is how delayed retries are made, so
// it is the reason only where the message died of nothing else.
func deathReason(first string, deaths []death) string {
	if first == "" && len(deaths) > 0 {
		first = deaths[len(deaths)-1].Reason
	}
	if first != "expired" {
		return first
	}
	for _, d := range deaths {
		if d.Reason != "" && d.Reason != first {
			return d.Reason
		}
	}
	return first
}

// rabbitReceives counts the deliveries that the broker knows of: its own count,
// or that of rejections.
func rabbitReceives(m *broker.Message, headers fields, deaths []death) error {
	for _, d := range deaths {
		if d.Count < 0 {
			return errors.New("header x-death: a negative count")
		}
		if d.Reason == "rejected" || d.Reason == "delivery_limit" {
			m.Receives += d.Count
		}
	}
	for _, name := range []string{"x-delivery-count", "x-acquired-count"} {
		text, err := headers.text(name)
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(text); err == nil {
			m.Receives = max(m.Receives, n)
		}
	}
	return nil
}
