package dump

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func isServiceBus(o fields) bool {
	f := o.folded()
	if !f.has("body") && !f.has("data") {
		return false
	}
	for _, k := range []string{"sequencenumber", "enqueuedsequencenumber", "enqueuedtimeutc", "deadletterreason", "locktoken", "applicationproperties"} {
		if f.has(k) {
			return true
		}
	}
	return false
}

// fromServiceBus reads a message as the SDKs and explorers of Service Bus print
// it, with names in any case. Sequence numbers stay text: they exceed 2^53.
func fromServiceBus(e entry) (broker.Message, error) {
	o := e.folded()
	var m broker.Message
	err := texts(o, map[*string]string{&m.MessageID: "messageid", &m.Copy.ID: "sequencenumber", &m.Origin: "deadlettersource", &m.OrderKey: "sessionid"})
	if err != nil {
		return m, err
	}
	m.Copy.Entity = e.entity
	if m.Copy.ID == "" {
		m.Copy.ID = e.place()
	}
	if m.Body, err = serviceBusBody(o.any("body", "data")); err != nil {
		return m, err
	}
	if m.Receives, err = o.count("deliverycount"); err != nil {
		return m, err
	}
	sent, err := o.text("enqueuedtimeutc", "enqueuedtime")
	if err != nil {
		return m, err
	}
	m.SentAt = timeOf(sent)
	if source, ok := cutSuffixFold(e.entity, "/$deadletterqueue"); ok && m.Origin == "" {
		m.Origin = source
	}
	properties, err := serviceBusProperties(o.any("applicationproperties", "userproperties", "properties"))
	if err != nil {
		return m, err
	}
	if m.Attributes, err = properties.attributes(setOnDeadLettering); err != nil {
		return m, err
	}
	return m, serviceBusDeath(&m, o, properties)
}

// texts reads several texts at once.
func texts(o fields, into map[*string]string) error {
	for p, key := range into {
		s, err := o.text(key)
		if err != nil {
			return fmt.Errorf("field %q: %w", key, err)
		}
		*p = s
	}
	return nil
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// serviceBusBody is a body that is printed as text, as the JSON that it is, or
// as the bytes of a Node.js buffer.
func serviceBusBody(raw json.RawMessage) ([]byte, error) {
	var buffer struct {
		Type string `json:"type"`
		Data []int  `json:"data"`
	}
	if len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &buffer) == nil && buffer.Type == "Buffer" {
		b := make([]byte, len(buffer.Data))
		for i, n := range buffer.Data {
			if n < 0 || n > 255 {
				return nil, fmt.Errorf("body: %d is no byte", n)
			}
			b[i] = byte(n)
		}
		return b, nil
	}
	return textBytes(raw)
}

// serviceBusProperties are an object, or a list of keys and values.
func serviceBusProperties(raw json.RawMessage) (fields, error) {
	if isNull(raw) || raw[0] == '{' {
		return fields{"p": raw}.object("p")
	}
	var list []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("properties: %w", err)
	}
	o := fields{}
	for _, p := range list {
		o[p.Key] = p.Value
	}
	return o, nil
}

// setOnDeadLettering reports whether a property is one of the two that come
// with dead-lettering and are never the sender's.
func setOnDeadLettering(name string) bool {
	return name == "DeadLetterReason" || name == "DeadLetterErrorDescription"
}

// serviceBusReasons are the reasons that Service Bus itself gives, and by whom
// the copy was then quarantined.
var serviceBusReasons = map[string]string{
	"MaxDeliveryCountExceeded":        broker.QuarantinedByMaxReceives,
	"TTLExpiredException":             broker.QuarantinedByBroker,
	"HeaderSizeExceeded":              broker.QuarantinedByBroker,
	"MaxTransferHopCountExceeded":     broker.QuarantinedByBroker,
	"Session ID is null":              broker.QuarantinedByBroker,
	"FilterEvaluationException":       broker.QuarantinedByBroker,
	"AutoForwardingFailed":            broker.QuarantinedByBroker,
	"DestinationMessagingEntityError": broker.QuarantinedByBroker,
}

// serviceBusDeath reads why the copy was dead-lettered, and keeps what the
// sender said of the message beside its properties.
func serviceBusDeath(m *broker.Message, o, properties fields) error {
	reason, err := firstText(o, "deadletterreason", properties, "DeadLetterReason")
	if err != nil {
		return err
	}
	description, err := firstText(o, "deadlettererrordescription", properties, "DeadLetterErrorDescription")
	if err != nil {
		return err
	}
	mark(m, broker.SystemReasonType, reason)
	mark(m, broker.SystemReasonMessage, description)
	if by, own := serviceBusReasons[reason]; own {
		mark(m, broker.SystemQuarantinedBy, by)
	} else if reason != "" {
		mark(m, broker.SystemQuarantinedBy, broker.QuarantinedByApplication)
	}
	for key, name := range map[string]string{"contenttype": "content_type", "subject": "subject", "label": "subject", "correlationid": "correlation_id", "to": "to", "replyto": "reply_to"} {
		value, err := o.text(key)
		if err != nil {
			return err
		}
		mark(m, name, value)
	}
	sortSystem(m)
	return nil
}

func firstText(o fields, key string, other fields, otherKey string) (string, error) {
	s, err := o.text(key)
	if s != "" || err != nil {
		return s, err
	}
	return other.text(otherKey)
}
