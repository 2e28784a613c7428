package classify_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

var now = time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC)

func defaultPolicy(t testing.TB) *classify.Policy {
	t.Helper()
	p, err := classify.Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../job/testdata/samples/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	p := defaultPolicy(t)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Expect struct{ Class classify.Class }
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		err = dump.Read(strings.NewReader(string(raw)), func(m broker.Message) error {
			r := p.Classify(job.Decode(m, "q"), now)
			if r.Class != s.Expect.Class {
				t.Errorf("%s: class %s (rule %s), want %s", path, r.Class, r.Rule, s.Expect.Class)
			}
			return nil
		})
		if err != nil {
			t.Error(path, err)
		}
	}
}

// evidence is what error fields and texts say, and the class it must give.
var evidence = []struct {
	typ, code, message string
	want               classify.Class
}{
	{"", "429", "", classify.Throttled},
	{"ThrottlingException", "", "", classify.Throttled},
	{"", "RequestThrottled", "", classify.Throttled},
	{"", "RESOURCE_EXHAUSTED", "", classify.Throttled},
	{"ProvisionedThroughputExceededException", "", "", classify.Throttled},
	{"", "", "Rate exceeded", classify.Throttled},
	{"", "", "429 Too Many Requests", classify.Throttled},
	{"Error", "", "connect ECONNREFUSED 127.0.0.1:25", classify.Unavailable},
	{"", "ENOTFOUND", "getaddrinfo ENOTFOUND mail.example.com", classify.Unavailable},
	{"", "", "dial tcp: lookup mail.example.com: no such host", classify.Unavailable},
	{"", "", "dial tcp 10.0.0.1:443: connect: connection refused", classify.Unavailable},
	{"Net::OpenTimeout", "", "execution expired", classify.Unavailable},
	{"", "503", "Service Unavailable, Retry-After: 30", classify.Unavailable},
	{"", "503", "", classify.ServerError},
	{"System.Net.Http.HttpRequestException", "", "Response status code does not indicate success: 503", classify.ServerError},
	{"", "", "endpoint answered 500", classify.ServerError},
	{"", "502", "", classify.ServerError},
	{"InternalServerError", "", "", classify.ServerError},
	{"", "INTERNAL", "HTTP 500", classify.ServerError},
	{"", "ETIMEDOUT", "", classify.Timeout},
	{"", "ECONNRESET", "", classify.Timeout},
	{"", "DEADLINE_EXCEEDED", "", classify.Timeout},
	{"java.net.SocketTimeoutException", "", "Read timed out", classify.Timeout},
	{"GuzzleHttp\\Exception\\ConnectException", "", "cURL error 28: Operation timed out after 30000 ms", classify.Timeout},
	{"", "", "Task timed out after 15.02 seconds", classify.Timeout},
	{"Sandbox.Timedout", "", "", classify.Timeout},
	{"Runtime.ExitError", "", "RequestId: 11 Error: Runtime exited with error: signal: killed", classify.Timeout},
	{"", "", "unexpected EOF", classify.Timeout},
	{"", "", "read tcp 10.0.0.1:33->10.0.0.2:443: read: connection reset by peer", classify.Timeout},
	{"OutOfMemoryError", "", "Java heap space", classify.Timeout},
	{"", "OOMKilled", "", classify.Timeout},
	{"billiard.exceptions.WorkerLostError", "", "Worker exited prematurely: signal 9 (SIGKILL)", classify.Timeout},
	{"", "401", "", classify.Auth},
	{"", "403", "", classify.Auth},
	{"AccessDeniedException", "", "", classify.Auth},
	{"", "ACCESS_DENIED", "", classify.Auth},
	{"", "NO_PERMISSIONS", "", classify.Auth},
	{"", "SignatureDoesNotMatch", "", classify.Auth},
	{"", "InvalidEmailAddress", "", classify.InvalidDestination},
	{"", "", "recipient has unsubscribed", classify.InvalidDestination},
	{"", "AWS.SimpleQueueService.NonExistentQueue", "", classify.InvalidDestination},
	{"", "", "550 5.1.1 user unknown (smtp)", classify.InvalidDestination},
	{"", "410", "", classify.InvalidDestination},
	{"", "", "Request failed with status code 404", classify.InvalidDestination},
	{"terminal:400", "400", "", classify.RejectedPayload},
	{"", "413", "", classify.RejectedPayload},
	{"AxiosError", "ERR_BAD_REQUEST", "Request failed with status code 422", classify.RejectedPayload},
	{"", "", "422 Unprocessable Entity", classify.RejectedPayload},
	{"ZodError", "invalid_type", "Expected number, received string", classify.SchemaMismatch},
	{"ValidationError", "", "field 'timeout' must be a number", classify.SchemaMismatch},
	{"UnknownSchemaVersion", "", "", classify.SchemaMismatch},
	{"", "ValidationFailed", "field 'currency' is missing", classify.SchemaMismatch},
	{"JsonParseException", "", "", classify.Malformed},
	{"", "DECODE_FAILED", "", classify.Malformed},
	{"SyntaxError", "", "Unexpected token } in JSON at position 404", classify.Malformed},
	{"json.decoder.JSONDecodeError", "", "Expecting value: line 1 column 500 (char 0)", classify.Malformed},
	{"MethodNotAllowed", "", "", classify.NotSupported},
	{"", "501", "", classify.NotSupported},
	{"NoHandlerForMessageException", "", "", classify.NotSupported},
	{"", "", "no handler for type OrderPlaced", classify.NotSupported},
	{"TTLExpiredException", "", "", classify.Expired},
	{"", "", "Get \"https://api.example.com/v1\": context deadline exceeded", classify.Timeout},
	{"", "", "upstream: HTTP/1.1 503 Service Unavailable", classify.ServerError},
	{"", "", "rpc error: code = Unavailable desc = connection refused", classify.Unavailable},
	{"", "", "rpc error: code = DeadlineExceeded desc = context deadline exceeded", classify.Timeout},
	{"", "", "rpc error: code = PermissionDenied desc = caller lacks role", classify.Auth},
	{"", "", "rpc error: code = Unimplemented desc = unknown method", classify.NotSupported},
	{"requests.exceptions.ReadTimeout", "", "HTTPSConnectionPool(host='x', port=443): Read timed out. (read timeout=5)", classify.Timeout},
	{"requests.exceptions.ConnectionError", "", "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))", classify.Timeout},
	{"urllib3.exceptions.NewConnectionError", "", "Failed to establish a new connection: [Errno 111] Connection refused", classify.Unavailable},
	{"botocore.exceptions.ClientError", "", "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied", classify.Auth},
	{"botocore.exceptions.ClientError", "", "An error occurred (ThrottlingException) when calling the SendEmail operation (reached max retries: 4): Rate exceeded", classify.Throttled},
	{"KeyError", "", "'orderId'", classify.SchemaMismatch},
	{"pydantic.ValidationError", "", "1 validation error for Order", classify.SchemaMismatch},
	{"com.fasterxml.jackson.core.JsonParseException", "", "Unexpected character", classify.Malformed},
	{"com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException", "", "Unrecognized field \"x\"", classify.SchemaMismatch},
	{"org.apache.kafka.connect.errors.DataException", "", "", classify.Malformed},
	{"Faraday::ConnectionFailed", "", "execution expired", classify.Timeout},
	{"", "", "socket hang up", classify.Timeout},
	{"", "", "transient:503", classify.Unknown},
	{"transient:503", "503", "", classify.ServerError},
	{"transient:timeout", "timeout", "", classify.Timeout},
	{"Unhandled", "", "TimeoutError: upstream gave no answer", classify.Timeout},
	{"", "504", "", classify.ServerError},
	{"", "", "504 Gateway Timeout", classify.Timeout},
	{"HttpError", "", "status=502", classify.ServerError},
	{"", "", "server said 401 Unauthorized", classify.Auth},
	{"", "", "error 404: customer not found", classify.InvalidDestination},
	// Words of an unknown outcome override a type and a code that is no status.
	{"ValidationError", "", "validation service timed out", classify.Timeout},
	{"", "ECONNREFUSED", "request timed out", classify.Timeout},
	{"", "429", "request timed out", classify.Throttled},
	// What must not decide.
	{"", "", "invoice 503 Service fee missing", classify.Unknown},
	{"", "", "amount 400 is above the limit", classify.Unknown},
	{"", "", "room 401 double booked", classify.Unknown},
	{"", "", "customer 429 returned 500 items", classify.Unknown},
	{"", "", "batch 500 failed", classify.Unknown},
	{"", "", "the total is 500", classify.Unknown},
	{"", "", "a basket with 404, paid", classify.Unknown},
	{"", "", "upload failed with 500", classify.ServerError},
	{"", "", "unit of order 5031 broken", classify.Unknown},
	{"", "", "order 404 could not be processed", classify.Unknown},
	{"", "", "order 404-500 could not be processed", classify.Unknown},
	{"", "", "order 404 not found in the catalogue", classify.Unknown},
	{"", "", "order #404 not found", classify.Unknown},
	{"", "", "ticket 429 too many lines", classify.Unknown},
	{"", "", "version 409 conflict with the draft", classify.Unknown},
	{"", "", "order 404: 404 not found", classify.InvalidDestination},
	{"", "", "GET https://api.example.com/orders/7 404 Not Found", classify.InvalidDestination},
	{"", "", "unexpected status 404 not found", classify.InvalidDestination},
	{"", "", "failed with 404 not found", classify.InvalidDestination},
	{"", "", "HTTP/1.1 404 not found", classify.InvalidDestination},
	{"", "", "HTTP/1.0 404 not found", classify.InvalidDestination},
	{"", "", "HTTP error code 404 not found", classify.InvalidDestination},
	{"", "", "the request ended in 404 not found", classify.InvalidDestination},
	{"", "", "404 not found", classify.InvalidDestination},
	{"", "", "shelf EOF-12 is empty", classify.Unknown},
	{"", "", "pallet TIMEOUT-77A went missing", classify.Unknown},
	{"", "", "sku 429 is out of stock", classify.Unknown},
	{"", "", "got 500 rows", classify.Unknown},
	{"", "", "order o-404 could not be processed: timeout", classify.Timeout},
	{"", "", "order 404 could not be processed: timeout", classify.Timeout},
	{"", "", "got 429 from the gate, then the provider answered 500", classify.ServerError},
	{"", "", "provider answered 500, retry got 429", classify.Throttled},
	{"", "", "cannot reach 'timeout-service'", classify.Unknown},
	{"", "", "queue payment-timeout-alerts is full", classify.Unknown},
	{"", "", "https://api.example.com/timeout/503 could not be read", classify.Unknown},
	{"attempts_exhausted", "", "", classify.Unknown},
	{"RetriesExhausted", "", "", classify.Unknown},
	{"MaxDeliveryCountExceeded", "", "Message could not be consumed after 10 delivery attempts.", classify.Unknown},
	{"App\\Exception\\MailerDown", "0", "smtp went away", classify.Unknown},
	{"System.InvalidOperationException", "", "", classify.Unknown},
	{"", "200", "", classify.Unknown},
	{"Error", "", "something went wrong", classify.Unknown},
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, e := range evidence {
		j := job.Job{Failure: job.Failure{Type: e.typ, Code: e.code, Message: e.message}}
		if got := p.Classify(j, now); got.Class != e.want {
			t.Errorf("type %q code %q message %q: %s (rule %s, cause %+v), want %s", e.typ, e.code, e.message, got.Class, got.Rule, job.CauseOf(j.Failure), e.want)
		}
	}
}

func TestExpiryKeepsTheWorseEffect(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t).WithMaxAge(time.Hour)
	j := job.Job{Failure: job.Failure{Code: "504"}, Message: broker.Message{SentAt: now.Add(-2 * time.Hour)}}
	want := classify.Result{Class: classify.Expired, Rule: classify.MaxAgeRule, Effect: classify.EffectUnknown, Disposition: classify.Discard, MaxAge: time.Hour, Evidence: "none; it is too late"}
	if d := cmp.Diff(want, p.Classify(j, now)); d != "" {
		t.Error(d)
	}
	j.Failure.Code = "429"
	if got := p.Classify(j, now); got.Effect != classify.EffectNone || got.Class != classify.Expired {
		t.Errorf("late and throttled: %+v", got)
	}
	j.Message = broker.Message{ExpiresAt: now}
	if got := p.Classify(j, now); got.Rule != classify.BrokerRule {
		t.Errorf("expired by the broker: %+v", got)
	}
}

func TestOfUndefinedClassIsUnknown(t *testing.T) {
	t.Parallel()
	got := defaultPolicy(t).Of("no_such", "r")
	if got.Class != classify.Unknown || got.Disposition != classify.Hold || got.Effect != classify.EffectUnknown {
		t.Errorf("%+v", got)
	}
}

func BenchmarkClassify(b *testing.B) {
	p := defaultPolicy(b)
	m := broker.Message{Body: []byte(`{"orderId":"o-1","lines":[{"sku":"A1","qty":2}],"error":{"name":"Error","message":"order 404 could not be processed: connect ECONNREFUSED 127.0.0.1:25"},"original":{"a":1}}`)}
	j := job.Decode(m, "q")
	b.Run("classify", func(b *testing.B) {
		for b.Loop() {
			p.Classify(j, now)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			job.Decode(m, "q")
		}
	})
}

// TestRolledBack: a job whose redrive was rolled back has the class under which it
// went out, where no rule says otherwise; nothing else is a class by its type's name.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, c := range p.Classes() {
		r := p.Classify(job.Job{Failure: job.Failure{Type: string(c), Message: "rolled_back"}}, now)
		if r.Class != c {
			t.Errorf("%s came back as %s by rule %s", c, r.Class, r.Rule)
		}
	}
	for name, c := range map[string]struct {
		failure     job.Failure
		class, rule string
	}{
		"by its class":     {job.Failure{Type: "rejected_payload", Message: "rolled_back"}, "rejected_payload", "rolled_back"},
		"a rule decides":   {job.Failure{Type: "rejected_payload", Code: "429", Message: "rolled_back"}, "throttled", "throttled"},
		"another message":  {job.Failure{Type: "rejected_payload", Message: "was rolled_back"}, "unknown", "none"},
		"no class":         {job.Failure{Type: "nonsense", Message: "rolled_back"}, "unknown", "none"},
		"no class at all":  {job.Failure{Message: "rolled_back"}, "unknown", "none"},
		"unknown as it is": {job.Failure{Type: "unknown", Message: "rolled_back"}, "unknown", "rolled_back"},
	} {
		r := p.Classify(job.Job{Failure: c.failure}, now)
		if string(r.Class) != c.class || r.Rule != c.rule {
			t.Errorf("%s: %s by %s", name, r.Class, r.Rule)
		}
	}
}
