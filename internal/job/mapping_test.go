package job_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

func mapping(t testing.TB, byField map[string]string) *job.Mapping {
	t.Helper()
	m, err := job.NewMapping(byField)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// TestMappingGivesEveryField maps all there is.
func TestMappingGivesEveryField(t *testing.T) {
	t.Parallel()
	m := mapping(t, map[string]string{
		"job_key": `sha256(body.id + ":" + attributes.consumer)`, "subject": `body.id`, "version": `body.rev`, "kind": `body["what"]`,
		"channel": `attributes["ch"]`, "customer_id": `body.who.id`, "customer_status": `body.who.tags[1]`, "period": `message_id`,
		"region": `origin`, "schema_version": `receives`, "deployment_id": `order_key`, "trace_context": `text.substring(0, 3)`,
		"attempt": `body.tries`, "quarantined_by": `"integration"`, "payload": `body.doc`,
		"failure.type": `body.err.split("/")[0]`, "failure.code": `body.err.split("/")[1]`, "failure.message": `"it said " + body.say`, "failure.at": `body.when`,
	})
	body := `{"id":"o-1","rev":9007199254740993,"what":"order","who":{"id":-5,"tags":["a","gold"]},"tries":4,"doc": {"b": 2, "a":1.0 } ,"err":"Busy/429","say":"no","when":"2026-10-01T12:00:00+02:00"}`
	got := m.Decode(broker.Message{
		MessageID: "m-1", Origin: "orders", OrderKey: "g-1", Receives: 3, Body: []byte(body),
		Attributes: []broker.Attribute{{Name: "consumer", Type: "String", Value: []byte("mailer")}, {Name: "ch", Type: "String", Value: []byte("sms")}},
	}, "q")
	four := 4
	want := job.Job{
		JobKey: sum("o-1:mailer"), Subject: "o-1", Version: "9007199254740993", Kind: "order", Channel: "sms", CustomerID: "-5", CustomerStatus: "gold",
		Period: "m-1", Region: "orders", SchemaVersion: "3", DeploymentID: "g-1", TraceContext: `{"i`, Format: job.Bare,
		Payload: []byte(`{"b": 2, "a":1.0 }`), PayloadBytes: 18, Task: "order", QuarantinedBy: job.ByIntegration, AttemptOnCopy: &four, Redrivable: true,
		Failure:       job.Failure{Type: "Busy", Code: "429", Message: "it said no", At: time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC), Field: "envelope.failure"},
		PayloadSHA256: sum(`{"b": 2, "a":1.0 }`), BodySHA256: sum(body), MessageSHA256: got.MessageSHA256, Origin: "orders", Queue: "q", Message: got.Message,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

// TestMappedText is what an expression gives, and what it is then worth.
func TestMappedText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, expr string
		want       string // of the job key
		fails      string // in DecodeError
	}{
		"text":                     {`{"a":"x"}`, `body.a`, "x", ""},
		"missing key":              {`{"a":"x"}`, `body.b`, "", ""},
		"missing deeper":           {`{"a":"x"}`, `body.b.c.d`, "", ""},
		"missing in a larger":      {`{"a":"x"}`, `"k:" + body.b`, "", ""},
		"missing index":            {`{"a":[]}`, `body.a[0]`, "", ""},
		"missing attribute":        {`{}`, `attributes.nobody`, "", ""},
		"field of a text":          {`{"a":"x"}`, `body.a.b`, "", ""},
		"null":                     {`{"a":null}`, `body.a`, "", ""},
		"of null":                  {`{"a":null}`, `body.a.b`, "", ""},
		"has":                      {`{"a":"x"}`, `has(body.b) ? body.b : "other"`, "other", ""},
		"body that is no JSON":     {`a,b`, `body.a`, "", ""},
		"text that is no JSON":     {`a,b`, `text.split(",")[1]`, "b", ""},
		"no UTF-8":                 {"\xff\xfe", `text`, "", ""},
		"bytes that are no UTF-8":  {"\xff\xfe", `sha256(bytes)`, sum("\xff\xfe"), ""},
		"JSON that is no UTF-8":    {"{\"a\":\"\xff\"}", `body.a`, "", ""},
		"beyond 53 bits":           {`{"a":9007199254740993}`, `body.a`, "9007199254740993", ""},
		"beyond 63 bits":           {`{"a":18446744073709551615}`, `string(body.a)`, "18446744073709551615", ""},
		"beyond 64 bits":           {`{"a":184467440737095516159}`, `body.a`, "184467440737095516159", ""},
		"half a character":         {`{"a":"\ud800","b":"x"}`, `body.a`, "", "envelope.job_key: body: a text has half a character in it"},
		"a replacement of its own": {`{"a":"\ufffd"}`, `body.a`, "\ufffd", ""},
		"a list":                   {`[{"a":"x"},"y"]`, `body[0].a + body[1]`, "xy", ""},
		"a fraction":               {`{"a":1.5}`, `body.a`, "", "envelope.job_key: gives double, not a string or a whole number"},
		"an object":                {`{"a":{}}`, `body.a`, "", "envelope.job_key: gives map, not"},
		"a bool":                   {`{"a":true}`, `body.a`, "", "envelope.job_key: gives bool, not"},
		"a conversion":             {`{"a":"x"}`, `string(int(body.a))`, "", "envelope.job_key: "},
		"an operator":              {`{"a":null}`, `"k:" + body.a`, "", "envelope.job_key: no such overload"},
		"a key twice":              {`{"a":"x","b":{"c":1,"c":2}}`, `body.a`, "", `envelope.job_key: body: duplicate key "c"`},
		"a key twice, not read":    {`{"a":"x","a":"y"}`, `text.substring(2, 3)`, "a", ""},
		"too long":                 {`{"a":"` + strings.Repeat("x", 70_000) + `"}`, `body.a`, "", "envelope.job_key: gives more than 65536 bytes"},
		"too dear":                 {`[` + strings.Repeat(`"x",`, 2000) + `"x"]`, `string(body.all(a, body.all(b, body.all(c, a == b && b == c))))`, "", "envelope.job_key: "},
		"too deep":                 {strings.Repeat("[", 300) + strings.Repeat("]", 300), `body[0]`, "", "nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := mapping(t, map[string]string{"job_key": tt.expr}).Decode(broker.Message{Body: []byte(tt.body)}, "q")
			failed := tt.fails != ""
			if j.JobKey != tt.want || j.MappingFailed != failed || failed != (j.DecodeError != "") || !strings.Contains(j.DecodeError, tt.fails) || !j.Redrivable {
				t.Errorf("job key %q, failed %v, error %q", j.JobKey, j.MappingFailed, j.DecodeError)
			}
		})
	}
}

// TestMappingDecidesWhatItNames: recognition keeps what the mapping does not name,
// and has no say in what it does, also where the mapping knows nothing.
func TestMappingDecidesWhatItNames(t *testing.T) {
	t.Parallel()
	own := broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k","version":"8","kind":"digest","payload":{"a":1},"failure":{"type":"Busy","code":"429","message":"wait"}}`)}
	m := mapping(t, map[string]string{"version": `"9"`, "kind": `body.nothing`, "failure.code": `"503"`})
	got, plain := m.Decode(own, "q"), job.Decode(own, "q")
	want := plain
	want.Version, want.Kind, want.Task = "9", "", ""
	want.Failure.Code, want.Failure.Field = "503", "envelope.failure"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	var none *job.Mapping
	if diff := cmp.Diff(plain, none.Decode(own, "q")); diff != "" {
		t.Errorf("without a mapping (-want +got):\n%s", diff)
	}
}

// TestMappedFailure: a message alone names the innermost cause, a mapped type
// stays as it is.
func TestMappedFailure(t *testing.T) {
	t.Parallel()
	const text = `{"e":"sending failed: Caused by: java.net.SocketTimeoutException: read timed out"}`
	for name, tt := range map[string]struct {
		byField map[string]string
		want    job.Failure
		by      job.QuarantinedBy
	}{
		"message alone": {map[string]string{"failure.message": `body.e`}, job.Failure{Type: "java.net.SocketTimeoutException", Message: "read timed out", Field: "envelope.failure"}, job.ByApplication},
		"type too":      {map[string]string{"failure.message": `body.e`, "failure.type": `"SendFailed"`}, job.Failure{Type: "SendFailed", Message: text[6 : len(text)-2], Field: "envelope.failure"}, job.ByApplication},
		"code alone":    {map[string]string{"failure.code": `429`}, job.Failure{Type: "429", Code: "429", Field: "envelope.failure"}, job.ByApplication},
		"nothing":       {map[string]string{"failure.message": `body.nothing`}, job.Failure{}, job.ByUnknown},
		"time":          {map[string]string{"failure.at": `timestamp("2026-10-01T12:00:00Z")`}, job.Failure{At: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}, job.ByUnknown},
		"time by clock": {map[string]string{"failure.at": `1790856000`}, job.Failure{At: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}, job.ByUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := mapping(t, tt.byField).Decode(broker.Message{Body: []byte(text)}, "q")
			if diff := cmp.Diff(tt.want, j.Failure); diff != "" || j.QuarantinedBy != tt.by {
				t.Errorf("quarantined by %s; failure (-want +got):\n%s", j.QuarantinedBy, diff)
			}
		})
	}
}

// TestMappedPayload: exactly the bytes that the message has, or the payload that
// was recognised and an error.
func TestMappedPayload(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, expr, want, fails string }{
		"object":       {`{"p": {"b" : 1.50,"a":"\u0041"} }`, `body.p`, `{"b" : 1.50,"a":"\u0041"}`, ""},
		"deeper":       {`{"m":{"p-1":[1, 2]}}`, `body.m["p-1"]`, `[1, 2]`, ""},
		"number":       {`{"p":1.50}`, `body.p`, `1.50`, ""},
		"string":       {`{"p":"\u0041{}"}`, `body.p`, `A{}`, ""},
		"whole":        {` {"p":1} `, `body`, `{"p":1}`, ""},
		"base64":       {`{"p":"AP8="}`, `base64.decode(body.p)`, "\x00\xff", ""},
		"text":         {`head|tail`, `text.split("|")[1]`, "tail", ""},
		"bytes":        {"\x00\xff", `bytes`, "\x00\xff", ""},
		"attribute":    {`x`, `attributes.p`, "from-attribute", ""},
		"missing":      {`{"p":1}`, `body.q`, `{"p":1}`, "envelope.payload: the message has no such payload"},
		"null":         {`{"p":null}`, `body.p`, `{"p":null}`, "envelope.payload: the message has no such payload"},
		"no JSON":      {`p`, `body.p`, `p`, "envelope.payload: the message has no such payload"},
		"bad encoding": {`{"p":"?"}`, `base64.decode(body.p)`, `{"p":"?"}`, "envelope.payload: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := broker.Message{Body: []byte(tt.body), Attributes: []broker.Attribute{{Name: "p", Value: []byte("from-attribute")}}}
			j := mapping(t, map[string]string{"payload": tt.expr}).Decode(m, "q")
			if string(j.Payload) != tt.want || j.PayloadSHA256 != sum(tt.want) || j.PayloadBytes != len(tt.want) || (j.DecodeError == "") != (tt.fails == "") || !strings.Contains(j.DecodeError, tt.fails) {
				t.Errorf("payload %q (%d bytes), error %q", j.Payload, j.PayloadBytes, j.DecodeError)
			}
		})
	}
}

// FuzzMapping: no message makes a mapping panic, changes a byte, or gives a
// failed mapping without its reason.
func FuzzMapping(f *testing.F) {
	m := mapping(f, map[string]string{
		"job_key": `sha256(bytes) + body.id`, "version": `body.v`, "payload": `body.p.q`, "failure.at": `body.at`, "failure.message": `attributes.a`,
		"attempt": `body.n`, "quarantined_by": `body.by`, "customer_id": `text.split("\"")[3]`, "kind": `body.list.filter(x, x != "a")[0]`,
	})
	for _, body := range []string{`{"id":"a","v":1e9,"p":{"q":"x"},"at":1790856000,"n":-1,"by":"me","list":["a",7]}`, `[1`, "\xff", `{"id":1,"id":2}`, ``} {
		f.Add([]byte(body), "v")
	}
	f.Fuzz(func(t *testing.T, body []byte, value string) {
		kept := bytes.Clone(body)
		j := m.Decode(broker.Message{Body: body, Attributes: []broker.Attribute{{Name: "a", Value: []byte(value)}}}, "q")
		if !bytes.Equal(kept, j.Message.Body) || j.MappingFailed && j.DecodeError == "" || j.PayloadSHA256 != sum(string(j.Payload)) {
			t.Errorf("%+v", j)
		}
	})
}
