package dump

import (
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// isNATS recognises a message with its subject, and an advisory of JetStream by
// itself.
func isNATS(o fields) bool {
	typ, err := o.text("type")
	return o.has("subject", "data") || err == nil && strings.HasPrefix(typ, "io.nats.jetstream.advisory.") && o.has("stream")
}

// fromNATS reads a message of NATS. Data that comes with a place in a stream is
// base64, as the server's API gives it; else it is the text itself.
func fromNATS(e entry) (broker.Message, error) {
	m := broker.Message{Copy: broker.CopyID{Entity: e.entity, ID: e.place()}}
	var err error
	switch {
	case !e.has("subject", "data"):
		m.Body = e.raw
	case e.has("seq"):
		m.Body, err = e.decoded("data")
	default:
		m.Body, err = textBytes(e.fields["data"])
	}
	if err != nil {
		return m, err
	}
	var sent, subject string
	if err := texts(e.fields, map[*string]string{&m.MessageID: "id", &subject: "subject", &sent: "time"}); err != nil {
		return m, err
	}
	m.SentAt = timeOf(sent)
	if seq, err := e.text("seq"); err != nil || seq != "" {
		m.Copy.ID = seq
	}
	if m.MessageID == "" {
		m.MessageID = m.Copy.ID
	}
	mark(&m, "subject", subject)
	headers, err := e.object("headers")
	if err != nil {
		return m, err
	}
	m.Attributes, err = headers.attributes(nil)
	return m, err
}
