package dump

import (
	"encoding/json"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func isRedis(o fields) bool {
	if raw := o.any("hash", "decoded_proto"); raw != nil && raw[0] == '{' {
		return true
	}
	return o.has("zset_member") || isSidekiq(o)
}

func isSidekiq(o fields) bool { return o.has("class", "args", "jid") }

// fromRedis reads a failed job of a queue in Redis: a member of a sorted set or
// a line of Sidekiq's, a hash of BullMQ's, or a decoded task of asynq's.
func fromRedis(e entry) (broker.Message, error) {
	switch {
	case e.any("decoded_proto") != nil:
		return fromAsynq(e)
	case e.any("hash") != nil:
		return fromBullMQ(e)
	}
	return fromSidekiq(e)
}

func validObject(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "{") && json.Valid([]byte(s))
}

// fromSidekiq keeps the member as it is: Sidekiq's whole job, its error in it.
func fromSidekiq(e entry) (broker.Message, error) {
	m := broker.Message{Body: e.raw}
	if e.has("zset_member") {
		member, err := textBytes(e.fields["zset_member"])
		if err != nil {
			return m, err
		}
		m.Body = member
	}
	if validObject(string(m.Body)) {
		// A member with a key twice is still a member.
		if o, err := fieldsOf(json.RawMessage(strings.TrimSpace(string(m.Body)))); err == nil {
			var enqueued string
			if err := texts(o, map[*string]string{&m.MessageID: "jid", &m.Origin: "queue", &enqueued: "created_at"}); err != nil {
				return m, err
			}
			m.SentAt = timeOf(enqueued)
			if retries, err := o.count("retry_count"); err == nil && o.has("retry_count") {
				m.Receives = retries + 1
			}
		}
	}
	named(&m, e)
	score, err := e.text("score")
	if err != nil {
		return m, err
	}
	mark(&m, broker.SystemReasonAt, stamp(timeOf(score))) // when it was moved to the set
	mark(&m, broker.SystemQuarantinedBy, broker.QuarantinedByApplication)
	return m, nil
}

// fromBullMQ takes a job's data as the body; all else in the hash is BullMQ's
// own.
func fromBullMQ(e entry) (broker.Message, error) {
	var m broker.Message
	o, err := e.object("hash")
	if err != nil {
		return m, err
	}
	if m.Body, err = textBytes(o["data"]); err != nil {
		return m, err
	}
	if m.System, err = o.attributes(func(name string) bool { return name == "data" }); err != nil {
		return m, err
	}
	var key, reason, at, sent string
	if err := texts(o, map[*string]string{&reason: "failedReason", &at: "finishedOn", &sent: "timestamp"}); err != nil {
		return m, err
	}
	if key, err = e.text("key"); err != nil {
		return m, err
	}
	if parts := strings.Split(key, ":"); len(parts) >= 3 { // prefix, queue, job
		m.MessageID, m.Origin = parts[len(parts)-1], strings.Join(parts[1:len(parts)-1], ":")
	}
	if m.Receives, err = o.count("attemptsMade", "atm"); err != nil {
		return m, err
	}
	m.SentAt = timeOf(sent)
	named(&m, e)
	mark(&m, broker.SystemReasonMessage, reason)
	mark(&m, broker.SystemReasonAt, stamp(timeOf(at)))
	mark(&m, broker.SystemQuarantinedBy, broker.QuarantinedByApplication)
	return m, nil
}

// fromAsynq takes a task's payload as the body; all else is asynq's own.
func fromAsynq(e entry) (broker.Message, error) {
	var m broker.Message
	o, err := e.object("decoded_proto")
	if err != nil {
		return m, err
	}
	if m.Body, err = kafkaBytes(o, "payload"); err != nil {
		return m, err
	}
	if m.System, err = o.attributes(func(name string) bool { return strings.HasPrefix(name, "payload") }); err != nil {
		return m, err
	}
	var reason, at string
	if err := texts(o, map[*string]string{&m.MessageID: "id", &m.Origin: "queue", &reason: "error_msg", &at: "last_failed_at"}); err != nil {
		return m, err
	}
	retried, err := o.count("retried")
	if err != nil {
		return m, err
	}
	m.Receives = retried + 1 // a retry comes after a first try
	named(&m, e)
	mark(&m, broker.SystemReasonMessage, reason)
	mark(&m, broker.SystemReasonAt, stamp(timeOf(at)))
	mark(&m, broker.SystemQuarantinedBy, broker.QuarantinedByApplication)
	return m, nil
}
