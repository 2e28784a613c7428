package classify

import (
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// fact is one variable of the rules' environment.
type fact struct {
	name string
	typ  *cel.Type
	doc  string
	read func(f *facts) any
}

// environment lists the variables that rules may use. docs/policy.md has the
// same list.
func environment() []fact {
	return []fact{
		{"reason.type", cel.StringType, "innermost error type or code, as found", func(f *facts) any { return f.job.Failure.Type }},
		{"reason.code", cel.StringType, "error code, as found", func(f *facts) any { return f.job.Failure.Code }},
		{"reason.message", cel.StringType, "error text, lower case, without numbers, ids, addresses and quoted values", func(f *facts) any { return f.normalised() }},
		{"signal", cel.StringType, "what the decisive code, type or words name; empty: nothing known", func(f *facts) any { return string(f.cause.Signal) }},
		{"signal_from", cel.StringType, "code, type or message", func(f *facts) any { return f.cause.From }},
		{"http_status", cel.IntType, "400 to 599 where an HTTP status decides, else 0", func(f *facts) any { return int64(f.cause.HTTPStatus) }},
		{"retry_after", cel.BoolType, "the message names a Retry-After", func(f *facts) any { return f.cause.RetryAfter }},
		{"malformed", cel.BoolType, "the message breaks its own declared form", func(f *facts) any { return f.job.Malformed }},
		{"receives", cel.IntType, "how often the broker delivered it", func(f *facts) any { return int64(f.job.Message.Receives) }},
		{"quarantined_by", cel.StringType, "max_receives, application, integration, unknown", func(f *facts) any { return string(f.job.QuarantinedBy) }},
		{"attributes", cel.MapType(cel.StringType, cel.StringType), "message attributes as text; a missing one reads as empty", func(f *facts) any { return newAttributes(f.job.Message.Attributes) }},
		{"format", cel.StringType, "the recognised envelope", func(f *facts) any { return f.job.Format }},
		{"kind", cel.StringType, "kind of job", func(f *facts) any { return f.job.Kind }},
		{"task", cel.StringType, "task name or body kind", func(f *facts) any { return f.job.Task }},
		{"channel", cel.StringType, "channel", func(f *facts) any { return f.job.Channel }},
		{"region", cel.StringType, "region", func(f *facts) any { return f.job.Region }},
		{"schema_version", cel.StringType, "schema version", func(f *facts) any { return f.job.SchemaVersion }},
		{"customer_status", cel.StringType, "status of the customer when the job was made", func(f *facts) any { return f.job.CustomerStatus }},
		{"queue", cel.StringType, "the dead-letter queue", func(f *facts) any { return f.job.Queue }},
		{"origin", cel.StringType, "where the copy was dead-lettered from", func(f *facts) any { return f.job.Origin }},
		{"payload_bytes", cel.IntType, "length of the payload", func(f *facts) any { return int64(f.job.PayloadBytes) }},
		{"age", cel.DurationType, "since the message was sent; 0s if the broker does not say", func(f *facts) any { return f.age }},
	}
}

func newEnv() (*cel.Env, error) {
	var opts []cel.EnvOption
	for _, f := range environment() {
		opts = append(opts, cel.VariableWithDoc(f.name, f.typ, f.doc))
	}
	return cel.NewEnv(opts...)
}

// facts is one job as the rules see it: an activation that computes a variable
// only when a rule reads it.
type facts struct {
	job   *job.Job
	cause job.Cause
	age   time.Duration
	text  *string
}

var _ cel.Activation = (*facts)(nil)

func newFacts(j *job.Job, now time.Time) *facts {
	f := &facts{job: j, cause: job.CauseOf(j.Failure)}
	if sent := j.Message.SentAt; !sent.IsZero() && now.After(sent) {
		f.age = now.Sub(sent)
	}
	return f
}

func (f *facts) normalised() string {
	if f.text == nil {
		text := Normalise(f.job.Failure.Message)
		f.text = &text
	}
	return *f.text
}

// ResolveName is the variable of that name.
func (f *facts) ResolveName(name string) (any, bool) {
	read, ok := readers()[name]
	if !ok {
		return nil, false
	}
	return read(f), true
}

// Parent is nil: there is no outer scope.
func (f *facts) Parent() cel.Activation { return nil }

// attributes is a map in which a missing name reads as empty, so that a rule
// about an attribute is no error for messages without it.
type attributes struct{ traits.Mapper }

func newAttributes(as []broker.Attribute) attributes {
	m := make(map[string]string, len(as))
	for _, a := range as {
		m[a.Name] = string(a.Value)
	}
	return attributes{types.NewStringStringMap(types.DefaultTypeAdapter, m)}
}

func (a attributes) Get(key ref.Val) ref.Val {
	v, _ := a.Find(key)
	return v
}

func (a attributes) Find(key ref.Val) (ref.Val, bool) {
	if v, ok := a.Mapper.Find(key); ok {
		return v, true
	}
	return types.String(""), true
}

// constant is the value of a condition that reads no variable, else nil.
func constant(tree *cel.Ast, run cel.Program) ref.Val {
	vars := readers()
	for _, r := range tree.NativeRep().ReferenceMap() {
		if _, ok := vars[r.Name]; ok {
			return nil
		}
	}
	out, _, err := run.Eval(cel.NoVars())
	if err != nil {
		return nil
	}
	return out
}

// Variables are the names that rules may use, in the order of the docs.
func Variables() []string {
	var names []string
	for _, f := range environment() {
		names = append(names, f.name)
	}
	return names
}
