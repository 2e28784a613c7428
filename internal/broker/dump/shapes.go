package dump

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// maxLevels bounds lists and wrappers around one another.
const maxLevels = 4

var errShape = errors.New("not the form of a message as a broker's tool prints it, nor of an export")

// entry is one message of a dump before it is read: its members, its bytes, the
// queue that a wrapper around it names, and its place in the dump from 0.
type entry struct {
	fields
	raw    json.RawMessage
	entity string
	index  int
}

// place stands for an ID where the tool prints none.
func (e entry) place() string { return fmt.Sprintf("#%d", e.index) }

// shape is one form of a message: what it is recognised by, and its reader.
type shape struct {
	is   func(fields) bool
	read func(entry) (broker.Message, error)
}

// shapes are in the order in which they are tried: the more a form says of
// itself, the earlier.
func shapes() []shape {
	return []shape{
		{func(o fields) bool { return o.has("record") }, func(e entry) (broker.Message, error) { return fromRecord(e.raw) }},
		{isServiceBus, fromServiceBus},
		{isSQS, fromSQS},
		{isPubSub, fromPubSub},
		{isRabbitMQ, fromRabbitMQ},
		{isKafka, fromKafka},
		{isRow, fromRow},
		{isRedis, fromRedis},
		{isNATS, fromNATS},
	}
}

// read makes a message of an entry in the first form that fits.
func (e entry) read() (broker.Message, error) {
	for _, s := range shapes() {
		if s.is(e.fields) {
			return s.read(e)
		}
	}
	return broker.Message{}, errShape
}

// listKeys hold a list of messages, in the order in which they are looked for.
var listKeys = []string{"Messages", "messages", "receivedMessages", "received_messages", "rows"}

// listOf is the list of messages that an object holds.
func (o fields) listOf() ([]json.RawMessage, bool) {
	for _, key := range listKeys {
		var list []json.RawMessage
		if raw := o[key]; len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
			return list, true
		}
	}
	return nil, false
}

// take hands on one value: a message, a list of them, or a wrapper around either
// that names the queue.
func (d *reader) take(raw json.RawMessage, entity string, levels int) error {
	o, err := fieldsOf(raw)
	if err != nil || levels == 0 {
		return d.refuse(raw, entity, o, cmp.Or(err, errShape))
	}
	if _, last, err := asTrailer(raw); last {
		return err // of an export: it counts the messages before it and is none
	}
	if list, ok := o.listOf(); ok {
		for _, raw := range list {
			if err := d.take(raw, entity, levels-1); err != nil {
				return err
			}
		}
		return nil
	}
	if o.has("message") && (o.has("broker") || o.has("queue")) {
		queue, err := o.text("queue")
		if err != nil {
			return d.refuse(raw, entity, o, err)
		}
		return d.take(o["message"], queue, levels-1)
	}
	m, err := entry{o, raw, entity, d.index}.read()
	if err != nil {
		return d.refuse(raw, entity, o, err)
	}
	return d.deliver(m)
}
