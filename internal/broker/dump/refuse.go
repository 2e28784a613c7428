package dump

import (
	"encoding/json"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Bounds on what waits until a file is known to be a dump.
const (
	maxWaiting      = 1000
	maxWaitingBytes = MaxRecord
)

// refused is an entry that cannot be read, while it waits.
type refused struct {
	message broker.Message
	err     error
}

// deliver hands on a message, after those that waited for the first one.
func (d *reader) deliver(m broker.Message) error {
	d.known = true
	if err := d.release(); err != nil {
		return err
	}
	return d.hand(m)
}

func (d *reader) hand(m broker.Message) error {
	d.index++
	return d.each(m)
}

// refuse deals with an entry that cannot be read. It waits for one that can be,
// since that proves that the file is a dump.
func (d *reader) refuse(raw []byte, entity string, o fields, why error) error {
	u := &Unreadable{Index: d.index + len(d.waiting), Offset: d.offset(), Err: why}
	if !d.lenient {
		return u
	}
	m := unreadable(entry{o, raw, entity, u.Index}, why)
	if d.known {
		return d.hand(m)
	}
	if d.held += len(raw); len(d.waiting) == maxWaiting || d.held > maxWaitingBytes {
		return d.waiting[0].err
	}
	d.waiting = append(d.waiting, refused{m, u})
	return nil
}

// release hands on what waited.
func (d *reader) release() error {
	waited := d.waiting
	d.waiting, d.held = nil, 0
	for _, w := range waited {
		if err := d.hand(w.message); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is the message that stands for an entry that cannot be read, by the
// name that it has, if it has one.
func unreadable(e entry, why error) broker.Message {
	m := broker.Message{Copy: broker.CopyID{Entity: e.entity, ID: e.place()}, MessageID: e.place(), Body: append(json.RawMessage{}, e.raw...)}
	if id, err := e.text("MessageId", "messageId", "message_id", "uuid", "jid", "id"); err == nil && id != "" && len(id) <= 128 {
		m.MessageID = id
	}
	mark(&m, broker.SystemUnreadable, why.Error())
	return m
}
