package local

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// messageColumns are what scanMessage reads. The attributes come with the row as
// one JSON text, values in hexadecimal, so that a copy is always read whole.
const messageColumns = `
	id, queue, message_id, origin, order_key, body, raw_format, raw,
	receives, sent_at, first_received_at, expires_at,
	(SELECT json_group_array(json_array(system, name, type, hex(value)) ORDER BY system, position)
	   FROM attribute WHERE attribute.message = message.id)`

func scanMessage(row interface{ Scan(...any) error }) (broker.Message, error) {
	var m broker.Message
	var id int64
	var sent, first, expires sql.NullInt64
	var attributes string
	err := row.Scan(&id, &m.Copy.Entity, &m.MessageID, &m.Origin, &m.OrderKey, &m.Body, &m.RawFormat, &m.Raw,
		&m.Receives, &sent, &first, &expires, &attributes)
	if err != nil {
		return m, err
	}
	m.Copy.ID = strconv.FormatInt(id, 10)
	m.SentAt, m.FirstReceivedAt, m.ExpiresAt = fromMillis(sent), fromMillis(first), fromMillis(expires)
	if err := scanAttributes(attributes, &m); err != nil {
		return m, fmt.Errorf("attributes of copy %s: %w", m.Copy, err)
	}
	return m, nil
}

func scanAttributes(text string, m *broker.Message) error {
	if text == "[]" {
		return nil
	}
	var rows []attributeRow
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return err
	}
	for _, r := range rows {
		if r.system {
			m.System = append(m.System, r.Attribute)
		} else {
			m.Attributes = append(m.Attributes, r.Attribute)
		}
	}
	return nil
}

// attributeRow is one element of the JSON text: system, name, type, hex value.
type attributeRow struct {
	broker.Attribute
	system bool
}

// UnmarshalJSON reads the four-element array.
func (a *attributeRow) UnmarshalJSON(b []byte) error {
	var system int
	var value string
	err := json.Unmarshal(b, &[4]any{&system, &a.Name, &a.Type, &value})
	if err != nil {
		return err
	}
	a.system = system == 1
	a.Value, err = hex.DecodeString(value)
	return err
}

// size is what a queue's maximum bounds: all that the sender set, but not the
// system attributes, as in SQS.
func size(m broker.Message) int {
	n := len(m.Body) + len(m.Raw)
	for _, a := range m.Attributes {
		n += len(a.Name) + len(a.Type) + len(a.Value)
	}
	return n
}

// bytesOrEmpty makes nil an empty BLOB, since nil is bound as NULL.
func bytesOrEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
