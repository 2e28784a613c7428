package job_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

func envelopeSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	b, err := job.EnvelopeSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("envelope.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("envelope.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agree holds one message to both: what the schema refuses is malformed, and
// nothing else is.
func agree(t rapid.TB, s *jsonschema.Schema, body string) (valid bool) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	refused := s.Validate(v)
	j := job.Decode(broker.Message{Body: []byte(body)}, "q")
	if j.Format != job.FormatOwn || j.Malformed != (refused != nil) || j.Malformed != (j.DecodeError != "") {
		t.Fatalf("%s: format %s, malformed %v (%s); the schema says: %v", body, j.Format, j.Malformed, j.DecodeError, refused)
	}
	return refused == nil
}

// TestEnvelopeSchemaTakes is what the schema and the decoder take, the example of
// the docs first.
func TestEnvelopeSchemaTakes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/envelope.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("the page has no example")
	}
	s := envelopeSchema(t)
	for _, body := range []string{
		string(example[1]),
		`{"format":"redrivectl/v1","payload":null}`,
		`{"format":"redrivectl/v1","payload_base64":""}`,
		`{"format":"redrivectl/v1","payload_base64":"AP8=\n"}`,
		`{"format":"redrivectl/v1","payload":1,"version":8,"schema_version":"3","attempt":1.0,"customer":{"id":17},"failure":{"code":429}}`,
		`{"format":"redrivectl/v1","payload":1,"version":1e2,"customer":null,"failure":null,"references":null,"job_key":null,"attempt":-0}`,
		`{"format":"redrivectl/v1","payload":1,"references":[],"customer":{},"failure":{},"something":["else"]}`,
		`{"format":"redrivectl/v1","payload":1,"references":[{"kind":"rendering","uri":"file:x","sha256":null,"more":1}]}`,
	} {
		if !agree(t, s, body) {
			t.Errorf("refused: %s", body)
		}
	}
}

func TestEnvelopeSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := envelopeSchema(t)
	for _, rest := range []string{
		``, `,"payload":1,"payload_base64":"AA=="`, `,"payload_base64":null`, `,"payload_base64":1`, `,"payload_base64":"AA="`, `,"payload_base64":"A*=="`,
		`,"payload":1,"job_key":7`, `,"payload":1,"version":1.5`, `,"payload":1,"version":true`, `,"payload":1,"version":1e-1`, `,"payload":1,"attempt":"3"`, `,"payload":1,"attempt":1.25e1`,
		`,"payload":1,"customer":"c"`, `,"payload":1,"customer":{"id":{}}`, `,"payload":1,"customer":{"status":1}`, `,"payload":1,"failure":[]`, `,"payload":1,"failure":{"message":1}`, `,"payload":1,"failure":{"code":0.5}`,
		`,"payload":1,"references":{}`, `,"payload":1,"references":["x"]`, `,"payload":1,"references":[null]`, `,"payload":1,"references":[{"uri":1}]`,
	} {
		if body := `{"format":"redrivectl/v1"` + rest + `}`; agree(t, s, body) {
			t.Errorf("taken: %s", body)
		}
	}
}

// TestEnvelopeSchemaAgrees draws envelopes whose fields hold anything.
func TestEnvelopeSchemaAgrees(t *testing.T) {
	t.Parallel()
	s := envelopeSchema(t)
	names := []string{
		"job_key", "subject", "version", "kind", "channel", "customer", "period", "region", "schema_version", "deployment_id", "trace_context",
		"failure", "quarantined_by", "attempt", "references", "payload", "payload_base64", "unheard",
	}
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		fields := map[string]json.RawMessage{"format": json.RawMessage(`"redrivectl/v1"`)}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 5).Draw(t, "names") {
			fields[name] = drawJSON(t, 2)
		}
		if rapid.Bool().Draw(t, "whole") {
			delete(fields, "payload_base64")
			fields["payload"] = drawJSON(t, 1)
		}
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if agree(t, s, string(b)) {
			taken++
		}
	})
	if taken == 0 {
		t.Error("no envelope was valid, so the test shows half of it")
	}
}

// drawJSON draws a value of any kind, with the inner fields of an envelope in its
// objects.
func drawJSON(t *rapid.T, depth int) json.RawMessage {
	values := []string{`null`, `true`, `""`, `"x"`, `"AP8="`, `"AP8"`, "\"A\\nP8=\"", `0`, `-7`, `1.0`, `1.5`, `1e2`, `15e-1`, `150e-1`, `0.0e9`, `12345678901234567890`}
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	switch {
	case depth > 0 && kind == 0:
		o := map[string]json.RawMessage{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"id", "status", "type", "code", "message", "at", "kind", "uri", "sha256"}), 0, 3).Draw(t, "inner") {
			o[name] = drawJSON(t, depth-1)
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case depth > 0 && kind == 1:
		var list []string
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			list = append(list, string(drawJSON(t, depth-1)))
		}
		return json.RawMessage("[" + strings.Join(list, ",") + "]")
	}
	return json.RawMessage(rapid.SampledFrom(values).Draw(t, "value"))
}

// FuzzEnvelopeSchema draws the fields as texts.
func FuzzEnvelopeSchema(f *testing.F) {
	s := envelopeSchema(f)
	f.Add("version", `1e2`)
	f.Add("payload_base64", `"AP8="`)
	f.Add("references", `[{"uri":""}]`)
	huge := regexp.MustCompile(`[eE][+-]?[0-9]{4}`) // the schema's library computes what is written
	f.Fuzz(func(t *testing.T, name, value string) {
		key, err := json.Marshal(name)
		if err != nil || !json.Valid([]byte(value)) || name == "format" || len(value) > 4096 || huge.MatchString(value) || strings.Count(value, ":") > 1 || strings.Count(value, "[") > 100 || !utf8.ValidString(value) {
			t.Skip()
		}
		for _, rest := range []string{"", `,"payload":1`} {
			if rest != "" && name == "payload" {
				continue
			}
			agree(t, s, `{"format":"redrivectl/v1",`+string(key)+`:`+value+rest+`}`)
		}
	})
}
