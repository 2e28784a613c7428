package job

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Original is what a redrive sends of a job whose dead message only wraps it.
type Original struct {
	// Body is the original's bytes exactly as the wrapper holds them: the content
	// of a JSON string, the bytes of any other JSON value, and what a base64 text
	// stands for where the wrapper says that it is one.
	Body []byte
	// Attributes are those that the wrapper recorded for the original, sorted by
	// name: of type String, unless the wrapper recorded the type too. Nil where
	// it recorded none.
	Attributes []broker.Attribute
}

// wrapped sets what is sent of a job whose original lies in a wrapper, and
// decodes it. An original that is not whole, or of which the bytes are not
// certain, is not sent at all.
func wrapped(v view, o Original, err error, path string, j *Job) {
	switch {
	case errors.Is(v.err, errDuplicate):
		err = errors.New("the wrapper gives a key twice, so which original it means is not certain")
	case err == nil && cutShort(o.Body):
		err = errors.New("the original was cut short")
	}
	if err != nil {
		j.Redrivable, j.WhyNot = false, err.Error()
		return
	}
	j.Original = &o
	inside(v, o.Body, path, j)
}

// originals are the keys under which home-made error envelopes keep what was to
// be done, the surest first.
var originals = []string{
	"original", "originalMessage", "original_message", "originalBody", "original_body", "originalEvent", "original_event",
	"originalPayload", "original_payload", "originalRequest", "requestPayload", "failedMessage", "failed_message", "payload", "message", "event", "job", "body", "record", "data", "input", "request",
}

// originalKey is the key of the original, empty if there is none.
func originalKey(o object) string {
	for _, k := range originals {
		if raw, ok := o[k]; ok && (holds(raw) || strings.HasPrefix(k, "orig")) {
			return k
		}
	}
	return ""
}

// holds reports whether a value can be an original: an object, a list, or a
// string that holds JSON.
func holds(raw json.RawMessage) bool {
	if len(raw) == 0 {
		return false
	}
	return raw[0] == '{' || raw[0] == '[' || raw[0] == '"' && looksLikeJSON([]byte(asText(raw)))
}

var errNotWhole = errors.New("the envelope does not hold the whole original")

// originalOf reads the original under a key of its envelope, or the body inside
// where the original is a whole message. It tells the path of the body.
func originalOf(envelope object, key, path string) (Original, string, error) {
	raw := envelope[key]
	o, path := asObject(raw), path+"."+key
	if truncated(envelope) || truncated(o) {
		return Original{}, path, errNotWhole
	}
	if k := bodyKey(o); k != "" {
		body, err := exactBytes(o[k], saysBase64(o, k))
		return Original{Body: body, Attributes: recorded(o)}, path + "." + k, err
	}
	body, err := exactBytes(raw, saysBase64(envelope, key))
	return Original{Body: body, Attributes: recorded(without(envelope, "properties"))}, path, err
}

// bodyKey is the key of the body in an original that is a whole message, empty
// where it is the body itself.
func bodyKey(o object) string {
	for _, k := range []string{"body", "Body", "body_base64", "bodyBase64"} {
		if o.has(k) && (len(o) == 1 || hasAny(o, "messageId", "MessageId", "message_id", "attributes", "Attributes", "messageAttributes", "MessageAttributes", "headers", "isBase64Encoded")) {
			return k
		}
	}
	if o.isString("data") && hasAny(o, "messageId", "message_id") && hasAny(o, "publishTime", "publish_time", "attributes") {
		return "data" // Pub/Sub, always base64
	}
	for _, k := range []string{"payload", "value"} {
		if o.has(k) && hasAny(o, "headers", "messageAttributes", "properties") {
			return k
		}
	}
	return ""
}

func hasAny(o object, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return o.has(k) })
}

// saysBase64 reports whether an object says that the text under one of its keys
// is base64: by the key's name, or by a field beside it.
func saysBase64(o object, key string) bool {
	if strings.HasSuffix(plain(key), "base64") || key == "data" && hasAny(o, "publishTime", "publish_time", "messageId", "message_id") {
		return true
	}
	for _, p := range objectPairs(o, "") {
		switch p.name {
		case "isbase64encoded", "isbase64", "base64", "base64encoded":
			return p.text == "true"
		case "encoding", "bodyencoding", "payloadencoding", "contenttransferencoding", "transferencoding":
			return strings.EqualFold(p.text, "base64")
		}
	}
	return false
}

// exactBytes is what a value stands for, or why its bytes are not certain.
func exactBytes(raw json.RawMessage, isBase64 bool) ([]byte, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, errNotWhole
	case isBase64 && raw[0] == '"':
		b, err := base64.StdEncoding.DecodeString(asText(raw))
		if err != nil {
			return nil, errors.New("the original is declared to be base64, and is not")
		}
		return b, whole(b)
	case raw[0] == '"' && brokenPair(raw):
		return nil, errors.New("the original's text has half a character in it, so its bytes are not certain")
	}
	b := content(raw)
	return b, whole(b)
}

func whole(b []byte) error {
	if len(b) == 0 {
		return errNotWhole
	}
	return nil
}

// brokenPair reports whether a JSON string has an escaped half of a surrogate
// pair, which decodes to a replacement character.
func brokenPair(raw json.RawMessage) bool {
	return strings.Count(asText(raw), replacement) > written(raw)
}

// truncated reports whether an object says of itself that something was cut off
// it.
func truncated(o object) bool {
	for _, p := range objectPairs(o, "") {
		if strings.HasSuffix(p.name, "truncated") && p.text == "true" {
			return true
		}
	}
	return false
}

var cutMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:…|\.\.\.|truncated)[\])>}. ]*$`)
})

// cutShort reports whether a body ends in a mark of having been cut, which no
// whole JSON text does.
func cutShort(body []byte) bool {
	return looksLikeJSON(body) && cutMark().Match(body[max(0, len(body)-64):]) && syntaxError(body) != nil
}

// recorded are the attributes that a whole message, or the envelope around a
// body, records for the original.
func recorded(o object) []broker.Attribute {
	for _, k := range []string{"originalAttributes", "original_attributes", "originalHeaders", "original_headers", "messageAttributes", "MessageAttributes", "attributes", "Attributes", "headers", "properties"} {
		if inner := o.obj(k); inner != nil {
			return recordedIn(inner)
		}
	}
	return nil
}

// recordedIn reads a map of attributes. What a broker sets itself is not one of
// the sender's.
func recordedIn(o object) []broker.Attribute {
	var as []broker.Attribute
	for name, raw := range o {
		if a, ok := recordedValue(name, raw); ok && !setByBroker(name) {
			as = append(as, a)
		}
	}
	slices.SortFunc(as, func(x, y broker.Attribute) int { return strings.Compare(x.Name, y.Name) })
	return as
}

// recordedValue reads one attribute: a plain value, or a typed one as SQS, SNS
// and Lambda write it.
func recordedValue(name string, raw json.RawMessage) (broker.Attribute, bool) {
	a := broker.Attribute{Name: name, Type: "String"}
	o := asObject(raw)
	for _, k := range []string{"DataType", "dataType", "Type"} {
		if !o.isString(k) {
			continue
		}
		a.Type = o.text(k)
		for _, binary := range []string{"BinaryValue", "binaryValue"} {
			if b, err := base64.StdEncoding.DecodeString(o.text(binary)); err == nil && len(b) > 0 {
				a.Value = b
				return a, true
			}
		}
		for _, value := range []string{"StringValue", "stringValue", "Value"} {
			if o.has(value) {
				a.Value = []byte(o.text(value))
				return a, true
			}
		}
	}
	a.Type, a.Value = "String", content(raw)
	return a, len(raw) > 0 && string(raw) != "null"
}

// setByBroker reports whether a name is that of an attribute that SQS sets and
// no sender can.
func setByBroker(name string) bool {
	switch name {
	case "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "DeadLetterQueueSourceArn",
		"SequenceNumber", "MessageGroupId", "MessageDeduplicationId", broker.SystemTraceHeader:
		return true
	}
	return false
}
