package job_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

func decodeQ(m broker.Message) job.Job { return job.Decode(m, "q") }

// rewritten are messages, the payload they get, and what must come of them.
var rewritten = map[string]struct {
	message broker.Message
	payload string
	body    string // wanted; empty: refused
	attrs   []broker.Attribute
}{
	"own envelope": {
		message: broker.Message{Body: []byte("{\"format\":\"redrivectl/v1\", \"job_key\" : \"k\",\n\"payload\":{ \"n\" : 1.0 } ,\"later\":[1, 2]}"), Attributes: attrs("n", "7")},
		payload: `{"n":2}`,
		body:    "{\"format\":\"redrivectl/v1\", \"job_key\" : \"k~r\",\n\"payload\":{\"n\":2} ,\"later\":[1, 2]}",
		attrs:   attrs("n", "7"),
	},
	"own envelope, the payload last and spaced": {
		message: broker.Message{Body: []byte(`{"format":"redrivectl/v1","payload": 1 , "job_key":"k" }`)},
		payload: `[1]`, body: `{"format":"redrivectl/v1","payload": [1] , "job_key":"k~r" }`,
	},
	"own envelope in base64": {
		message: broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k","payload_base64":"eyJhIjoxfQ=="}`)},
		payload: `{"a":2}`, body: `{"format":"redrivectl/v1","job_key":"k~r","payload_base64":"eyJhIjoyfQ=="}`,
	},
	"own envelope, the key in an attribute": {
		message: broker.Message{Body: []byte(`{"format":"redrivectl/v1","payload":1}`), Attributes: attrs("Job-Key", "k", "x", "k")},
		payload: `2`, body: `{"format":"redrivectl/v1","payload":2}`, attrs: attrs("Job-Key", "k~r", "x", "k"),
	},
	"own envelope, the key also in the payload": {
		message: broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k","payload":{"delivery_key":"k","idempotency_key":"other"}}`)},
		payload: `{"a":1,"delivery_key":"k","idempotency_key":"other"}`,
		body:    `{"format":"redrivectl/v1","job_key":"k~r","payload":{"a":1,"delivery_key":"k~r","idempotency_key":"other"}}`,
	},
	"retry envelope": {
		message: broker.Message{Body: []byte(`{"job":{"a":1},"delivery_key":"k","reason":"terminal:400"}`)},
		payload: `{"a":"é<"}`, body: `{"job":{"a":"é<"},"delivery_key":"k~r","reason":"terminal:400"}`,
	},
	"retry envelope, the job as text": {
		message: broker.Message{Body: []byte(`{"job":"{\"a\":1}","delivery_key":"k","reason":"terminal:400"}`)},
		payload: `{"a":"<"}`, body: `{"job":"{\"a\":\"<\"}","delivery_key":"k~r","reason":"terminal:400"}`,
	},
	"bare, the key in the body": {
		message: broker.Message{Body: []byte(`{"job_key":"k","a":1,"version":3}`)},
		payload: `{"a":2,"job_key":"k","version":3}`, body: `{"a":2,"job_key":"k~r","version":3}`,
	},
	"bare, the key in an attribute and in the body": {
		message: broker.Message{Body: []byte(`{"job_key":"k","a":1}`), Attributes: attrs("deliveryKey", "k")},
		payload: `{"a":2,"job_key":"k"}`, body: `{"a":2,"job_key":"k~r"}`, attrs: attrs("deliveryKey", "k~r"),
	},
	"bare, the key in the one attribute for all": {
		message: broker.Message{Body: []byte(`{"a":1}`), Attributes: attrs("redrivectl", `{"kind":"x", "job_key":"k"}`)},
		payload: `{"a":2}`, body: `{"a":2}`, attrs: attrs("redrivectl", `{"kind":"x", "job_key":"k~r"}`),
	},
	"a schema version is the edit's to change": {
		message: broker.Message{Body: []byte(`{"job_key":"k","schema_version":1}`)},
		payload: `{"job_key":"k","schema_version":2}`, body: `{"job_key":"k~r","schema_version":2}`,
	},

	"refused: a version that changes":   {message: broker.Message{Body: []byte(`{"job_key":"k","version":3}`)}, payload: `{"job_key":"k","version":4}`},
	"refused: a region that changes":    {message: broker.Message{Body: []byte(`{"job_key":"k","region":"eu"}`)}, payload: `{"job_key":"k","region":"us"}`},
	"refused: a customer that changes":  {message: broker.Message{Body: []byte(`{"job_key":"k","customer_id":"a"}`)}, payload: `{"job_key":"k","customer_id":"b"}`},
	"refused: the key edited away":      {message: broker.Message{Body: []byte(`{"job_key":"k"}`)}, payload: `{"a":1}`},
	"refused: the key edited":           {message: broker.Message{Body: []byte(`{"job_key":"k"}`)}, payload: `{"job_key":"mine"}`},
	"refused: a second identity":        {message: broker.Message{Body: []byte(`{"a":1}`), Attributes: attrs("job_key", "k", "idempotency-key", "i")}, payload: `{"a":2}`},
	"refused: a second identity inside": {message: broker.Message{Body: []byte(`{"job_key":"k","idempotency_key":"i"}`)}, payload: `{"idempotency_key":"i","job_key":"k"}`},
	"refused: a key that is a number":   {message: broker.Message{Body: []byte(`{"job_key":7}`)}, payload: `{"a":1,"job_key":7}`},
	"refused: a name twice":             {message: broker.Message{Body: []byte(`{"job":{},"job":{},"delivery_key":"k","reason":"terminal:400"}`)}, payload: `{"a":1}`},
	"wrapped: the original alone": {
		message: broker.Message{Body: []byte(`{"error":"TypeError: x","original":{"job_key":"k","a":1}}`)},
		payload: `{"a":2,"job_key":"k"}`, body: `{"a":2,"job_key":"k~r"}`,
	},
	"refused: wrapped, with the key outside": {message: broker.Message{Body: []byte(`{"error":"TypeError: x","original":{"a":1}}`), Attributes: attrs("job_key", "k")}, payload: `{"a":2}`},
	"refused: a cloud event":                 {message: broker.Message{Body: []byte(`{"specversion":"1.0","type":"t","source":"s","id":"1","job_key":"k","data":{"a":1}}`)}, payload: `{"a":2}`},
	"refused: content elsewhere":             {message: broker.Message{Body: []byte(`{"format":"redrivectl/v1","job_key":"k","payload":1,"references":[{"kind":"rendering","uri":"s3://b/k"}]}`)}, payload: `2`},
	"refused: a payload that is an object":   {message: broker.Message{Body: []byte(`{"job_key":"k"}`)}, payload: `[1]`},
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	for name, c := range rewritten {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.message.OrderKey, c.message.System = "g", attrs(broker.SystemTraceHeader, "Root=1")
			got, err := job.Rewrite(decodeQ(c.message), decodeQ, []byte(c.payload), "k~r")
			if refused := strings.HasPrefix(name, "refused"); refused {
				if !errors.Is(err, job.ErrRewrite) {
					t.Errorf("not refused: %v, %s", err, got.Message.Body)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := c.message
			if strings.HasPrefix(name, "wrapped") {
				want.System = nil
			}
			want.Body, want.Attributes = []byte(c.body), c.attrs
			if d := cmp.Diff(want, got.Message); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRewriteWithoutKey(t *testing.T) {
	t.Parallel()
	j := decodeQ(broker.Message{Body: []byte(`{"a":1}`)})
	got, err := job.Rewrite(j, decodeQ, []byte(`{"a":2}`), "")
	if err != nil || string(got.Message.Body) != `{"a":2}` || got.JobKey != "" {
		t.Errorf("%s %v", got.Message.Body, err)
	}
	for payload, key := range map[string]string{`{"a":2}`: "new", `{"a":2,"job_key":"x"}`: ""} {
		if _, err := job.Rewrite(j, decodeQ, []byte(payload), key); !errors.Is(err, job.ErrRewrite) {
			t.Errorf("%s as %q: %v", payload, key, err)
		}
	}
}

// FuzzRewrite: what is rewritten reads as the new payload and key, and nothing
// else in it has changed; the original is never touched.
func FuzzRewrite(f *testing.F) {
	for _, c := range rewritten {
		name, value := "n", "1"
		if len(c.message.Attributes) > 0 {
			name, value = c.message.Attributes[0].Name, string(c.message.Attributes[0].Value)
		}
		f.Add(c.message.Body, name, value, c.payload)
	}
	f.Fuzz(func(t *testing.T, body []byte, name, value, payload string) {
		if !json.Valid([]byte(payload)) {
			return
		}
		m := broker.Message{Body: body, OrderKey: "g", Attributes: []broker.Attribute{{Name: name, Type: "String", Value: []byte(value)}, {Name: "n", Type: "Number.int", Value: []byte("7")}}}
		j := decodeQ(m)
		hashes := []string{j.PayloadSHA256, j.MessageSHA256}
		key := ""
		if j.JobKey != "" {
			key = j.JobKey + "~r"
		}
		got, err := job.Rewrite(j, decodeQ, []byte(payload), key)
		if again := decodeQ(m); again.PayloadSHA256 != hashes[0] || again.MessageSHA256 != hashes[1] {
			t.Fatal("the original was changed")
		}
		if err != nil {
			return
		}
		if got.JobKey != key || got.MessageSHA256 != decodeQ(got.Message).MessageSHA256 {
			t.Errorf("key %q, want %q", got.JobKey, key)
		}
		if d := cmp.Diff(unkeyed(payload, key, j.JobKey), unkeyed(string(got.Payload), key, j.JobKey)); d != "" {
			t.Errorf("payload: %s", d)
		}
		if j.Original != nil {
			return
		}
		for i, a := range got.Message.Attributes {
			if was := m.Attributes[i]; a.Name != was.Name || a.Type != was.Type || string(a.Value) != string(was.Value) && !strings.Contains(string(a.Value), "~r") {
				t.Errorf("attribute %+v was %+v", a, was)
			}
		}
		if got.Format == job.FormatOwn || got.Format == job.FormatRetry {
			if d := cmp.Diff(around(t, body), around(t, got.Message.Body)); d != "" {
				t.Errorf("envelope: %s", d)
			}
		}
	})
}

// unkeyed is a JSON text without the members that may hold the key, or a scalar.
func unkeyed(text, key, old string) any {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &o) != nil {
		return text
	}
	maps.DeleteFunc(o, func(_ string, v json.RawMessage) bool {
		var s string
		return json.Unmarshal(v, &s) == nil && (s == key || s == old)
	})
	return o
}

// around is an envelope less what a rewriting replaces.
func around(t *testing.T, body []byte) map[string]json.RawMessage {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(o, func(k string, _ json.RawMessage) bool {
		k = strings.NewReplacer("-", "", "_", "", ".", "", " ", "", "x", "").Replace(strings.ToLower(k))
		return slices.Contains([]string{"payload", "payloadbase64", "job", "jobkey", "deliverykey", "idempotencykey"}, k)
	})
	return o
}
