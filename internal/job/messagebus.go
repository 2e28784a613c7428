package job

import (
	"encoding/binary"
	"regexp"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// headers are the recognisers of frameworks that leave the message as it was and
// write into its attributes why it stopped.
func headers() []recogniser {
	return []recogniser{massTransit, nServiceBus, rebus, springAMQP, springKafka, kafkaConnect}
}

// framework runs the recognisers of headers alone.
func framework(v view, j *Job) bool {
	for _, recognise := range headers() {
		if recognise(v, j) {
			return true
		}
	}
	return false
}

// header is an attribute of exactly this name, as text with its path.
func (v view) header(name string) pair {
	for _, a := range v.attrs {
		if a.Name == name {
			return pair{name, string(a.Value), attrField(a)}
		}
	}
	return pair{}
}

// massTransit reads what MassTransit writes when it moves a message to _error or
// _skipped. A skipped message has no consumer there, and would be skipped again.
func massTransit(v view, j *Job) bool {
	reason, typ := v.header("MT-Reason"), v.header("MT-Fault-ExceptionType")
	if reason.text == "" && typ.text == "" {
		return false
	}
	j.Format, j.QuarantinedBy = "masstransit", ByApplication
	j.Kind = orElse(j.Kind, firstText(v.obj["messageType"]))
	j.Origin = v.header("MT-Fault-InputAddress").text
	setAttempt(j, v.header("MT-Fault-RetryCount").text)
	if typ.text == "" && v.header("MT-Fault-Message").text == "" {
		j.Failure = compose(reason, pair{}, pair{}, pair{})
		if reason.text == "dead-letter" {
			j.Format, j.Failure.Signal = "masstransit-skipped", SignalUnsupported
			j.Redrivable, j.WhyNot = false, "no consumer of the queue takes this type of message, so it would be skipped again"
		}
		return true
	}
	j.Failure = compose(typ, pair{}, v.header("MT-Fault-Message"), v.header("MT-Fault-Timestamp"))
	j.Failure = deeper(j.Failure, v.header("MT-Fault-StackTrace"))
	return true
}

// nServiceBus reads the headers of NServiceBus's error queue. The inner
// exception names the type where it says something, or where the outer one is
// only a wrapper.
func nServiceBus(v view, j *Job) bool {
	const info = "NServiceBus.ExceptionInfo."
	typ, inner, message := v.header(info+"ExceptionType"), v.header(info+"InnerExceptionType"), v.header(info+"Message")
	failedQ := v.header("NServiceBus.FailedQ")
	if typ.text == "" && failedQ.text == "" {
		return false
	}
	j.Format, j.QuarantinedBy, j.Origin = "nservicebus", ByApplication, failedQ.text
	kind, _, _ := strings.Cut(v.header("NServiceBus.EnclosedMessageTypes").text, ",")
	j.Kind = orElse(j.Kind, kind)
	if inner.text != "" && (isWrapper(typ.text) || says(inner.text, "")) {
		typ = inner
	}
	j.Failure = compose(typ, pair{}, message, v.header("NServiceBus.TimeOfFailure"))
	j.Failure = deeper(j.Failure, v.header(info+"StackTrace"))
	return true
}

// rebusError matches the beginning of one error in Rebus's list: a time with its
// offset, then the exception as .NET prints it.
var rebusError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)[+-]\d{2}:?\d{2}: ((?:[\w+]+\.)+[A-Z][\w+]*|[A-Z]\w*(?:Exception|Error))(?: \(\w+\))?(?::|$)`)
})

// rebus reads the prose that Rebus leaves in a header: the errors of all tries,
// the last of which counts.
func rebus(v view, j *Job) bool {
	details := v.header("rbs2-error-details")
	if details.text == "" {
		return false
	}
	j.Format, j.QuarantinedBy, j.Origin = "rebus", ByApplication, v.header("rbs2-source-queue").text
	kind, _, _ := strings.Cut(v.header("rbs2-msg-type").text, ",")
	j.Kind = orElse(j.Kind, kind)
	text := tail(details.text, maxText)
	if all := rebusError().FindAllStringSubmatchIndex(text, -1); len(all) > 0 {
		text = text[all[len(all)-1][2]:]
	} else if _, after, ok := strings.Cut(text, "unhandled exceptions: "); ok {
		text = after
	}
	typ, message := innermost(text)
	j.Failure = compose(pair{text: typ, path: details.path}, pair{}, pair{text: message, path: details.path}, pair{})
	return true
}

// springAMQP reads what Spring's recoverers add when they publish a message
// anew. Their own exception is always outermost; the trace holds the cause.
func springAMQP(v view, j *Job) bool {
	trace, message := v.header("x-exception-stacktrace"), v.header("x-exception-message")
	exchange, key := v.header("x-original-exchange"), v.header("x-original-routingKey")
	if trace.text == "" && message.text == "" || trace.text == "" && exchange.name == "" && key.name == "" {
		return false
	}
	j.Format, j.QuarantinedBy = "spring-amqp", ByApplication
	j.Origin = orElse(strings.Trim(exchange.text+"/"+key.text, "/"), v.header("x-original-topic").text)
	j.Failure = deeper(compose(v.header("x-exception-fqcn"), pair{}, message, pair{}), trace)
	return true
}

// springKafka reads the headers of Spring's dead-letter topics and retry topics.
// The exception is the listener's wrapper; its cause has a header of its own.
func springKafka(v view, j *Job) bool {
	at := func(name string) pair {
		if p := v.header("kafka_dlt-" + name); p.text != "" {
			return p
		}
		return v.header("kafka_" + name)
	}
	outer, cause, message := at("exception-fqcn"), at("exception-cause-fqcn"), at("exception-message")
	if outer.text == "" && cause.text == "" && message.text == "" {
		return false
	}
	j.Format, j.QuarantinedBy, j.Origin = "spring-kafka", ByApplication, at("original-topic").text
	setAttempt(j, bigEndian(v.header("kafka_deliveryAttempt").text))
	setAttempt(j, bigEndian(v.header("retry_topic-attempts").text))
	if cause.text == "" {
		cause = outer
	}
	j.Failure = deeper(compose(cause, pair{}, message, pair{}), at("exception-stacktrace"))
	return true
}

// bigEndian is a number of four or eight bytes as text; what is none stays as it
// is.
func bigEndian(s string) string {
	switch len(s) {
	case 4:
		return decimal(uint64(binary.BigEndian.Uint32([]byte(s))))
	case 8:
		return decimal(binary.BigEndian.Uint64([]byte(s)))
	}
	return s
}

// kafkaConnect reads the headers of Kafka Connect's dead-letter queue. What a
// converter could not read is malformed, unless a cause outside the record is
// named.
func kafkaConnect(v view, j *Job) bool {
	const prefix = "__connect.errors."
	typ, message := v.header(prefix+"exception.class.name"), v.header(prefix+"exception.message")
	if typ.text == "" && message.text == "" {
		return false
	}
	j.Format, j.QuarantinedBy, j.Origin = "kafka-connect", ByIntegration, v.header(prefix+"topic").text
	j.Task = orElse(j.Task, v.header(prefix+"connector.name").text)
	j.Failure = deeper(compose(typ, pair{}, message, pair{}), v.header(prefix+"exception.stacktrace"))
	if strings.HasSuffix(v.header(prefix+"stage").text, "_CONVERTER") && !outside(CauseOf(j.Failure).Signal) {
		j.Failure.Signal = SignalMalformed
	}
	return true
}

// outside reports whether a signal is about a service and not about the record.
func outside(s Signal) bool {
	switch s {
	case SignalHTTP, SignalThrottled, SignalRefused, SignalTimeout, SignalReset, SignalKilled, SignalServerError, SignalUnauthorized:
		return true
	}
	return false
}

// brokerReason is the reason that the broker keeps beside the message.
func brokerReason(system []broker.Attribute) Failure {
	at := func(name string) pair { return pair{name, attribute(system, name), "System." + name} }
	f := compose(at(broker.SystemReasonType), at(broker.SystemReasonCode), at(broker.SystemReasonMessage), at(broker.SystemReasonAt))
	if f.Type == "expired" && attribute(system, broker.SystemQuarantinedBy) == broker.QuarantinedByBroker { // RabbitMQ's word for it
		f.Signal = SignalExpired
	}
	return f
}
