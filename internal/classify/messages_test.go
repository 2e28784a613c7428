package classify_test

import (
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

func attrs(kv ...string) []broker.Attribute {
	var as []broker.Attribute
	for i := 0; i < len(kv); i += 2 {
		as = append(as, broker.Attribute{Name: kv[i], Type: "String", Value: []byte(kv[i+1])})
	}
	return as
}

// messages are whole dead letters in the shapes that people have, with the
// class and the type that must come out.
var messages = []struct {
	body  string
	attrs []broker.Attribute
	want  classify.Class
	typ   string
}{
	{`{"errorType":"TimeoutError","errorMessage":"x","payload":{"a":1}}`, nil, classify.Timeout, "TimeoutError"},
	{`{"error":"connect ECONNREFUSED 1.2.3.4:25","event":{"a":1}}`, nil, classify.Unavailable, "ECONNREFUSED"},
	{`{"reason":"schema validation failed","originalMessage":"{\"a\":1}"}`, nil, classify.SchemaMismatch, "validation failed"},
	{`{"exception":{"class":"App\\X","message":"boom","previous":{"class":"GuzzleHttp\\Exception\\ServerException","message":"Server error: 502 Bad Gateway"}},"body":{"a":1}}`, nil, classify.ServerError, `GuzzleHttp\Exception\ServerException`},
	{`{"errors":[{"code":"429"},{"code":"500"}],"payload":{}}`, nil, classify.ServerError, "500"},
	{`{"dlq":{"reason":"timeout"},"payload":{}}`, nil, classify.Timeout, "timeout"},
	{`{"metadata":{"error":{"code":"ETIMEDOUT"}},"payload":{}}`, nil, classify.Timeout, "ETIMEDOUT"},
	{`{"error":{"name":"WrapperError","code":"WRAPPED","message":"failed","cause":{"name":"TooManyRequestsError","message":"status 429"}},"original":"{}"}`, nil, classify.Throttled, "TooManyRequestsError"},
	{`{"error":{"name":"HttpError","status":404,"message":"customer 500 not found"},"original":{"body":"{}","messageId":"x"}}`, nil, classify.InvalidDestination, "HttpError"},
	{`{"error":{"message":"order 404 could not be processed: timeout"},"original":"{}"}`, nil, classify.Timeout, "timeout"},
	{`{"error":{"message":"order 404 could not be processed"},"original":"{}"}`, nil, classify.Unknown, ""},
	{`{"error":{"name":"Error","message":"429 from the gate; then 500 from the provider"},"original":"{}"}`, nil, classify.ServerError, "Error"},
	{`{}`, attrs("error_message", "got 429, then 500"), classify.ServerError, "500"},
	{`{}`, attrs("error_message", "got 500, then 429"), classify.Throttled, "429"},
	{`{}`, attrs("error_message", "429 Too Many Requests; finally 500"), classify.ServerError, "500"},
	{`{}`, attrs("error_message", "got 429 for order 17, then 500 more"), classify.Throttled, "429"},
	{`{}`, attrs("error_message", "order 404, then 500"), classify.Unknown, ""},
	{`{}`, attrs("error_message", "response code was 500"), classify.ServerError, "500"},
	{`{}`, attrs("error_message", "HTTP/2 429  returned for \"https://api.example.com/404\"."), classify.Throttled, "429"},
	{`{}`, attrs("error_message", "Client error: `POST https://api.example.com/404` resulted in a `429 Too Many Requests` response: `timeout`"), classify.Throttled, "429"},
	{`{"job":{"order_id":"o-404"},"delivery_key":"k","reason":"transient:timeout"}`, nil, classify.Timeout, "transient:timeout"},
	{`{"job":{"order_id":"o-404"},"delivery_key":"k","reason":"terminal:404"}`, nil, classify.InvalidDestination, "terminal:404"},
	{`{"job":{"order_id":"o-404"},"delivery_key":"k","reason":"terminal:invalid_address"}`, nil, classify.InvalidDestination, "terminal:invalid_address"},
	{`{"job":{"order_id":"o-404"},"delivery_key":"k","reason":"transient:429"}`, nil, classify.Throttled, "transient:429"},
	{`{"job":{"order_id":"o-404"},"delivery_key":"k","reason":"transient:503"}`, nil, classify.ServerError, "transient:503"},
	{`{"requestContext":{"functionArn":"f","condition":"EventAgeExceeded"},"requestPayload":{"a":1}}`, nil, classify.Unknown, "EventAgeExceeded"},
	{`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"requestPayload":{"errorType":"mine"},"responsePayload":{"errorMessage":"2026 Task timed out after 3.00 seconds"}}`, nil, classify.Timeout, "Task timed out"},
	{`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"requestPayload":{"a":1},"responsePayload":{"errorType":"AxiosError","errorMessage":"Request failed with status code 429"}}`, nil, classify.Throttled, "AxiosError"},
	{`{}`, attrs("RequestID", "r", "ErrorCode", "200", "ErrorMessage", `{"errorType":"ValidationError","errorMessage":"bad"}`), classify.SchemaMismatch, "ValidationError"},
	{`{}`, attrs("RequestID", "r", "ErrorCode", "429", "ErrorMessage", "Rate Exceeded."), classify.Throttled, "429"},
	{`{}`, attrs("RequestID", "r", "ErrorCode", "200", "ErrorMessage", "RequestId: 9d6f-404 Error: Runtime exited with error: signal: killed"), classify.Timeout, "killed"},
	{`{}`, attrs("RequestID", "r", "ErrorCode", "200", "ErrorMessage", "order 404 could not be processed"), classify.Unknown, ""},
	{`{}`, attrs("TARGET_ARN", "t", "ERROR_CODE", "NO_PERMISSIONS"), classify.Auth, "NO_PERMISSIONS"},
	{`{}`, attrs("TARGET_ARN", "t", "ERROR_CODE", "SDK_CLIENT_ERROR", "ERROR_MESSAGE", "Lambda returned 503"), classify.ServerError, "SDK_CLIENT_ERROR"},
	{`{}`, attrs("TARGET_ARN", "t", "ERROR_CODE", "RESOURCE_NOT_FOUND"), classify.InvalidDestination, "RESOURCE_NOT_FOUND"},
	{`{}`, attrs("TARGET_ARN", "t", "EXHAUSTED_RETRY_CONDITION", "MaximumEventAgeInSeconds"), classify.Unknown, "MaximumEventAgeInSeconds"},
	{`{}`, attrs("X-Error-Message", "Caused by: java.net.ConnectException: Connection refused (Connection refused)"), classify.Unavailable, "java.net.ConnectException"},
	{`{}`, attrs("DeadLetterReason", "ValidationFailed", "DeadLetterErrorDescription", "field 'currency' is missing"), classify.SchemaMismatch, "ValidationFailed"},
	{`{}`, attrs("MT-Fault-ExceptionType", "System.TimeoutException", "MT-Fault-Message", "gone"), classify.Timeout, "System.TimeoutException"},
	{`{}`, attrs("NServiceBus.ExceptionInfo.ExceptionType", "System.Exception", "NServiceBus.ExceptionInfo.InnerExceptionType", "System.Net.Sockets.SocketException", "NServiceBus.ExceptionInfo.Message", "Connection refused"), classify.Unavailable, "System.Net.Sockets.SocketException"},
	{`not json`, attrs("errorCode", "INVALID_JSON"), classify.Malformed, "INVALID_JSON"},
	{`{"a":`, attrs("Content-Type", "application/json"), classify.Malformed, ""},
	{`{"format":"redrivectl/v1","payload":{},"failure":{"type":"SmtpError","code":"429"}}`, nil, classify.Throttled, "SmtpError"},
	// Quotes hide values; after these words they hold the cause.
	{`{}`, attrs("error_message", "HTTPConnectionPool(host='api', port=443): Max retries exceeded (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object>: Failed to establish a new connection: [Errno 111] Connection refused'))"), classify.Unavailable, "Connection refused"},
	{`{}`, attrs("errorType", "httpx.HTTPStatusError", "errorMessage", "Client error '422 Unprocessable Entity' for url 'https://api.example.com/503'"), classify.RejectedPayload, "httpx.HTTPStatusError"},
	{`{}`, attrs("error_message", `rpc error: code = Unavailable desc = "transport: Error while dialing: dial tcp 10.0.0.1:50051: connect: connection refused"`), classify.Unavailable, "connection refused"},
	{`{}`, attrs("error_message", "the name 'connection refused' is taken"), classify.Unknown, ""},
	{`{}`, attrs("error_message", "rpc error: code = Internal desc = broken"), classify.ServerError, "code = Internal"},
	// The port of a host is no status.
	{`{}`, attrs("errorType", "HttpRequestException", "errorMessage", "No connection could be made because the target machine actively refused it. (api:443)"), classify.Unavailable, "HttpRequestException"},
	{`{}`, attrs("error_message", "connection to gateway:503 is not there"), classify.Unknown, ""},
	// An error passed on as the text of another.
	{`{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"requestPayload":{"a":1},"responsePayload":{"errorType":"Error","errorMessage":"{\"errorType\":\"AxiosError\",\"errorMessage\":\"Request failed with status code 429\"}"}}`, nil, classify.Throttled, "AxiosError"},
	{`{"error":{"name":"Error","message":"{\"order\":404}"},"original":"{}"}`, nil, classify.Unknown, "Error"},
	// A key of a database is no field of a message.
	{`{}`, attrs("errorCode", "E11000", "errorMessage", "E11000 duplicate key error collection: shop.orders"), classify.Unknown, "E11000"},
	{`{}`, attrs("errorType", "celery.exceptions.SoftTimeLimitExceeded", "errorMessage", "SoftTimeLimitExceeded()"), classify.Timeout, "celery.exceptions.SoftTimeLimitExceeded"},
	// A name beside its cause.
	{`{"Error":"States.Timeout","Cause":"","Input":{"a":1}}`, nil, classify.Timeout, "States.Timeout"},
	{`{"Error":"Lambda.Unknown","Cause":"The cause could not be determined because Lambda did not return an error type.","Input":{}}`, nil, classify.Unknown, "Lambda.Unknown"},
	{`{"error":"Exception","cause":"{\"errorType\":\"ConnectionRefusedError\",\"errorMessage\":\"[Errno 111] Connection refused\"}","input":{"a":1}}`, nil, classify.Unavailable, "ConnectionRefusedError"},
	{`{"failures":[{"failedAction":"put","errorMessage":"AccessDeniedException: not authorized to perform"}]}`, nil, classify.Auth, "AccessDeniedException"},
	// Nothing left the process.
	{`{}`, attrs("errorType", "Polly.CircuitBreaker.BrokenCircuitException"), classify.Unavailable, "Polly.CircuitBreaker.BrokenCircuitException"},
	{`{}`, attrs("error_message", "CircuitBreaker 'mail' is OPEN and does not permit further calls"), classify.Unavailable, "does not permit further calls"},
	{`{}`, attrs("errorType", "BulkheadFullException"), classify.Throttled, "BulkheadFullException"},
	{`{}`, attrs("errorType", "EC2ThrottledException"), classify.Throttled, "EC2ThrottledException"},
	{`{}`, attrs("error_message", "FATAL: terminating connection due to administrator command"), classify.Timeout, "terminating connection"},
	{`{}`, attrs("errorType", "UnknownTopicOrPartitionException"), classify.InvalidDestination, "UnknownTopicOrPartitionException"},
	{`{"reason":"timeout","message":"503","status":500}`, nil, classify.Unknown, ""},
}

func TestMessages(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, m := range messages {
		j := job.Decode(broker.Message{Body: []byte(m.body), Attributes: m.attrs}, "q")
		if r := p.Classify(j, now); r.Class != m.want || j.Failure.Type != m.typ {
			t.Errorf("%s %s\n  class %s (rule %s), want %s; type %q, want %q; %+v", m.body, m.attrs, r.Class, r.Rule, m.want, j.Failure.Type, m.typ, job.CauseOf(j.Failure))
		}
	}
}

// The last cause gives the class; another try that the message names, and whose
// outcome is open, takes the proof that nothing was sent.
func TestDoubt(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, c := range []struct {
		code, message string
		class         classify.Class
		effect        classify.Effect
	}{
		{"", "got 500, then 429", classify.Throttled, classify.EffectUnknown},
		{"429", "upstream answered 503", classify.Throttled, classify.EffectUnknown},
		{"", "status 502, retried: status 503, Retry-After: 30", classify.Unavailable, classify.EffectUnknown},
		{"", "status 503, Retry-After: 30", classify.Unavailable, classify.EffectNone},
		{"", "got 404, then 429", classify.Throttled, classify.EffectNone},
		{"", "429 Too Many Requests for order 500", classify.Throttled, classify.EffectNone},
		{"", "read: connection reset by peer; retry 2: dial tcp: connection refused", classify.Unavailable, classify.EffectUnknown},
		{"429", "attempt 1: read timed out; attempt 2: too many requests", classify.Throttled, classify.EffectUnknown},
		{"", "Connection to api timed out. (connect timeout=5)", classify.Unavailable, classify.EffectNone},
		{"400", `field "connection reset" is not one of ours`, classify.RejectedPayload, classify.EffectNone},
	} {
		r := p.Classify(job.Job{Failure: job.Failure{Code: c.code, Message: c.message}}, now)
		if r.Class != c.class || r.Effect != c.effect {
			t.Errorf("%s %s: class %s, effect %s; want %s, %s", c.code, c.message, r.Class, r.Effect, c.class, c.effect)
		}
	}
}
