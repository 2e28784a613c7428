package config

import (
	"errors"
	"reflect"

	"github.com/redrivectl/redrivectl/internal/expr"
	"github.com/redrivectl/redrivectl/internal/job"
)

// Envelope maps the fields of a job to CEL over a message (job.NewMapping). A
// field that is empty is left to recognition.
type Envelope struct {
	JobKey         string          `yaml:"job_key"`
	Subject        string          `yaml:"subject"`
	Version        string          `yaml:"version"`
	Kind           string          `yaml:"kind"`
	Channel        string          `yaml:"channel"`
	CustomerID     string          `yaml:"customer_id"`
	CustomerStatus string          `yaml:"customer_status"`
	Period         string          `yaml:"period"`
	Region         string          `yaml:"region"`
	SchemaVersion  string          `yaml:"schema_version"`
	DeploymentID   string          `yaml:"deployment_id"`
	TraceContext   string          `yaml:"trace_context"`
	Attempt        string          `yaml:"attempt"`
	QuarantinedBy  string          `yaml:"quarantined_by"`
	Payload        string          `yaml:"payload"`
	Failure        EnvelopeFailure `yaml:"failure"`
}

// EnvelopeFailure maps the parts of a job's failure.
type EnvelopeFailure struct {
	Type    string `yaml:"type"`
	Code    string `yaml:"code"`
	Message string `yaml:"message"`
	At      string `yaml:"at"`
}

// Mapping is the compiled mapping of a queue; nil where its messages are only
// recognised.
func (c *Config) Mapping(queue string) *job.Mapping { return c.mappings[queue] }

// expressions are the expressions by field, as the keys name it.
func (e Envelope) expressions() map[string]string {
	all := map[string]string{}
	gatherExpressions(all, reflect.ValueOf(e), "")
	return all
}

func gatherExpressions(all map[string]string, v reflect.Value, prefix string) {
	for i, name := range fieldNames(v.Type()) {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			gatherExpressions(all, f, prefix+name+".")
		case f.String() != "":
			all[prefix+name] = f.String()
		}
	}
}

// envelope compiles the mapping of a queue, so that a mistake in it is one of the
// file's.
func (k *checker) envelope(queue string, q Queue) {
	if q.Envelope == nil {
		return
	}
	m, err := job.NewMapping(q.Envelope.expressions())
	if err == nil {
		k.keepMapping(queue, m)
		return
	}
	for _, e := range leaves(err) {
		k.misfit("queues."+queue+".envelope", e)
	}
}

func (k *checker) keepMapping(queue string, m *job.Mapping) {
	if k.mappings == nil {
		k.mappings = map[string]*job.Mapping{}
	}
	k.mappings[queue] = m
}

// misfit reports one error of a mapping at its place within the expression.
func (k *checker) misfit(path string, err error) {
	var field job.FieldError
	if errors.As(err, &field) {
		path += "." + field.Field
	}
	at := k.At(path)
	var fault *expr.Fault
	if node := k.spots[path].node; errors.As(err, &fault) && node != nil {
		at.Line, at.Column = fault.Place(node)
	}
	k.problems = append(k.problems, Problem{at, path + ": " + errors.Unwrap(err).Error()})
}

// leaves are the errors that were joined.
func leaves(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func envelopeKeys() []key {
	const path = "queues.*.envelope"
	ks := []key{
		{path, "", "formats are recognised", "A mapping for messages of a form that is not recognised: CEL over `body`, `text`, `bytes`, `attributes`, `message_id`, `origin`, `order_key` and `receives`, for each field that it decides (see envelope.md)."},
		{path + ".failure", "", "recognised", "Why the job stopped."},
	}
	for _, f := range [][2]string{
		{"job_key", "CEL for the stable identity of the business effect."},
		{"subject", "CEL for what a newer version would replace."},
		{"version", "CEL for the version of the subject."},
		{"kind", "CEL for the kind of job."},
		{"channel", "CEL for the channel."},
		{"customer_id", "CEL for the customer's ID."},
		{"customer_status", "CEL for the customer's status when the job was made."},
		{"period", "CEL for the period."},
		{"region", "CEL for the region."},
		{"schema_version", "CEL for the payload's schema version."},
		{"deployment_id", "CEL for the deployment that made the job."},
		{"trace_context", "CEL for the trace context."},
		{"attempt", "CEL for the attempt that the copy carries; for display."},
		{"quarantined_by", "CEL for who moved the copy: `max_receives`, `application` or `integration`."},
		{"payload", "CEL for the job itself, byte for byte: a path of `body`, or a string or bytes."},
		{"failure.type", "CEL for the type of the last error."},
		{"failure.code", "CEL for its code."},
		{"failure.message", "CEL for its text."},
		{"failure.at", "CEL for when it happened: a timestamp, RFC 3339, or seconds or milliseconds since 1970."},
	} {
		ks = append(ks, key{path + "." + f[0], "", "recognised", f[1]})
	}
	return ks
}
