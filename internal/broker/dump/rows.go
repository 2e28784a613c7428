package dump

import (
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// isRow recognises a row of a table of failed jobs, with "row" around it or not.
func isRow(o fields) bool {
	if raw := o.any("row"); raw != nil {
		return raw[0] == '{'
	}
	return isFailedJob(o) || isDoctrine(o)
}

func isFailedJob(o fields) bool {
	return o.has("payload", "exception") && (o.has("failed_at") || o.has("connection"))
}

func isDoctrine(o fields) bool { return o.has("body", "headers", "queue_name") }

func fromRow(e entry) (broker.Message, error) {
	if e.any("row") != nil {
		o, err := fieldsOf(e.fields["row"])
		if err != nil {
			return broker.Message{}, err
		}
		e.fields = o
	}
	switch {
	case isFailedJob(e.fields):
		return fromFailedJob(e)
	case isDoctrine(e.fields):
		return fromDoctrine(e)
	}
	return broker.Message{}, errShape
}

// fromFailedJob reads a row of Laravel's failed_jobs: the payload is the body,
// and the exception is kept by the framework beside it.
func fromFailedJob(e entry) (broker.Message, error) {
	var m broker.Message
	var exception, failed, connection string
	err := texts(e.fields, map[*string]string{&m.Copy.ID: "id", &m.MessageID: "uuid", &m.Origin: "queue", &exception: "exception", &failed: "failed_at", &connection: "connection"})
	if err != nil {
		return m, err
	}
	named(&m, e)
	if m.Body, err = textBytes(e.fields["payload"]); err != nil {
		return m, err
	}
	typ, message := phpException(exception)
	mark(&m, "connection", connection)
	mark(&m, broker.SystemReasonType, typ)
	mark(&m, broker.SystemReasonMessage, message)
	mark(&m, broker.SystemReasonAt, stamp(timeOf(failed)))
	mark(&m, broker.SystemQuarantinedBy, broker.QuarantinedByApplication)
	return m, nil
}

// named fills the names of a copy where the row has none.
func named(m *broker.Message, e entry) {
	m.Copy.Entity = e.entity
	if m.Copy.ID == "" {
		m.Copy.ID = m.MessageID
	}
	if m.Copy.ID == "" {
		m.Copy.ID = e.place()
	}
	if m.MessageID == "" {
		m.MessageID = m.Copy.ID
	}
}

var phpClass = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\\?[A-Za-z_][\w\\]*$`) })

// phpException splits an exception as PHP prints it: class, colon, message. Of
// stacked ones PHP prints the innermost first.
func phpException(text string) (typ, message string) {
	class, rest, ok := strings.Cut(text, ":")
	if !ok {
		class, rest, _ = strings.Cut(text, " in /")
	}
	if !phpClass().MatchString(class) {
		return "", text
	}
	inner, _, _ := strings.Cut(rest, "\n\nNext ")
	return class, strings.TrimSpace(inner)
}

// fromDoctrine reads a row of Symfony's failure transport in a database. Its
// headers are the message's attributes.
func fromDoctrine(e entry) (broker.Message, error) {
	var m broker.Message
	var created, headers string
	err := texts(e.fields, map[*string]string{&m.Copy.ID: "id", &created: "created_at", &headers: "headers"})
	if err != nil {
		return m, err
	}
	named(&m, e)
	m.SentAt = timeOf(created)
	if m.Body, err = textBytes(e.fields["body"]); err != nil {
		return m, err
	}
	if trimmed := strings.TrimSpace(headers); trimmed == "" || trimmed == "[]" {
		return m, nil // PHP's empty map
	}
	if !validObject(headers) {
		return m, errors.New("headers: no JSON object")
	}
	o, err := fieldsOf([]byte(strings.TrimSpace(headers)))
	if err != nil {
		return m, err
	}
	m.Attributes, err = o.attributes(nil)
	return m, err
}
