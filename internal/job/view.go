package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// view is a message, or what one of its wrappers holds, while it is decoded.
type view struct {
	attrs  []broker.Attribute
	system []broker.Attribute
	origin string // as the broker says it
	body   []byte
	path   string // where in the message body lies: "Body", "Body.Message"
	obj    object // the body as an object, nil if it is none
	err    error  // why a body that looks like JSON is not read
	depth  int
}

func newView(attrs []broker.Attribute, body []byte, path string, depth int) view {
	v := view{attrs: attrs, body: body, path: path, depth: depth}
	if !looksLikeJSON(body) {
		return v
	}
	if strings.TrimLeft(string(body[:min(len(body), 64)]), " \t\r\n")[0] == '[' {
		if v.err = checkNesting(body); v.err == nil {
			v.err = syntaxError(body)
		}
		return v
	}
	if v.obj, v.err = parseObject(body); v.err != nil && !errors.Is(v.err, errDuplicate) {
		v.obj = nil
	}
	return v
}

// syntaxError is the first error of a JSON text with its offset, nil if there
// is none.
func syntaxError(body []byte) error {
	var whole json.RawMessage
	err := json.Unmarshal(body, &whole)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("broken JSON at byte %d: %w", syntax.Offset, err)
	}
	return err
}

// attr is the value of the attribute with exactly this name, as text.
func (v view) attr(name string) (string, bool) {
	for _, a := range v.attrs {
		if a.Name == name {
			return string(a.Value), true
		}
	}
	return "", false
}

func (v view) hasAttrs(names ...string) bool {
	for _, n := range names {
		if _, ok := v.attr(n); !ok {
			return false
		}
	}
	return true
}

// attrField is how an attribute is named in Failure.Field, after the form in
// which SQS prints it.
func attrField(a broker.Attribute) string {
	if strings.HasPrefix(a.Type, "Binary") {
		return "MessageAttributes." + a.Name + ".BinaryValue"
	}
	return "MessageAttributes." + a.Name + ".StringValue"
}

func stringField(name string) string { return "MessageAttributes." + name + ".StringValue" }

// into is the view of what a wrapper holds, or false when the wrapping is too
// deep to follow.
func (v view) into(body []byte, path string) (view, bool) {
	if v.depth+1 >= maxWraps {
		return view{}, false
	}
	return newView(nil, body, path, v.depth+1), true
}
