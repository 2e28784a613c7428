package job

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// systemText is the system attribute of exactly this name, as text.
func (v view) systemText(name string) string { return attribute(v.system, name) }

// laravel reads a queued job of Laravel. Its exception is not in it: it stands
// beside it in the table of failed jobs.
func laravel(v view, j *Job) bool {
	if !v.obj.isString("displayName") || !v.obj.isString("job") {
		return false
	}
	j.Format, j.Task, j.Kind = "laravel", v.obj.text("displayName"), v.obj.text("displayName")
	setAttempt(j, v.obj.text("attempts"))
	j.Failure = bodyFailure(without(v.obj, "job", "displayName", "data"), v.path)
	return true
}

// sidekiq reads a job of Sidekiq, its error in it. Active Job wraps its own job
// into the first argument.
func sidekiq(v view, j *Job) bool {
	if !v.obj.isString("class") || !v.obj.has("args", "jid") {
		return false
	}
	j.Format, j.Task = "sidekiq", orElse(v.obj.text("wrapped"), v.obj.text("class"))
	var args []json.RawMessage
	if json.Unmarshal(v.obj["args"], &args) == nil && len(args) > 0 {
		j.Task = orElse(asObject(args[0]).text("job_class"), j.Task)
	}
	j.Kind, j.Origin = j.Task, v.obj.text("queue")
	setAttempt(j, v.obj.text("retry_count"))
	at := func(key string) pair { return pair{key, v.obj.text(key), v.path + "." + key} }
	when := at("retried_at")
	if when.text == "" {
		when = at("failed_at")
	}
	j.Failure = compose(at("error_class"), pair{}, at("error_message"), when)
	return true
}

// bullMQ reads what BullMQ keeps beside a job's data.
func bullMQ(v view, j *Job) bool {
	name, attempts := v.systemText("name"), orElse(v.systemText("attemptsMade"), v.systemText("atm"))
	if name == "" || attempts == "" || v.systemText(broker.SystemReasonMessage) == "" {
		return false
	}
	j.Format, j.Task, j.Kind = "bullmq", name, name
	setAttempt(j, attempts)
	return true
}

// asynq reads what asynq keeps beside a task's payload.
func asynq(v view, j *Job) bool {
	task := v.systemText("type")
	if task == "" || v.systemText("retried") == "" || v.systemText("error_msg") == "" {
		return false
	}
	j.Format, j.Task, j.Kind = "asynq", task, task
	setAttempt(j, v.systemText("retried"))
	return true
}

// natsAdvisory reads an advisory of JetStream about a message that it gave up:
// it names the message by its place in the stream.
func natsAdvisory(v view, j *Job) bool {
	typ := v.obj.text("type")
	if !strings.HasPrefix(typ, "io.nats.jetstream.advisory.") || !v.obj.has("stream_seq") {
		return false
	}
	j.Format = "nats-advisory"
	j.Failure = compose(pair{text: lastPart(typ, "."), path: v.path + ".type"}, pair{}, pair{text: v.obj.text("reason"), path: v.path + ".reason"}, pair{text: v.obj.text("timestamp")})
	j.Origin = strings.Trim(v.obj.text("stream")+"/"+v.obj.text("consumer"), "/")
	j.QuarantinedBy = ByApplication
	if j.Failure.Type == "max_deliver" {
		j.QuarantinedBy = ByMaxReceives
	}
	setAttempt(j, v.obj.text("deliveries"))
	j.Redrivable, j.WhyNot = false, "the advisory names the message by its place in the stream and does not hold it"
	return true
}

// pubsub reads what Pub/Sub adds to a copy that it forwards to a dead-letter
// topic: no reason, but where it came from and how often it was delivered.
func pubsub(as []broker.Attribute, j *Job) {
	const source = "CloudPubSubDeadLetterSource"
	subscription := attribute(as, source+"Subscription")
	if subscription == "" {
		return
	}
	j.Origin = orElse(j.Origin, subscription)
	setAttempt(j, attribute(as, source+"DeliveryCount"))
	if j.QuarantinedBy == "" {
		j.QuarantinedBy = ByMaxReceives
	}
}

// rabbitDeaths shows how often RabbitMQ dead-lettered the message from where it
// last was.
func rabbitDeaths(system []broker.Attribute, j *Job) {
	var deaths []object
	if raw := attribute(system, "x-death"); raw != "" && json.Unmarshal([]byte(raw), &deaths) == nil && len(deaths) > 0 {
		setAttempt(j, deaths[0].text("count"))
	}
}

// asDumped marks what the reader of a dump says of an entry: that it could not
// be read, or that a part of the message is missing.
func asDumped(system []broker.Attribute, j *Job) {
	if why := attribute(system, broker.SystemUnreadable); why != "" {
		j.DecodeError = why
		j.Redrivable, j.WhyNot = false, "the entry of the dump cannot be read"
	}
	if why := attribute(system, broker.SystemIncomplete); why != "" {
		j.Redrivable, j.WhyNot = false, why
	}
}
