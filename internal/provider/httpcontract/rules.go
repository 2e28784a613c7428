package httpcontract

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"

	"github.com/redrivectl/redrivectl/internal/expr"
	"github.com/redrivectl/redrivectl/internal/provider"
)

// rule is one compiled expression of the contract; nil where none was given.
type rule struct {
	key     string
	program cel.Program
	// status: the expression looks at the status itself, so that it may speak
	// of an answer that is no success.
	status bool
}

type rules struct {
	found, notFound, accepted, items, bind, requestID *rule
}

func compileRules(l *Lookup) (rules, error) {
	env, err := cel.NewEnv(
		cel.Variable("status", cel.IntType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("body", cel.DynType),
		cel.Variable("item", cel.DynType),
	)
	if err != nil {
		return rules{}, fmt.Errorf("build the expression environment: %w", err)
	}
	var rs rules
	var errs []error
	add := func(to **rule, key, text string, kinds ...*cel.Type) {
		r, err := compile(env, key, text, kinds)
		*to = r
		errs = append(errs, err)
	}
	add(&rs.found, "lookup.found", l.Found, cel.BoolType)
	add(&rs.notFound, "lookup.not_found", l.NotFound, cel.BoolType)
	add(&rs.accepted, "lookup.accepted", l.Accepted, cel.BoolType)
	add(&rs.items, "lookup.items", l.Items, cel.ListType(cel.DynType))
	add(&rs.bind, "lookup.bind", l.Bind, cel.StringType)
	add(&rs.requestID, "lookup.request_id", l.RequestID, cel.StringType)
	return rs, errors.Join(errs...)
}

func compile(env *cel.Env, key, text string, kinds []*cel.Type) (*rule, error) {
	if text == "" {
		return nil, nil
	}
	c, err := expr.Compile(env, text, 10_000_000, append(kinds, cel.DynType)...)
	var fault *expr.Fault
	switch {
	case errors.As(err, &fault):
		return nil, fmt.Errorf("%s, line %d column %d: %s", key, fault.Line, fault.Column+1, fault.Message)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return &rule{key: key, program: c.Run, status: c.Mentions("status")}, nil
}

// scope is what expressions see of one page.
type scope struct {
	status  int
	headers map[string]string
	body    any
}

func (s scope) vars(item any) map[string]any {
	return map[string]any{"status": int64(s.status), "headers": s.headers, "body": s.body, "item": item}
}

// holds evaluates a condition. An answer that is no success can only be spoken
// of by a condition that looks at the status.
func (r *rule) holds(s scope, item any) (bool, error) {
	if r == nil || (s.status < 200 || s.status > 299) && !r.status {
		return false, nil
	}
	return r.eval(s, item)
}

func (r *rule) eval(s scope, item any) (bool, error) {
	out, _, err := r.program.Eval(s.vars(item))
	if err != nil {
		return false, fmt.Errorf("%s cannot be told of this answer: %w", r.key, expr.Quiet(err))
	}
	b, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("%s gives %s, not true or false", r.key, out.Type().TypeName())
	}
	return b, nil
}

// text evaluates an expression to a string; one that the record has nothing
// for is empty.
func (r *rule) text(s scope, item any) string {
	out, _, err := r.program.Eval(s.vars(item))
	if err != nil {
		return ""
	}
	switch v := out.Value().(type) {
	case string:
		return v
	case int64:
		return fmt.Sprint(v)
	default:
		return ""
	}
}

// records is the list of records on a page.
func (rs rules) records(s scope) ([]any, error) {
	if rs.items == nil {
		return defaultRecords(s.body), nil
	}
	out, _, err := rs.items.program.Eval(s.vars(nil))
	if err != nil {
		return nil, fmt.Errorf("lookup.items cannot be told of this answer: %w", expr.Quiet(err))
	}
	list, err := out.ConvertToNative(reflect.TypeFor[[]any]())
	if err != nil {
		return nil, errors.New("lookup.items gives no list")
	}
	return list.([]any), nil
}

func defaultRecords(body any) []any {
	m, ok := body.(map[string]any)
	if !ok {
		if list, ok := body.([]any); ok {
			return list
		}
		return nil
	}
	if list, ok := m["items"].([]any); ok {
		return list
	}
	return []any{m}
}

// hit makes evidence of one record. bound is the job key that the question
// itself binds the record to.
func (rs rules) hit(s scope, item any, bound string) (provider.Hit, error) {
	h := provider.Hit{JobKey: bound, Status: provider.Accepted, RequestID: firstText(item, "id", "message_id", "sid"), Detail: firstText(item, "status", "state")}
	if rs.requestID != nil {
		h.RequestID = rs.requestID.text(s, item)
	}
	if rs.bind != nil {
		h.JobKey = rs.bind.text(s, item)
	}
	if rs.accepted == nil {
		return h, nil
	}
	ok, err := rs.accepted.eval(s, item)
	if err == nil && !ok {
		h.Status = provider.Rejected
	}
	return h, err
}

func firstText(item any, names ...string) string {
	m, _ := item.(map[string]any)
	for _, n := range names {
		switch v := m[n].(type) {
		case string:
			return v
		case int64:
			return fmt.Sprint(v)
		}
	}
	return ""
}
