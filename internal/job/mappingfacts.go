package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/expr"
)

// mappingVariables are what the expressions of a mapping may read of a message.
// docs/envelope.md has the same list.
func mappingVariables() []cel.EnvOption {
	return []cel.EnvOption{
		cel.VariableWithDoc("body", cel.DynType, "the body as JSON; null where it is none"),
		cel.VariableWithDoc("text", cel.DynType, "the body as text; null where it is no UTF-8"),
		cel.VariableWithDoc("bytes", cel.BytesType, "the body as it is"),
		cel.VariableWithDoc("attributes", cel.MapType(cel.StringType, cel.StringType), "the message's attributes as text"),
		cel.VariableWithDoc("message_id", cel.StringType, "the broker's name for the message"),
		cel.VariableWithDoc("origin", cel.StringType, "the queue that it was dead-lettered from; empty if the broker does not say"),
		cel.VariableWithDoc("order_key", cel.StringType, "ordering or message group; empty if there is none"),
		cel.VariableWithDoc("receives", cel.IntType, "how often the broker delivered it"),
	}
}

// mappingEnv is made once: it takes longer than a message does.
var mappingEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append(mappingVariables(), expr.Functions())...)
})

// mappingFacts is one message as the expressions see it: an activation that reads
// a variable only when an expression does.
type mappingFacts struct {
	message  *broker.Message
	isObject bool // the body is an object in valid JSON, of a depth that is read
	body     any
	bodyErr  error
	parsed   bool
}

var _ cel.Activation = (*mappingFacts)(nil)

// eval evaluates one field. The zero value is what is not known.
func (f *mappingFacts) eval(field mappedField) (mapped, error) {
	if field.expr.Mentions("body") {
		if f.parse(); f.bodyErr != nil {
			return mapped{}, f.bodyErr
		}
	}
	v, _, err := field.expr.Run.Eval(f)
	switch {
	case err != nil && field.expr.Absent(err):
		return mapped{}, nil
	case err != nil:
		return mapped{}, expr.Quiet(err)
	case v == types.NullValue:
		return mapped{}, nil
	}
	return mapped{known: true, value: v, raw: f.rawAt(field.path)}, nil
}

// ResolveName is the variable of that name.
func (f *mappingFacts) ResolveName(name string) (any, bool) {
	m := f.message
	switch name {
	case "body":
		return f.body, true
	case "text":
		if !utf8.Valid(m.Body) {
			return types.NullValue, true
		}
		return string(m.Body), true
	case "bytes":
		return m.Body, true
	case "attributes":
		return attributeTexts(m.Attributes), true
	case "message_id":
		return m.MessageID, true
	case "origin":
		return m.Origin, true
	case "order_key":
		return m.OrderKey, true
	case "receives":
		return int64(m.Receives), true
	}
	return nil, false
}

// Parent is nil: there is no outer scope.
func (f *mappingFacts) Parent() cel.Activation { return nil }

// attributeTexts has the first of several attributes of one name, as attribute
// does.
func attributeTexts(as []broker.Attribute) map[string]string {
	m := make(map[string]string, len(as))
	for _, a := range as {
		if _, ok := m[a.Name]; !ok {
			m[a.Name] = string(a.Value)
		}
	}
	return m
}

// parse reads the body once. A body that is no JSON is null; one that is JSON and
// says two things under one name is an error, since nobody knows which counts.
func (f *mappingFacts) parse() {
	if f.parsed {
		return
	}
	f.parsed, f.body = true, types.NullValue
	b := f.message.Body
	if !f.isObject {
		if !utf8.Valid(b) || !json.Valid(b) {
			return
		}
		if f.bodyErr = checkNesting(b); f.bodyErr != nil {
			return
		}
	}
	r := jsonReader{rest: b}
	v, err := r.value()
	switch {
	case err != nil:
		f.bodyErr = err
	case r.replaced > 0 && r.replaced > written(b):
		f.bodyErr = errors.New("body: a text has half a character in it, so that two may read alike")
	case v != nil:
		f.body = v
	}
}

// replacement is what JSON's decoder makes of half a surrogate pair.
const replacement = "\uFFFD"

// written is how often the replacement stands in a JSON text of its own.
func written(b []byte) int {
	return bytes.Count(b, []byte(replacement)) + bytes.Count(bytes.ToLower(b), []byte(`\ufffd`))
}

// jsonReader reads valid JSON into the values that CEL sees.
type jsonReader struct {
	rest     []byte
	replaced int // how many replacements the texts have
}

// value is the next value. Whole numbers keep all their digits:
// beyond 64 bits they are texts, since a double would make two of them one.
func (r *jsonReader) value() (any, error) {
	r.rest = skipSpace(r.rest)
	switch r.rest[0] {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		return r.text(), nil
	}
	switch s := string(r.take(valueLen(r.rest))); s {
	case "true", "false":
		return s == "true", nil
	case "null":
		return nil, nil
	default:
		return celNumber(s), nil
	}
}

func (r *jsonReader) take(n int) []byte {
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *jsonReader) text() string {
	s := asText(r.take(stringLen(r.rest)))
	r.replaced += strings.Count(s, replacement)
	return s
}

// more steps over what opens a list or an object, or parts two of its entries,
// and reports whether an entry follows; after the last it steps over the end.
func (r *jsonReader) more(end byte) bool {
	r.rest = skipSpace(r.rest)
	if r.take(1)[0] == end {
		return false
	}
	if r.rest = skipSpace(r.rest); r.rest[0] == end {
		r.take(1)
		return false
	}
	return true
}

func (r *jsonReader) object() (any, error) {
	m := map[string]any{}
	for r.more('}') {
		key := r.text()
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("body: %w %q", errDuplicate, key)
		}
		r.rest = skipSpace(r.rest)
		r.take(1) // the colon
		var err error
		if m[key], err = r.value(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (r *jsonReader) list() (any, error) {
	list := []any{}
	for r.more(']') {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func celNumber(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && bytes.ContainsAny([]byte(s), ".eE") {
		return f
	}
	return s
}

// bodyPath is the keys by which an expression that is a mere path of the body gets
// its value; nil for any other expression. The body itself is an empty path.
func bodyPath(tree *cel.Ast) []string {
	path := []string{}
	for e := tree.NativeRep().Expr(); ; {
		switch e.Kind() {
		case ast.IdentKind:
			if e.AsIdent() != "body" {
				return nil
			}
			return path
		case ast.SelectKind:
			if e.AsSelect().IsTestOnly() {
				return nil
			}
			path = append([]string{e.AsSelect().FieldName()}, path...)
			e = e.AsSelect().Operand()
		case ast.CallKind:
			key, operand, ok := keyed(e.AsCall())
			if !ok {
				return nil
			}
			path, e = append([]string{key}, path...), operand
		default:
			return nil
		}
	}
}

// keyed reads operand["key"].
func keyed(c ast.CallExpr) (key string, operand ast.Expr, ok bool) {
	if c.FunctionName() != operators.Index || len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
		return "", nil, false
	}
	s, ok := c.Args()[1].AsLiteral().(types.String)
	return string(s), c.Args()[0], ok
}

// rawAt is the bytes of the body that a path leads to; nil without a path.
func (f *mappingFacts) rawAt(path []string) []byte {
	if path == nil {
		return nil
	}
	raw := json.RawMessage(bytes.TrimSpace(f.message.Body))
	for _, key := range path {
		o, err := parseObject(raw)
		if err != nil && !errors.Is(err, errDuplicate) {
			return nil
		}
		raw = o[key]
	}
	return raw
}
