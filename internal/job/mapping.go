package job

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/expr"
)

// Bounds of a mapping. Ordinary expressions cost less than a thousand; hashing a
// megabyte costs ten thousand.
const (
	mappingCost = 500_000
	maxMapped   = 64 << 10 // bytes of one mapped text; a payload has no bound of its own
)

// NeedsMapping is what a job needs whose configured mapping failed on it.
const NeedsMapping = "an envelope mapping that reads this message"

// Mapping reads messages of a form that is not recognised, by CEL expressions over
// the message, one for each field of a job. The zero value and nil read nothing.
// It may be used by several goroutines.
type Mapping struct {
	fields []mappedField
	body   bool // an expression reads body
}

type mappedField struct {
	name string
	expr expr.Compiled
	// path is where body holds the payload, so that its own bytes can be taken.
	path []string
	set  func(mapped, *Job) error
}

// FieldError says which field's expression is at fault. It wraps a *expr.Fault.
type FieldError struct {
	Field string
	Err   error
}

func (e FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap is the fault of the expression.
func (e FieldError) Unwrap() error { return e.Err }

// MappedFields are the fields that a mapping may give, in alphabetical order.
func MappedFields() []string { return slices.Sorted(maps.Keys(setters())) }

// NewMapping compiles the expressions, by field. Every fault is in the error, as a
// FieldError.
func NewMapping(byField map[string]string) (*Mapping, error) {
	env, err := mappingEnv()
	if err != nil {
		return nil, fmt.Errorf("environment of the mapping: %w", err)
	}
	m := &Mapping{}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(byField)) {
		f, err := compileField(env, name, byField[name])
		if err != nil {
			errs = append(errs, FieldError{name, err})
			continue
		}
		m.fields = append(m.fields, f)
		m.body = m.body || f.expr.Mentions("body")
	}
	return m, errors.Join(errs...)
}

func compileField(env *cel.Env, name, text string) (mappedField, error) {
	set, ok := setters()[name]
	if !ok {
		return mappedField{}, &expr.Fault{Line: 1, Message: fmt.Sprintf("no field of a job; those are %s", strings.Join(MappedFields(), ", "))}
	}
	c, err := expr.Compile(env, text, mappingCost, append(kindsOf(name), cel.DynType, cel.NullType)...)
	if err != nil {
		return mappedField{}, err
	}
	f := mappedField{name: name, expr: c, set: set}
	if name == "payload" && c.Tree.OutputType().Kind() == cel.DynKind {
		if f.path = bodyPath(c.Tree); f.path == nil {
			return mappedField{}, &expr.Fault{Line: 1, Message: "gives a value whose exact bytes cannot be had: use a path of body, text, bytes, or a string or bytes made of them"}
		}
	}
	return f, nil
}

func kindsOf(name string) []*cel.Type {
	switch name {
	case "attempt":
		return []*cel.Type{cel.IntType, cel.UintType, cel.StringType}
	case "failure.at":
		return []*cel.Type{cel.TimestampType, cel.StringType, cel.IntType}
	case "payload":
		return []*cel.Type{cel.StringType, cel.BytesType}
	default:
		return []*cel.Type{cel.StringType, cel.IntType, cel.UintType}
	}
}

// Decode turns a message into a job as the function Decode does, and then lets the
// mapping decide the fields that it names. A field whose expression gives null, or
// names what the message does not have, is not known. An expression that fails
// makes the job one with DecodeError, which is held.
func (p *Mapping) Decode(m broker.Message, queue string) Job { return decode(m, queue, p) }

// apply overwrites the fields that the mapping names. v is the message as it was
// decoded.
func (p *Mapping) apply(v view, j *Job) {
	if p == nil || len(p.fields) == 0 {
		return
	}
	facts := &mappingFacts{message: &j.Message, isObject: v.obj != nil}
	for _, f := range p.fields {
		if err := f.apply(facts, j); err != nil {
			j.mappingFails(f.name, err)
		}
	}
	p.failure(j)
}

// mappingFails keeps what is wrong; a reason that was given before is not said
// again for the next field.
func (j *Job) mappingFails(field string, err error) {
	j.MappingFailed = true
	switch why := err.Error(); {
	case j.DecodeError == "":
		j.DecodeError = "envelope." + field + ": " + why
	case !strings.Contains(j.DecodeError, why):
		j.DecodeError += "; envelope." + field + ": " + why
	}
}

func (f mappedField) apply(facts *mappingFacts, j *Job) error {
	v, err := facts.eval(f)
	if err != nil {
		v = mapped{}
	}
	return cmp.Or(err, f.set(v, j))
}

// names reports whether the mapping has one of the fields.
func (p *Mapping) names(fields ...string) bool {
	return slices.ContainsFunc(p.fields, func(f mappedField) bool { return slices.Contains(fields, f.name) })
}

// failure makes the mapped parts of a failure one. What the mapping calls its type
// stays; without one the type is found as in any other failure.
func (p *Mapping) failure(j *Job) {
	if !p.names("failure.type", "failure.code", "failure.message") {
		return
	}
	f := &j.Failure
	f.Field = "envelope.failure"
	if !p.names("failure.type") {
		if f.Type == "" && informative(f.Code) {
			f.Type = f.Code
		}
		refine(f)
	}
	if f.Empty() {
		f.Field = ""
	}
	if j.QuarantinedBy == ByUnknown && !p.names("quarantined_by") {
		j.QuarantinedBy = ""
		j.QuarantinedBy = quarantinedBy(j)
	}
}

// mapped is what an expression gave: nothing, a text, a time, or bytes.
type mapped struct {
	known bool
	value ref.Val
	raw   []byte // the bytes in the body that the value was read from
}

// setters are the fields of a job that a mapping may give. A value that is not
// known empties its field: where the mapping names a field, nothing else decides
// it.
func setters() map[string]func(mapped, *Job) error {
	text := func(field func(*Job) *string) func(mapped, *Job) error {
		return func(v mapped, j *Job) error {
			s, err := v.text()
			*field(j) = s
			return err
		}
	}
	return map[string]func(mapped, *Job) error{
		"job_key": text(func(j *Job) *string { return &j.JobKey }), "subject": text(func(j *Job) *string { return &j.Subject }),
		"version": text(func(j *Job) *string { return &j.Version }), "kind": setKind,
		"channel": text(func(j *Job) *string { return &j.Channel }), "period": text(func(j *Job) *string { return &j.Period }),
		"customer_id":     text(func(j *Job) *string { return &j.CustomerID }),
		"customer_status": text(func(j *Job) *string { return &j.CustomerStatus }),
		"region":          text(func(j *Job) *string { return &j.Region }),
		"schema_version":  text(func(j *Job) *string { return &j.SchemaVersion }),
		"deployment_id":   text(func(j *Job) *string { return &j.DeploymentID }),
		"trace_context":   text(func(j *Job) *string { return &j.TraceContext }),
		"failure.type":    text(func(j *Job) *string { return &j.Failure.Type }),
		"failure.code":    text(func(j *Job) *string { return &j.Failure.Code }),
		"failure.message": text(func(j *Job) *string { return &j.Failure.Message }),
		"failure.at":      setFailureAt, "attempt": setMappedAttempt, "quarantined_by": setQuarantinedBy, "payload": setPayload,
	}
}

func setKind(v mapped, j *Job) error {
	was := j.Kind
	var err error
	j.Kind, err = v.text()
	if j.Task == was {
		j.Task = j.Kind
	}
	return err
}

func setFailureAt(v mapped, j *Job) error {
	j.Failure.At = time.Time{}
	if !v.known {
		return nil
	}
	if at, ok := v.value.Value().(time.Time); ok {
		j.Failure.At = at.UTC()
		return nil
	}
	s, err := v.text()
	if err != nil {
		return err
	}
	if j.Failure.At = parseTime(s); s != "" && j.Failure.At.IsZero() {
		return errors.New("gives no time: RFC 3339, or seconds or milliseconds since 1970")
	}
	return nil
}

func setMappedAttempt(v mapped, j *Job) error {
	j.AttemptOnCopy = nil
	s, err := v.text()
	if err != nil || s == "" {
		return err
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return errors.New("gives no whole number from 0")
	}
	j.AttemptOnCopy = &n
	return nil
}

func setQuarantinedBy(v mapped, j *Job) error {
	s, err := v.text()
	by := QuarantinedBy(s)
	switch {
	case err != nil || s == "":
		j.QuarantinedBy = ByUnknown
		return err
	case !slices.Contains([]QuarantinedBy{ByMaxReceives, ByApplication, ByIntegration, ByUnknown}, by):
		j.QuarantinedBy = ByUnknown
		return errors.New("gives none of max_receives, application, integration, unknown")
	}
	j.QuarantinedBy = by
	return nil
}

// setPayload takes bytes as they are and never makes new ones. A payload that is
// not there is a failure, and leaves the payload that was recognised: jobs without
// one would all have the same hash.
func setPayload(v mapped, j *Job) error {
	if !v.known {
		return errors.New("the message has no such payload")
	}
	switch x := v.value.Value().(type) {
	case string:
		j.Payload = []byte(x)
	case []byte:
		j.Payload = x
	default:
		if v.raw == nil {
			return fmt.Errorf("gives %s, whose exact bytes cannot be had", v.value.Type().TypeName())
		}
		j.Payload = v.raw
	}
	return nil
}

// text is the value as a job keeps it: a string as it is, a whole number in
// digits. Any other value has no one text.
func (v mapped) text() (string, error) {
	if !v.known {
		return "", nil
	}
	var s string
	switch x := v.value.Value().(type) {
	case string:
		s = x
	case int64:
		s = strconv.FormatInt(x, 10)
	case uint64:
		s = strconv.FormatUint(x, 10)
	default:
		return "", fmt.Errorf("gives %s, not a string or a whole number", v.value.Type().TypeName())
	}
	if len(s) > maxMapped {
		return "", fmt.Errorf("gives more than %d bytes", maxMapped)
	}
	return s, nil
}
