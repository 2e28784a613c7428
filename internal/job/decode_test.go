package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

func attrs(kv ...string) []broker.Attribute {
	var as []broker.Attribute
	for i := 0; i < len(kv); i += 2 {
		as = append(as, broker.Attribute{Name: kv[i], Type: "String", Value: []byte(kv[i+1])})
	}
	return as
}

func ptr(n int) *int { return &n }

const fullEnvelope = `{"format":"redrivectl/v1","job_key":"digest:c1:2026-W40","subject":"digest:c1","version":12345678901234567890,"kind":"weekly_digest","channel":"email",
"customer":{"id":"c1","status":"active"},"period":"2026-W40","region":"eu-west-1","schema_version":"3","deployment_id":"d-9","trace_context":"00-ab-cd-01",
"payload":{ "n" : 1.0 },"failure":{"type":"RateLimited","code":"429","message":"slow down","at":"2026-10-01T12:00:00Z"},
"quarantined_by":"application","attempt":3,"references":[{"kind":"rendering","uri":"s3://b/k","sha256":"ab"}],"later":true}`

// decoded are messages and what must be read from them, less the message and
// the hashes.
var decoded = map[string]struct {
	message broker.Message
	want    job.Job
}{
	"envelope": {
		broker.Message{Body: []byte(fullEnvelope)},
		job.Job{
			JobKey: "digest:c1:2026-W40", Subject: "digest:c1", Version: "12345678901234567890", Kind: "weekly_digest", Channel: "email", CustomerID: "c1", CustomerStatus: "active",
			Period: "2026-W40", Region: "eu-west-1", SchemaVersion: "3", DeploymentID: "d-9", TraceContext: "00-ab-cd-01", Format: "redrivectl/v1", Payload: []byte(`{ "n" : 1.0 }`),
			Failure: job.Failure{Type: "RateLimited", Code: "429", Message: "slow down", At: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), Field: "Body.failure.type"},
			Task:    "weekly_digest", QuarantinedBy: job.ByApplication, AttemptOnCopy: ptr(3), Redrivable: true, References: []job.Reference{{Kind: "rendering", URI: "s3://b/k", SHA256: "ab"}},
		},
	},
	"envelope in base64": {
		broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k","payload_base64":"AP8="}`)},
		job.Job{JobKey: "k", Format: "redrivectl/v1", Payload: []byte{0, 255}, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"envelope broken": {
		broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":7,"payload":1}`)},
		job.Job{JobKey: "7", Format: "redrivectl/v1", Payload: []byte("1"), DecodeError: `envelope field "job_key" has the wrong type`, Malformed: true, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"envelope cut short": {
		broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k`)},
		job.Job{Format: "bare", Payload: []byte(`{"format":"redrivectl/v1","job_key":"k`), DecodeError: "broken JSON at byte 38: unexpected end of JSON input", Malformed: true, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"envelope with a key twice": {
		broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"a","job_key":"b","payload":1}`)},
		job.Job{JobKey: "b", Format: "redrivectl/v1", Payload: []byte("1"), DecodeError: `duplicate key "job_key"`, Malformed: true, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"envelope of a later version": {
		broker.Message{Body: []byte(`{"format":"redrivectl/v2","job_key":"a"}`)},
		job.Job{JobKey: "a", Format: "redrivectl/v2", Payload: []byte(`{"format":"redrivectl/v2","job_key":"a"}`), DecodeError: `unknown envelope version "redrivectl/v2"`, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"attributes": {
		broker.Message{Body: []byte("\xff\x00"), Attributes: attrs("job_key", "k", "Version", "2", "schemaVersion", "3", "traceparent", "00-1", "error-type", "TimeoutError", "attempt", "4")},
		job.Job{
			JobKey: "k", Version: "2", SchemaVersion: "3", TraceContext: "00-1", Format: "bare", Payload: []byte("\xff\x00"), AttemptOnCopy: ptr(4),
			Failure: job.Failure{Type: "TimeoutError", Field: "MessageAttributes.error-type.StringValue"}, QuarantinedBy: job.ByApplication, Redrivable: true,
		},
	},
	"one attribute for all": {
		broker.Message{Body: []byte("x"), Attributes: attrs("redrivectl", `{"job_key":"k","kind":"digest","customer":{"id":"c"},"failure":{"code":"503"}}`)},
		job.Job{
			JobKey: "k", Kind: "digest", Task: "digest", CustomerID: "c", Format: "bare", Payload: []byte("x"),
			Failure: job.Failure{Type: "503", Code: "503", Field: "MessageAttributes.redrivectl.StringValue|json.failure.code"}, QuarantinedBy: job.ByApplication, Redrivable: true,
		},
	},
	"the broker's reason": {
		broker.Message{Body: []byte(`{"a":1}`), System: attrs(broker.SystemReasonType, "SmtpError", broker.SystemReasonCode, "503", broker.SystemReasonMessage, "busy", broker.SystemQuarantinedBy, "application")},
		job.Job{Format: "bare", Payload: []byte(`{"a":1}`), Failure: job.Failure{Type: "SmtpError", Code: "503", Message: "busy", Field: "System." + broker.SystemReasonType}, QuarantinedBy: job.ByApplication, Redrivable: true},
	},
	"the broker's time": {
		broker.Message{Body: []byte(`{}`), Origin: "q", System: attrs(broker.SystemReasonAt, "2026-03-01T08:04:00.000Z", broker.SystemQuarantinedBy, "max_receives")},
		job.Job{Format: "bare", Payload: []byte(`{}`), Failure: job.Failure{At: time.Date(2026, 3, 1, 8, 4, 0, 0, time.UTC)}, QuarantinedBy: job.ByMaxReceives, Redrivable: true},
	},
	"a business reason is none": {
		broker.Message{Body: []byte(`{"order_id":"1","reason":"timeout","status":500,"message":"hi","payload":{"a":1}}`), Origin: "orders"},
		job.Job{Format: "bare", Payload: []byte(`{"order_id":"1","reason":"timeout","status":500,"message":"hi","payload":{"a":1}}`), QuarantinedBy: job.ByMaxReceives, Redrivable: true},
	},
	"causes in causes": {
		broker.Message{Body: []byte(`{"error":{"name":"JobFailed","message":"gave up","cause":{"name":"MailError","cause":{"code":"ECONNRESET","message":"reset"}}},"original":{"a":1}}`)},
		job.Job{
			Format: "error-envelope", Payload: []byte(`{"a":1}`), Original: &job.Original{Body: []byte(`{"a":1}`)}, QuarantinedBy: job.ByApplication, Redrivable: true,
			Failure: job.Failure{Type: "ECONNRESET", Code: "ECONNRESET", Message: "reset", Field: "Body.error.cause.cause.code"},
		},
	},
	"an original that is gone": {
		broker.Message{Body: []byte(`{"error":{"name":"X"},"original":null}`)},
		job.Job{
			Format: "error-envelope", Payload: []byte(`{"error":{"name":"X"},"original":null}`), WhyNot: "the envelope does not hold the whole original", QuarantinedBy: job.ByApplication,
			Failure: job.Failure{Type: "X", Field: "Body.error.name"},
		},
	},
	"a stack of causes in a text": {
		broker.Message{Body: []byte(`{}`), Attributes: attrs("exception", "org.spring.Listener: Listener threw\n\tat a.b(C.java:1)\nCaused by: java.net.SocketTimeoutException: Read timed out\n\tat x.y(Z.java:9)")},
		job.Job{
			Format: "bare", Payload: []byte(`{}`), QuarantinedBy: job.ByApplication, Redrivable: true,
			Failure: job.Failure{Type: "java.net.SocketTimeoutException", Message: "Read timed out", Field: "MessageAttributes.exception.StringValue"},
		},
	},
	"an envelope in SNS": {
		broker.Message{Origin: "q", Body: []byte(`{"Type":"Notification","TopicArn":"t","Message":"{\"format\":\"redrivectl/v1\",\"job_key\":\"k\",\"payload\":1}"}`)},
		job.Job{JobKey: "k", Format: "sns", Payload: []byte("1"), QuarantinedBy: job.ByMaxReceives, Redrivable: true},
	},
	"a DynamoDB pointer": {
		broker.Message{Body: []byte(`{"requestContext":{"functionArn":"f","condition":"RetryAttemptsExhausted"},"DDBStreamBatchInfo":{"shardId":"s"}}`)},
		job.Job{
			Format: "lambda-stream-pointer", Payload: []byte(`{"requestContext":{"functionArn":"f","condition":"RetryAttemptsExhausted"},"DDBStreamBatchInfo":{"shardId":"s"}}`), QuarantinedBy: job.ByIntegration,
			WhyNot: "the message holds positions in a stream, not the records", Failure: job.Failure{Type: "RetryAttemptsExhausted", Field: "Body.requestContext.condition"},
		},
	},
	"declared JSON that is none": {
		broker.Message{Body: []byte(`{"a":`), Attributes: attrs("Content-Type", "application/json")},
		job.Job{Format: "bare", Payload: []byte(`{"a":`), DecodeError: "broken JSON at byte 5: unexpected end of JSON input", Malformed: true, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"declared gzip that is none": {
		broker.Message{Body: []byte(`plain`), Attributes: attrs("content-encoding", "gzip")},
		job.Job{Format: "gzip", Payload: []byte(`plain`), DecodeError: "declared as gzip: unexpected EOF", Malformed: true, QuarantinedBy: job.ByUnknown, Redrivable: true},
	},
	"Sidekiq": {
		broker.Message{Body: []byte(`{"class":"InvoiceMailer","args":[42],"jid":"b4","error_class":"Net::OpenTimeout","error_message":"execution expired","retry_count":25}`)},
		job.Job{
			Format: "sidekiq", Kind: "InvoiceMailer", Payload: []byte(`{"class":"InvoiceMailer","args":[42],"jid":"b4","error_class":"Net::OpenTimeout","error_message":"execution expired","retry_count":25}`), Task: "InvoiceMailer", AttemptOnCopy: ptr(25),
			Failure: job.Failure{Type: "Net::OpenTimeout", Message: "execution expired", Field: "Body.error_class"}, QuarantinedBy: job.ByApplication, Redrivable: true,
		},
	},
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for name, c := range decoded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := job.Decode(c.message, "q-dlq")
			if d := cmp.Diff(c.message, got.Message); d != "" {
				t.Error("the message was changed:", d)
			}
			want := c.want
			want.Queue, want.Origin = "q-dlq", c.message.Origin
			if got.PayloadBytes != len(got.Payload) {
				t.Errorf("%d bytes of payload are said to be %d", len(got.Payload), got.PayloadBytes)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(job.Job{}, "Message", "PayloadBytes", "PayloadSHA256", "BodySHA256", "MessageSHA256", "SentSHA256")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHostileBodies(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"10,000 levels":       strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
		"10,000 objects":      strings.Repeat(`{"a":`, 10_000),
		"1 MB line":           `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
		"1 MB error":          `{"errorMessage":"` + strings.Repeat("a timeout ", 100_000) + `"}`,
		"1 MB of lines":       `{"errorType":"X","errorMessage":"` + strings.Repeat(`\n`, 1<<20) + `"}`,
		"1 MB of causes":      `{"errorType":"X","errorMessage":"\n\tat x` + strings.Repeat("Caused by ", 100_000) + `"}`,
		"causes without end":  strings.Repeat(`{"cause":{"error":`, 90) + `"x"` + strings.Repeat("}}", 90),
		"invalid UTF-8":       "{\"a\":\"\xff\"}",
		"NUL and escapes":     "{\"error\":\"\\u0000\\u001b]52;c;x\\u0007\"}",
		"SNS in SNS for ever": nest(`{"Type":"Notification","TopicArn":"t","Message":%}`, 9),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job.Decode(broker.Message{MessageID: "m", Body: []byte(body)}, "q")
			if string(j.Message.Body) != body || j.BodySHA256 == "" || !j.Redrivable {
				t.Errorf("not kept as a job: %q", j.DecodeError)
			}
		})
	}
}
