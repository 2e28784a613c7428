package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
	"github.com/redrivectl/redrivectl/audit"
)

// Bounds on one application of an edit rule.
const (
	editTime  = time.Second
	editBytes = 16 << 20 // of the payload that comes out
	editDepth = 200      // levels of the payload that goes in
)

// EditRule is a change of payloads, as a plan carries it and approvers read it.
type EditRule struct {
	JQ     string `json:"jq"`
	SHA256 string `json:"sha256"` // of JQ, lower-case hex
	// Revision names the edited copies: it is the end of each new job key.
	Revision string `json:"revision"`
	// Named: the operator gave the revision. Only then may a job that was sent be
	// edited and sent a second time.
	Named bool `json:"revision_named,omitempty"`
}

var revisionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// NewEditRule checks a jq filter and a revision. Without one the revision comes
// from the filter, so that the same edit always makes the same job key.
func NewEditRule(jq, revision string) (*EditRule, error) {
	r := &EditRule{JQ: jq, SHA256: audit.Hash([]byte(jq)), Revision: revision, Named: revision != ""}
	if !r.Named {
		r.Revision = "e" + r.SHA256[:8]
	}
	_, err := r.compile()
	return r, err
}

// key is the job key of the edited copy; a job without a key stays without.
func (r *EditRule) key(jobKey string) string {
	if jobKey == "" {
		return ""
	}
	return jobKey + "~" + r.Revision
}

// compile refuses a rule that is not what its hash says, or whose result could
// depend on anything but the payload.
func (r *EditRule) compile() (*gojq.Code, error) {
	switch {
	case strings.TrimSpace(r.JQ) == "" || !utf8.ValidString(r.JQ):
		return nil, errors.New("edit rule is no text")
	case r.SHA256 != audit.Hash([]byte(r.JQ)):
		return nil, errors.New("edit rule does not hash to its name")
	case !revisionForm.MatchString(r.Revision):
		return nil, fmt.Errorf("revision %q: use up to 32 letters, digits, dots, dashes and underscores", r.Revision)
	}
	q, err := gojq.Parse(r.JQ)
	if err != nil {
		return nil, fmt.Errorf("edit rule: %w", err)
	}
	if name := impure(reflect.ValueOf(q)); name != "" {
		return nil, fmt.Errorf("edit rule: %s is not allowed: the result must come from the payload alone", name)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		return nil, fmt.Errorf("edit rule: %w", err)
	}
	return code, nil
}

// impures are the functions of jq that look at the clock, the time zone, the
// environment, other inputs or the program itself, or write beside the result.
var impures = []string{
	"now", "localtime", "strflocaltime", "input", "inputs", "input_filename", "input_line_number", "env", "$ENV",
	"debug", "stderr", "halt", "halt_error", "builtins", "modulemeta", "get_search_list", "import", "include",
}

// impure is the first such name in a parsed filter, wherever it stands in it.
func impure(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return impure(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if name := impure(v.Index(i)); name != "" {
				return name
			}
		}
	case reflect.Struct:
		switch x := v.Interface().(type) {
		case gojq.Import:
			return "import"
		case gojq.Func:
			if slices.Contains(impures, x.Name) {
				return x.Name
			}
		}
		for i := range v.NumField() {
			if name := impure(v.Field(i)); name != "" {
				return name
			}
		}
	}
	return ""
}

// editError says why a payload has no edited form: a word that outputs count by.
type editError struct {
	why string
	err error
}

func (e *editError) Error() string { return e.why + ": " + e.err.Error() }

// apply is the payload under the rule. Numbers that the rule does not touch keep
// their digits. The error is an *editError.
func apply(ctx context.Context, code *gojq.Code, payload []byte) ([]byte, error) {
	in, err := exactJSON(payload)
	if err != nil {
		return nil, &editError{"edit_not_json", err}
	}
	before, err := gojq.Marshal(in)
	if err != nil {
		return nil, &editError{"edit_not_json", err}
	}
	out, err := only(ctx, code, in)
	if err != nil {
		return nil, err
	}
	after, err := gojq.Marshal(out)
	switch {
	case err != nil:
		return nil, &editError{"edit_failed", err}
	case len(after) > editBytes:
		return nil, &editError{"edit_too_large", fmt.Errorf("the result has %d bytes, the most are %d", len(after), editBytes)}
	case bytes.Equal(before, after):
		return nil, &editError{"edit_no_change", errors.New("the result is the payload as it was")}
	}
	return after, nil
}

// only is the one value that the rule yields.
func only(ctx context.Context, code *gojq.Code, in any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, editTime)
	defer cancel()
	var outs []any
	for iter := code.RunWithContext(ctx, in); len(outs) < 2; {
		v, ok := iter.Next()
		if !ok {
			break
		}
		if err, failed := v.(error); failed {
			if ctx.Err() != nil {
				return nil, &editError{"edit_timeout", fmt.Errorf("it takes longer than %s", editTime)}
			}
			return nil, &editError{"edit_failed", err}
		}
		outs = append(outs, v)
	}
	if len(outs) != 1 {
		return nil, &editError{"edit_failed", errors.New("it does not yield exactly one value")}
	}
	left := budget(editBytes)
	if err := left.take(outs[0]); err != nil {
		return nil, err
	}
	return outs[0], nil
}

// budget is how many bytes of JSON a value may still have. It is asked before the
// value is written, since a payload can make a short rule yield a huge one.
type budget int

// take takes off what the value has at the least. Too much of it is an *editError,
// and so is a number that JSON cannot hold.
func (b *budget) take(v any) error {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &editError{"edit_failed", errors.New("it yields a number that JSON does not have")}
		}
	case string:
		*b -= budget(len(v))
	case []any:
		if *b -= budget(len(v)); *b < 0 { // before all of it is looked at
			break
		}
		for _, x := range v {
			if err := b.take(x); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, x := range v {
			*b -= budget(len(k))
			if err := b.take(x); err != nil {
				return err
			}
		}
	}
	if *b -= 1; *b < 0 {
		return &editError{"edit_too_large", fmt.Errorf("the result has more than %d bytes", editBytes)}
	}
	return nil
}

// loneSurrogate is half of a pair: no string holds it, so decoding would lose it.
var loneSurrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

var surrogatePair = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// exactJSON decodes one JSON value of which nothing is lost on the way: digits
// stay, and a name that occurs twice in an object is an error.
func exactJSON(payload []byte) (any, error) {
	if !utf8.Valid(payload) || loneSurrogate.Match(surrogatePair.ReplaceAll(payload, nil)) {
		return nil, errors.New("payload has text that is not Unicode")
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	v, err := exactValue(d, editDepth)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("payload is more than one JSON value")
	}
	return v, nil
}

// exactValue reads the next value, nested at most so deep.
func exactValue(d *json.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("payload nests deeper than %d levels", editDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("payload is no JSON: %w", err)
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := exactValue(d, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Delim('{'):
		return exactObject(d, depth)
	default:
		return t, nil
	}
}

func exactObject(d *json.Decoder, depth int) (any, error) {
	o := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("payload is no JSON: %w", err)
		}
		name, _ := t.(string)
		if _, twice := o[name]; twice {
			return nil, errors.New("payload has a name twice in one object")
		}
		if o[name], err = exactValue(d, depth-1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return o, err
}
