package classify_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

// quote is a text as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func object(kv []string, value func(string) string) string {
	var parts []string
	for i := 0; i < len(kv); i += 2 {
		parts = append(parts, quote(kv[i])+":"+value(kv[i+1]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func asRabbitMQ(body string, headers ...string) string {
	return `{"exchange":"x","routing_key":"r","properties":{"headers":` + object(headers, quote) + `},"payload":` + quote(body) + `,"payload_encoding":"string"}`
}

func asKafka(body string, headers ...string) string {
	var list []string
	for i := 0; i < len(headers); i += 2 {
		list = append(list, `{"key":`+quote(headers[i])+`,"value_base64":`+quote(base64.StdEncoding.EncodeToString([]byte(headers[i+1])))+`}`)
	}
	return `{"topic":"t.DLT","partition":0,"offset":1,"headers":[` + strings.Join(list, ",") + `],"value_base64":` + quote(base64.StdEncoding.EncodeToString([]byte(body))) + `}`
}

func asServiceBus(reason, description string, properties ...string) string {
	return `{"messageId":"m","sequenceNumber":1,"deliveryCount":1,"deadLetterReason":` + quote(reason) + `,"deadLetterErrorDescription":` + quote(description) +
		`,"applicationProperties":` + object(properties, quote) + `,"body":"{}"}`
}

func asPubSub(body string, attributes ...string) string {
	return `{"ackId":"a","message":{"messageId":"1","attributes":` + object(attributes, quote) + `,"data":` + quote(base64.StdEncoding.EncodeToString([]byte(body))) + `}}`
}

func asSQS(body string, attributes ...string) string {
	return `{"MessageId":"m","Body":` + quote(body) + `,"MessageAttributes":` + object(attributes, func(v string) string { return `{"DataType":"String","StringValue":` + quote(v) + `}` }) + `}`
}

func asFailedJob(exception string) string {
	return `{"row":{"id":1,"uuid":"u","connection":"redis","queue":"default","payload":"{\"displayName\":\"App\\\\Jobs\\\\Sync\",\"job\":\"Illuminate\\\\Queue\\\\CallQueuedHandler@call\",\"data\":{}}","exception":` + quote(exception) + `,"failed_at":"2026-10-01 12:10:00"}}`
}

func asBullMQ(reason string) string {
	return `{"key":"bull:mail:1","hash":{"name":"welcome","data":"{}","attemptsMade":"3","failedReason":` + quote(reason) + `}}`
}

func asAsynq(reason string) string {
	return `{"key":"asynq:{d}:t:1","decoded_proto":{"type":"email","payload_base64":"e30=","id":"1","queue":"d","retry":3,"retried":3,"error_msg":` + quote(reason) + `}}`
}

func asSidekiq(class, message string) string {
	return `{"zset_member":` + quote(`{"class":"M","args":[42],"jid":"b","queue":"q","error_class":`+quote(class)+`,"error_message":`+quote(message)+`,"retry_count":25}`) + `,"score":1790000002.5}`
}

func asDoctrine(class, message string) string {
	details := `[` + object([]string{"exceptionClass", class, "exceptionMessage", message}, quote) + `]`
	headers := object([]string{"type", `App\Message\M`, `X-Message-Stamp-Symfony\Component\Messenger\Stamp\ErrorDetailsStamp`, details}, quote)
	return `{"row":{"id":81,"queue_name":"failed","body":"{}","headers":` + quote(headers) + `}}`
}

const (
	springOuter = "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n\tat org.springframework.amqp.Adapter.invoke(Adapter.java:1)\n"
	cutTrace    = springOuter + "Caused by: java.net.SocketTimeoutException: Read timed out\n\tat java.net.Socket.read(Socket.java:2)\nCaused by: com.sh"
)

// dumps are dead letters as the tools of brokers print them, with the class and
// the type that must come out.
var dumps = []struct {
	dump string
	want classify.Class
	typ  string
}{
	// MassTransit: the type has a header, and the text decides where it says nothing.
	{asRabbitMQ("{}", "MT-Reason", "fault", "MT-Fault-ExceptionType", "System.TimeoutException", "MT-Fault-Message", "The operation has timed out."), classify.Timeout, "System.TimeoutException"},
	{asRabbitMQ("{}", "MT-Reason", "fault", "MT-Fault-ExceptionType", "Shop.PaymentFailed", "MT-Fault-Message", "Response status code does not indicate success: 429 (Too Many Requests)."), classify.Throttled, "Shop.PaymentFailed"},
	{asRabbitMQ("{}", "MT-Reason", "fault", "MT-Fault-ExceptionType", "Shop.OrderMissing", "MT-Fault-Message", "order 404 is not there, 500 lines read"), classify.Unknown, "Shop.OrderMissing"},
	{asRabbitMQ(`{"messageType":["urn:x"]}`, "MT-Reason", "dead-letter"), classify.NotSupported, "dead-letter"},
	{asServiceBus("fault", "Shop.Failed", "MT-Reason", "fault", "MT-Fault-ExceptionType", "System.UnauthorizedAccessException", "MT-Fault-Message", "x"), classify.Auth, "System.UnauthorizedAccessException"},

	// What runners of jobs say themselves.
	{asBullMQ("Missing process handler for job type send"), classify.NotSupported, "Missing process handler"},
	{asSidekiq("Sidekiq::Shutdown", "Sidekiq::Shutdown"), classify.Timeout, "Sidekiq::Shutdown"},

	// NServiceBus: the inner exception where it says something, or the outer one only wraps.
	{asRabbitMQ("{}", "NServiceBus.FailedQ", "q", "NServiceBus.ExceptionInfo.ExceptionType", "Shop.ShippingFailed", "NServiceBus.ExceptionInfo.InnerExceptionType", "System.TimeoutException", "NServiceBus.ExceptionInfo.Message", "x"), classify.Timeout, "System.TimeoutException"},
	{asRabbitMQ("{}", "NServiceBus.FailedQ", "q", "NServiceBus.ExceptionInfo.ExceptionType", "System.AggregateException", "NServiceBus.ExceptionInfo.InnerExceptionType", "Shop.Custom", "NServiceBus.ExceptionInfo.Message", "x"), classify.Unknown, "Shop.Custom"},
	{asRabbitMQ("{}", "NServiceBus.FailedQ", "q", "NServiceBus.ExceptionInfo.ExceptionType", "System.Net.Http.HttpRequestException", "NServiceBus.ExceptionInfo.Message", "Connection refused (10.0.0.1:443)"), classify.Unavailable, "System.Net.Http.HttpRequestException"},
	{asRabbitMQ("{}", "NServiceBus.FailedQ", "q", "NServiceBus.ExceptionInfo.ExceptionType", "Newtonsoft.Json.JsonReaderException", "NServiceBus.ExceptionInfo.Message", "Unexpected character encountered while parsing value: 5. Path '', line 0, position 404."), classify.Malformed, "Newtonsoft.Json.JsonReaderException"},
	{asRabbitMQ("{}", "NServiceBus.FailedQ", "q", "NServiceBus.ExceptionInfo.ExceptionType", "System.InvalidOperationException", "NServiceBus.ExceptionInfo.Message", "failed", "NServiceBus.ExceptionInfo.StackTrace", "System.InvalidOperationException: failed\n ---> System.TimeoutException: The operation has timed out\n   at A.B()\n   --- End of inner exception stack trace ---\n   at C.D()"), classify.Timeout, "System.TimeoutException"},

	// Rebus: prose, of which the last error counts.
	{asRabbitMQ("{}", "rbs2-error-details", "2 unhandled exceptions: 10/1/2026 12:00:00 PM +00:00: System.TimeoutException: The operation has timed out\n   at A.B()\n10/1/2026 12:00:09 PM +00:00: System.Net.Http.HttpRequestException: Response status code does not indicate success: 401 (Unauthorized).\n   at A.B()"), classify.Auth, "System.Net.Http.HttpRequestException"},
	{asRabbitMQ("{}", "rbs2-error-details", "1 unhandled exceptions: 01.10.2026 12:00:00 +02:00: Shop.ChargeFailed: charge 503 of batch 429 failed\n   at Shop.Handler.Handle()"), classify.Unknown, "Shop.ChargeFailed"},
	{asRabbitMQ("{}", "rbs2-error-details", "1 unhandled exceptions: 10/1/2026 12:00:00 PM +00:00: System.AggregateException: One or more errors occurred. (No such host is known.)\n ---> System.Net.Sockets.SocketException (11001): No such host is known.\n   at A.B()"), classify.Unavailable, "System.Net.Sockets.SocketException"},

	// Spring: the last "Caused by", also of a trace that is cut short.
	{asRabbitMQ("{}", "x-exception-message", "Listener method could not be invoked", "x-exception-stacktrace", springOuter+"Caused by: com.shop.A: x\n\tat a.B(C.java:1)\nCaused by: java.net.ConnectException: Connection refused (Connection refused)\n\tat d.E(F.java:2)\n\t... 12 more\n"), classify.Unavailable, "java.net.ConnectException"},
	{asRabbitMQ("{}", "x-exception-message", "x", "x-exception-stacktrace", cutTrace), classify.Timeout, "java.net.SocketTimeoutException"},
	{asRabbitMQ("{}", "x-exception-message", "Listener failed for order 404", "x-exception-stacktrace", springOuter+"\tat org.spring"), classify.Unknown, "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException"},
	{asRabbitMQ("{}", "x-exception-stacktrace", springOuter+"Caused by: com.shop.NewKindOfTrouble: row 500, sku 429\n\tat a.B(C.java:404)\n", "x-original-exchange", "", "x-original-routingKey", "q"), classify.Unknown, "com.shop.NewKindOfTrouble"},
	{asRabbitMQ("{}", "x-exception-message", "x", "x-exception-stacktrace", springOuter+"Caused by: com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException: Unrecognized field \"colour\" (class com.shop.Order)\n\tat a.B(C.java:1)\n"), classify.SchemaMismatch, "com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException"},
	{asKafka("{}", "kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException", "kafka_dlt-exception-cause-fqcn", "java.net.SocketTimeoutException", "kafka_dlt-exception-message", "Listener failed; Read timed out"), classify.Timeout, "java.net.SocketTimeoutException"},
	{asKafka("{}", "kafka_dlt-exception-fqcn", "org.springframework.kafka.support.serializer.DeserializationException", "kafka_dlt-exception-message", "failed to deserialize"), classify.Malformed, "org.springframework.kafka.support.serializer.DeserializationException"},
	{asKafka("{}", "kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException", "kafka_dlt-exception-cause-fqcn", "com.shop.Wrapped", "kafka_dlt-exception-message", "x", "kafka_dlt-exception-stacktrace", "org.springframework.kafka.listener.ListenerExecutionFailedException: x\n\tat a.B(C.java:1)\nCaused by: com.shop.Wrapped: y\n\tat a.B(C.java:1)\nCaused by: org.springframework.web.client.HttpClientErrorException$TooManyRequests: 429 Too Many Requests\n\tat a.B(C.java:1)\n"), classify.Throttled, "org.springframework.web.client.HttpClientErrorException$TooManyRequests"},

	// Kafka Connect: what a converter cannot read, and a service that it needs.
	{asKafka("x", "__connect.errors.stage", "KEY_CONVERTER", "__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException", "__connect.errors.exception.message", "Converting byte[] to Kafka Connect data failed due to serialization error: "), classify.Malformed, "org.apache.kafka.connect.errors.DataException"},
	{asKafka("x", "__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException", "__connect.errors.exception.message", "value could not be read as Avro, schema id 7"), classify.Malformed, "org.apache.kafka.connect.errors.DataException"},
	{asKafka("x", "__connect.errors.stage", "TASK_PUT", "__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.RetriableException", "__connect.errors.exception.message", "request timed out after 30000 ms"), classify.Timeout, "org.apache.kafka.connect.errors.RetriableException"},
	{asKafka("x", "__connect.errors.stage", "VALUE_CONVERTER", "__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException", "__connect.errors.exception.message", "x", "__connect.errors.exception.stacktrace", "org.apache.kafka.connect.errors.DataException: x\n\tat a.B(C.java:1)\nCaused by: java.net.ConnectException: Connection refused\n\tat a.B(C.java:1)\n"), classify.Unavailable, "java.net.ConnectException"},

	// Service Bus: an application's reason, and the broker's own.
	{asServiceBus("ProcessingError", "System.TimeoutException: The operation has timed out."), classify.Timeout, "ProcessingError"},
	{asServiceBus("SchemaValidationFailed", "line 404 of 500"), classify.SchemaMismatch, "SchemaValidationFailed"},
	{asServiceBus("Unauthorized", "token expired"), classify.Auth, "Unauthorized"},
	{asServiceBus("CustomerGone", "customer 429 left"), classify.Unknown, "CustomerGone"},
	{asServiceBus("MaxDeliveryCountExceeded", "Message could not be consumed after 404 delivery attempts."), classify.Unknown, "MaxDeliveryCountExceeded"},
	{asServiceBus("MaxDeliveryCountExceeded", "Message could not be consumed after 10 delivery attempts.", "error_type", "ThrottlingException"), classify.Throttled, "ThrottlingException"},
	{asServiceBus("TTLExpiredException", "The message expired and was dead lettered."), classify.Expired, "TTLExpiredException"},
	{asServiceBus("HeaderSizeExceeded", "The size quota for this stream has been exceeded."), classify.Unknown, "HeaderSizeExceeded"},
	{asServiceBus("", ""), classify.Unknown, ""},
	{asServiceBus("Order 404 of batch 429", "line 500"), classify.Unknown, "Order 404 of batch 429"},
	{asServiceBus("Order 404 could not be processed: timeout", ""), classify.Timeout, "Order 404 could not be processed: timeout"},
	{asServiceBus("Request failed with status 503", ""), classify.ServerError, "Request failed with status 503"},
	{asServiceBus("Validation failed", "order 'timeout' is wrong"), classify.SchemaMismatch, "Validation failed"},

	// EventBridge's codes.
	{asSQS("{}", "TARGET_ARN", "t", "ERROR_CODE", "NO_RESOURCE", "ERROR_MESSAGE", "x"), classify.InvalidDestination, "NO_RESOURCE"},
	{asSQS("{}", "TARGET_ARN", "t", "ERROR_CODE", "FAILED_TO_ASSUME_ROLE"), classify.Auth, "FAILED_TO_ASSUME_ROLE"},

	// Pub/Sub writes none, the application may.
	{asPubSub("{}", "CloudPubSubDeadLetterSourceDeliveryCount", "5", "CloudPubSubDeadLetterSourceSubscription", "s"), classify.Unknown, ""},
	{asPubSub("{}", "errorCode", "RESOURCE_EXHAUSTED", "CloudPubSubDeadLetterSourceSubscription", "s"), classify.Throttled, "RESOURCE_EXHAUSTED"},
	{asPubSub(`{"error":{"name":"TypeError","message":"fetch failed","cause":{"code":"ECONNREFUSED"}},"original":{"a":1}}`), classify.Unavailable, "ECONNREFUSED"},

	// RabbitMQ's own four reasons tell no class but that it expired.
	{`{"exchange":"","routing_key":"q","properties":{"headers":{"x-death":[{"count":1,"reason":"maxlen","queue":"jobs"}],"x-first-death-reason":"maxlen"}},"payload":"{}"}`, classify.Unknown, "maxlen"},
	{`{"exchange":"","routing_key":"q","properties":{"headers":{"x-death":[{"count":1,"reason":"expired","queue":"jobs"}],"x-first-death-reason":"expired"}},"payload":"{}"}`, classify.Expired, "expired"},
	{`{"exchange":"","routing_key":"q","properties":{"headers":{"x-death":[{"count":3,"reason":"rejected","queue":"jobs"},{"count":2,"reason":"expired","queue":"jobs.retry"}],"x-first-death-reason":"expired"}},"payload":"{}"}`, classify.Unknown, "rejected"},
	{`{"exchange":"","routing_key":"q","properties":{"headers":{"x-death":[{"count":1,"reason":"rejected","queue":"jobs"}],"error":"read ECONNRESET"}},"payload":"{}"}`, classify.Timeout, "ECONNRESET"},

	// Laravel: the class before the first colon; PHP prints the innermost first.
	{asFailedJob("App\\Exceptions\\StockGone: item 404 of 500 is gone in /app/A.php:429\nStack trace:\n#0 /app/Timeout.php(33): request_timed_out()\n#1 {main}"), classify.Unknown, `App\Exceptions\StockGone`},
	{asFailedJob("GuzzleHttp\\Exception\\ClientException: Client error: `POST https://api.example.com/404` resulted in a `429 Too Many Requests` response in /app/A.php:1\nStack trace:\n#0 {main}"), classify.Throttled, `GuzzleHttp\Exception\ClientException`},
	{asFailedJob("Illuminate\\Queue\\MaxAttemptsExceededException: App\\Jobs\\Sync has been attempted too many times. in /app/A.php:1\nStack trace:\n#0 {main}"), classify.Unknown, `Illuminate\Queue\MaxAttemptsExceededException`},
	{asFailedJob("PDOException: SQLSTATE[HY000] [2002] Connection refused in /app/A.php:1\nStack trace:\n#0 {main}\n\nNext Illuminate\\Database\\QueryException: SQLSTATE[HY000] [2002] Connection refused (SQL: select 500) in /app/B.php:2\nStack trace:\n#0 {main}"), classify.Unavailable, "PDOException"},
	{asFailedJob("Exception: boom in /app/A.php:1\nStack trace:\n#0 {main}"), classify.Unknown, "Exception"},

	// Symfony, Sidekiq, BullMQ, asynq.
	{asDoctrine(`Symfony\Component\HttpClient\Exception\TimeoutException`, "Idle timeout reached"), classify.Timeout, `Symfony\Component\HttpClient\Exception\TimeoutException`},
	{asDoctrine(`App\Exception\Nope`, "order 503"), classify.Unknown, `App\Exception\Nope`},
	{asSQS("{}", "X-Message-Stamp-x\\ErrorDetailsStamp", `[{"exceptionClass":"A"},{"exceptionClass":"App\\RateLimitedException"}]`), classify.Throttled, `App\RateLimitedException`},
	{asSidekiq("Net::ReadTimeout", "Net::ReadTimeout with #<TCPSocket:(closed)>"), classify.Timeout, "Net::ReadTimeout"},
	{asSidekiq("Errno::ECONNREFUSED", "Connection refused - connect(2) for 10.0.0.1:25"), classify.Unavailable, "Errno::ECONNREFUSED"},
	{asSidekiq("ActiveRecord::RecordNotFound", "Couldn't find User with 'id'=404"), classify.Unknown, "ActiveRecord::RecordNotFound"},
	{asSidekiq("Mailer::Refused", "invoice 429"), classify.Unknown, "Mailer::Refused"},
	{asSidekiq("Net::HTTPFatalError", `503 "Service Unavailable"`), classify.ServerError, "Net::HTTPFatalError"},
	{asSidekiq("RuntimeError", `order 503 "blue"`), classify.Unknown, "RuntimeError"},
	{asBullMQ("getaddrinfo ENOTFOUND mail.example.com"), classify.Unavailable, "ENOTFOUND"},
	{asBullMQ("Request failed with status code 503"), classify.ServerError, "503"},
	{asBullMQ("job stalled more than allowable limit"), classify.Unknown, ""},
	{asBullMQ("connect ETIMEDOUT 10.0.0.1:443"), classify.Timeout, "ETIMEDOUT"},
	{asAsynq("dial tcp 10.0.0.1:25: connect: connection refused"), classify.Unavailable, "connection refused"},
	{asAsynq(`rpc error: code = Unavailable desc = "order 404"`), classify.ServerError, "code = Unavailable"},
	{asAsynq("context deadline exceeded"), classify.Timeout, "deadline exceeded"},
	{asAsynq("smtp: user 550 of 404 has no plan"), classify.Unknown, ""},

	// NATS.
	{`{"type":"io.nats.jetstream.advisory.v1.terminated","stream":"S","consumer":"c","stream_seq":1,"reason":"x"}`, classify.Unknown, "terminated"},
}

// refusedTypes are the reason types of dumps of which nothing can be redriven.
var refusedTypes = map[string]bool{"dead-letter": true, "terminated": true, "max_deliver": true}

func TestDumps(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, d := range dumps {
		var ms []broker.Message
		if err := dump.Read(strings.NewReader(d.dump), func(m broker.Message) error { ms = append(ms, m); return nil }); err != nil || len(ms) != 1 {
			t.Errorf("%s\n  %d messages, %v", d.dump, len(ms), err)
			continue
		}
		j := job.Decode(ms[0], "q")
		if r := p.Classify(j, now); r.Class != d.want || j.Failure.Type != d.typ || j.Redrivable == refusedTypes[d.typ] {
			t.Errorf("%s\n  class %s (rule %s), want %s; type %q, want %q; redrivable %v; %+v", d.dump, r.Class, r.Rule, d.want, j.Failure.Type, d.typ, j.Redrivable, job.CauseOf(j.Failure))
		}
	}
}
