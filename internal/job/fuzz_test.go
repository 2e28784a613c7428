package job_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// nest puts a template into itself n times, as a JSON string in place of "%".
func nest(template string, n int) string {
	text := "x"
	for range n {
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		text = strings.Replace(template, "%", string(quoted), 1)
	}
	return text
}

// FuzzDecode runs every decoder: no message makes one panic or changes bytes,
// and decoding is deterministic.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob("testdata/samples/*.json")
	if err != nil || len(paths) == 0 {
		f.Fatal("no samples", err)
	}
	for _, c := range decoded {
		f.Add(c.message.Body, "", "")
		for _, a := range c.message.Attributes {
			f.Add(c.message.Body, a.Name, string(a.Value))
		}
	}
	for _, name := range []string{"ErrorCode", "TARGET_ARN", "X-Symfony-Headers", "contentEncoding", "redrivectl", "RequestID"} {
		f.Add([]byte(`{"job":{},"delivery_key":"k","reason":"terminal:400"}`), name, `{"a\\ErrorDetailsStamp":"[{}]"}`)
	}
	for _, name := range []string{
		"MT-Reason", "MT-Fault-ExceptionType", "NServiceBus.FailedQ", "NServiceBus.ExceptionInfo.StackTrace", "rbs2-error-details", "x-exception-stacktrace", "kafka_dlt-exception-stacktrace",
		"kafka_deliveryAttempt", "__connect.errors.exception.class.name", `X-Message-Stamp-a\ErrorDetailsStamp`, "CloudPubSubDeadLetterSourceSubscription", "x-death", "unreadable", "dead_letter_reason_type",
	} {
		f.Add([]byte(`{"class":"A","args":[{"job_class":"B"}],"jid":"1","displayName":"d","job":"j"}`), name, "a.B: x\n\tat a.b(C.java:1)\nCaused by: c.D: y\n ---> E.F (1): z 10/1/2026 +00:00: G.H: 503")
	}
	f.Fuzz(func(t *testing.T, body []byte, name, value string) {
		kept := bytes.Clone(body)
		as := []broker.Attribute{{Name: name, Type: "String", Value: []byte(value)}, {Name: "ErrorMessage", Value: []byte(value)}}
		for _, m := range []broker.Message{{Body: body, Attributes: as}, {Body: body, System: as}, {Body: body, Attributes: as, System: as[:1], Origin: "o"}} {
			j := job.Decode(m, "q")
			if !bytes.Equal(kept, j.Message.Body) || j.QuarantinedBy == "" || j.Format == "" || len(j.MessageSHA256) != 64 || j.Redrivable != (j.WhyNot == "") || j.Original != nil && !j.Redrivable {
				t.Errorf("%+v", j)
			}
			if again := job.Decode(m, "q"); again.Failure != j.Failure || again.JobKey != j.JobKey || again.PayloadSHA256 != j.PayloadSHA256 || again.BodySHA256 != j.BodySHA256 {
				t.Error("two decodings differ")
			}
			job.CauseOf(j.Failure)
		}
	})
}

func FuzzCauseOf(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 503 Service Unavailable", "order 404: i/o timeout", "'quoted", `a\b:c.d/e`, "Caused by: x", "é😀 timed out"} {
		f.Add("ECONNRESET", "java.net.SocketTimeoutException", s)
	}
	f.Fuzz(func(t *testing.T, code, typ, message string) {
		c := job.CauseOf(job.Failure{Code: code, Type: typ, Message: message})
		if (c.Signal == job.SignalHTTP) != (c.HTTPStatus != 0) || (c.Signal == job.NoSignal) != (c.From == "") {
			t.Errorf("%+v", c)
		}
	})
}
