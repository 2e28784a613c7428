package config

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("redrivectl.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("redrivectl.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instance(t *testing.T, text string) any {
	t.Helper()
	j, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaTakesTheSamples(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	for _, name := range []string{"testdata/demo.yaml", "testdata/reference.yaml", "init_local.yaml"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance(t, string(b))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Validate(instance(t, uncommented(initLocal))); err != nil {
		t.Error(err)
	}
}

// onlyLoad are the bad files whose fault no JSON Schema can see.
var onlyLoad = []string{
	"syntax", "key twice", "two documents", "anchor, alias, merge, tag", "names that do not exist",
	"effects beside a provider", "one queue twice", "home", "ledger without a place", "provider's URL",
	"proves without a look-up", "credential's header", "look-up that proves more than it can", "shared store",
	"mapped payloads without bytes of their own", "path of a broker without one",
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	for _, bad := range badFiles {
		if slices.Contains(onlyLoad, bad.name) {
			continue
		}
		if err := s.Validate(instance(t, bad.text)); err == nil {
			t.Errorf("%s: the schema takes it", bad.name)
		}
	}
}

func TestKeysAreTheStructs(t *testing.T) {
	t.Parallel()
	types := typesByPath()
	delete(types, "")
	var inTable []string
	for _, k := range keys() {
		inTable = append(inTable, k.path)
		if k.doc == "" || k.value != "" && k.derived != "" {
			t.Errorf("%s: no meaning, or two defaults", k.path)
		}
		delete(types, k.path)
	}
	if len(types) > 0 {
		t.Errorf("keys without an entry in the table: %v", types)
	}
	all := typesByPath()
	for _, path := range inTable {
		if _, ok := all[path]; !ok {
			t.Errorf("%s is in the table and in no struct", path)
		}
	}
}

func TestInitTextLoads(t *testing.T) {
	t.Parallel()
	text, err := InitText(Local)
	if err != nil {
		t.Fatal(err)
	}
	q := NewQueue("jobs")
	q.Path = "/etc/queue.db"
	want := mustLoad(t, "")
	want.Queues["jobs"] = q
	wantConfig(t, mustLoad(t, text), want)

	if text, err = InitText(SQS); err != nil {
		t.Fatal(err)
	}
	q.Broker, q.Path = SQS, ""
	want.Queues["jobs"] = q
	wantConfig(t, mustLoad(t, text), want)
	if strings.Contains(text, "SQLite file.") {
		t.Error("the text for SQS speaks of a queue in a SQLite file")
	}

	if _, err := InitText("pubsub"); err == nil || !strings.Contains(err.Error(), "this build has local and sqs") {
		t.Errorf("another broker: %v", err)
	}
}

var commentedKey = regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`)

func uncommented(text string) string { return commentedKey.ReplaceAllString(text, "$1$2") }

// A setting that is shown at its default must be at it: what is not a default
// in the text is listed here.
func TestInitTextUncommented(t *testing.T) {
	t.Parallel()
	got := mustLoad(t, uncommented(initLocal))
	want := mustLoad(t, `
queues:
  jobs:
    dead_letter: jobs-dlq
    source: jobs
    consumer: mailer
    region: eu-west-1
    ledger: app
    provider: mail
    envelope:
      job_key: sha256(body.order.id + ":" + attributes.consumer)
      subject: body.order.id
      version: body.order.revision
      kind: body.type
      channel: attributes.channel
      customer_id: body.customer.id
      customer_status: body.customer.state
      period: body.week
      region: attributes.region
      schema_version: body.v
      deployment_id: attributes.build
      trace_context: attributes.trace
      attempt: body.tries
      quarantined_by: '"application"'
      payload: body.order
      failure: {type: body.error.kind, code: body.error.status, message: body.error.text, at: body.error.time}
ledgers: {app: {path: ledger.db, table: deliveries, history_table: deliveries_history, columns: {job_key: delivery_key, state: status}}}
providers:
  mail:
    base_url: https://mail.example.com
    credential: env:MAIL_TOKEN
    region: eu-west-1
    account: main
    idempotency: {header: Idempotency-Key, life: 22h}
    lookup:
      path: /messages?op_id={job_key}
      found: 'status == 200 && size(body.items) > 0'
      not_found: 'status == 200 && size(body.items) == 0'
      accepted: 'item.status != "rejected"'
      items: body.items
      bind: item.metadata.op_id
      request_id: item.id
      delay: 15m
      look_back: 30d
      page: {cursor: next, param: cursor, limit: 100}
    proves: [accepted, not_accepted]
policies: {default: {file: policy.yaml}}
store: {path: store.db, region: eu-west-1}
audit: {customer_key: file:customer.key}
`)
	wantConfig(t, got, want)
}

func TestInitTextShowsEveryKey(t *testing.T) {
	t.Parallel()
	for _, k := range keys() {
		name := k.path[strings.LastIndexByte(k.path, '.')+1:]
		if name != "*" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(initLocal) {
			t.Errorf("%s is not in the text", k.path)
		}
	}
}

const (
	docFile  = "../../docs/configuration.md"
	docBegin = "<!-- keys: generated -->\n\n"
	docEnd   = "\n<!-- end of keys -->"
)

// TestReferenceIsInTheDocs compares the table in the docs with a fresh one.
// UPDATE_DOCS=1 writes it.
func TestReferenceIsInTheDocs(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), docBegin)
	got, after, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatal("the docs have no place for the keys")
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(docFile, []byte(before+docBegin+Reference()+docEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Reference(), got); diff != "" {
		t.Errorf("docs/configuration.md (-fresh +there):\n%s\nrun UPDATE_DOCS=1 go test ./internal/config", diff)
	}
}

func TestFileInTheDocsLoads(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the docs show no file")
	}
	if c := mustLoad(t, text); len(c.Queues) != 2 {
		t.Errorf("got %d queues", len(c.Queues))
	}
}

func TestDocsNameEveryKey(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys() {
		if !strings.Contains(string(b), "| `"+docPath(k.path)+"` |") {
			t.Errorf("%s is not in the docs", k.path)
		}
	}
}
