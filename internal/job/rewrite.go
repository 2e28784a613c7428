package job

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// ErrRewrite says that a message cannot be given another payload and job key
// with all else kept as it is.
var ErrRewrite = errors.New("message cannot be rewritten")

// Rewrite is the job with another payload and another job key, its message in
// the same format: attributes, types, ordering key and every byte of an envelope
// around the payload stay. Of a job whose message wraps its original it is the
// original that is rewritten, without the wrapper. The key is replaced wherever the message says it, also
// in the payload itself. A job without a key keeps none, and key is empty.
//
// The result is decoded again before it is returned. Where that does not give
// exactly the new payload and the new key, with the subject, the version, the
// customer, the period and the region as before, the error is ErrRewrite.
func Rewrite(j Job, decode func(broker.Message) Job, payload []byte, key string) (Job, error) {
	if j.Original != nil {
		inner := decode(j.Outgoing())
		if inner.JobKey != j.JobKey || inner.PayloadSHA256 != j.PayloadSHA256 {
			return Job{}, fmt.Errorf("%w: its original reads otherwise without the wrapper", ErrRewrite)
		}
		j = inner
	}
	if why := unwritable(j, key); why != "" {
		return Job{}, fmt.Errorf("%w: %s", ErrRewrite, why)
	}
	r := rekey{old: j.JobKey, key: key}
	payload, err := r.payload(j, payload)
	if err != nil {
		return Job{}, fmt.Errorf("%w: payload: %w", ErrRewrite, err)
	}
	m := j.Message
	if m.Body, err = r.body(j, payload); err != nil {
		return Job{}, fmt.Errorf("%w: body: %w", ErrRewrite, err)
	}
	if m.Attributes, err = r.attributes(m.Attributes); err != nil {
		return Job{}, fmt.Errorf("%w: %w", ErrRewrite, err)
	}
	now := decode(m)
	if !bytes.Equal(now.Payload, payload) || now.JobKey != key {
		return Job{}, fmt.Errorf("%w: it would not be read as the new payload and key", ErrRewrite)
	}
	if what := strayed(j, now); what != "" {
		return Job{}, fmt.Errorf("%w: the %s would change too", ErrRewrite, what)
	}
	return now, nil
}

// unwritable names what keeps the job's message from being written anew at all.
func unwritable(j Job, key string) string {
	switch {
	case j.DecodeError != "":
		return "it cannot be decoded"
	case !j.Redrivable:
		return "it does not hold the whole original"
	case j.MappingFailed:
		return "its mapping cannot read it"
	case j.Original != nil:
		return "its original is wrapped twice"
	case len(j.Message.Raw) > 0:
		return "it has sections that no field holds"
	case slices.ContainsFunc(j.References, func(r Reference) bool { return r.Kind != "stack_trace" }):
		return "its content lies elsewhere"
	case (j.JobKey == "") != (key == ""):
		return "a key can only take the place of a key"
	}
	return ""
}

// strayed names what an edit must not touch and did. What else a payload tells
// (a schema version, a channel, a failure) is the edit's to change.
func strayed(was, now Job) string {
	for _, f := range []struct {
		what     string
		was, now string
	}{
		{"format", was.Format, now.Format},
		{"subject", was.Subject, now.Subject},
		{"version", was.Version, now.Version},
		{"customer", was.CustomerID, now.CustomerID},
		{"period", was.Period, now.Period},
		{"region", was.Region, now.Region},
		{"decoding", now.DecodeError, ""},
	} {
		if f.was != f.now {
			return f.what
		}
	}
	if !now.Redrivable || now.Original != nil || now.MappingFailed || !slices.Equal(was.References, now.References) {
		return "original"
	}
	return ""
}

// rekey replaces one job key by another.
type rekey struct{ old, key string }

// payload puts the new key into the fields of the payload that say the old one.
// Where the payload is the whole body, it is what the key is read from.
func (r rekey) payload(j Job, payload []byte) ([]byte, error) {
	if len(skipSpace(payload)) == 0 || skipSpace(payload)[0] != '{' {
		return payload, nil
	}
	return r.object(payload, isWhole(j))
}

func isWhole(j Job) bool { return bytes.Equal(j.Payload, j.Message.Body) }

func (r rekey) body(j Job, payload []byte) ([]byte, error) {
	value, field := payload, ""
	switch o := asObject(j.Message.Body); {
	case j.Format == FormatOwn && o.has("payload"):
		field = "payload"
	case j.Format == FormatOwn && o.has("payload_base64"):
		field, value = "payload_base64", jsonText(base64.StdEncoding.EncodeToString(payload))
	case j.Format == FormatRetry && o.isString("job"):
		field, value = "job", jsonText(string(payload))
	case j.Format == FormatRetry:
		field = "job"
	case isWhole(j) && j.Format != "cloudevents":
		return payload, nil
	default:
		return nil, fmt.Errorf("format %s is not written by this version", j.Format)
	}
	ms, err := members(j.Message.Body)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(ms, func(m member) bool { return m.name == field })
	if i < 0 {
		return nil, fmt.Errorf("it has no member %q", field)
	}
	return r.object(splice(j.Message.Body, ms[i], value), true)
}

// object replaces the old key in the members that are called so. One with
// another value is another identity, which the edited copy would share with the
// original: that is an error if only is set.
func (r rekey) object(raw []byte, only bool) ([]byte, error) {
	ms, err := members(raw)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Backward(ms) {
		if !namesKey(m.name) {
			continue
		}
		value := json.RawMessage(raw[m.from:m.to])
		switch same := asText(value) == r.old && r.old != ""; {
		case same && value[0] == '"':
			raw = splice(raw, m, jsonText(r.key))
		case same || only && string(value) != "null":
			return nil, fmt.Errorf("member %q holds another identity", m.name)
		}
	}
	return raw, nil
}

func (r rekey) attributes(as []broker.Attribute) ([]broker.Attribute, error) {
	as = slices.Clone(as)
	for i, a := range as {
		switch {
		case a.Name == EnvelopeAttribute:
			value, err := r.object(a.Value, true)
			if err != nil {
				return nil, fmt.Errorf("attribute %s: %w", a.Name, err)
			}
			as[i].Value = value
		case !namesKey(a.Name) || r.old == "" && len(a.Value) == 0:
		case string(a.Value) != r.old || strings.HasPrefix(a.Type, "Number"):
			return nil, fmt.Errorf("attribute %s holds another identity", a.Name)
		default:
			as[i].Value = []byte(r.key)
		}
	}
	return as, nil
}

// namesKey reports that a field of this name says the job key.
func namesKey(name string) bool {
	switch plain(name) {
	case "jobkey", "deliverykey", "idempotencykey":
		return true
	}
	return false
}

// member is one member of a JSON object, and where its value lies in the text.
type member struct {
	name     string
	from, to int
}

// members lists those of one object. Duplicate names are an error: it would not
// be certain which of them a consumer reads.
func members(raw []byte) ([]member, error) {
	if _, err := parseObject(raw); err != nil {
		return nil, err
	}
	var ms []member
	rest := skipSpace(skipSpace(raw)[1:])
	for rest[0] != '}' {
		n := valueLen(rest)
		m := member{name: asText(json.RawMessage(rest[:n]))}
		rest = skipSpace(skipSpace(rest[n:])[1:]) // the colon
		m.from = len(raw) - len(rest)
		m.to = m.from + valueLen(rest)
		ms = append(ms, m)
		if rest = skipSpace(raw[m.to:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return ms, nil
}

// splice is the text with another value for one member.
func splice(raw []byte, m member, value []byte) []byte {
	return slices.Concat(raw[:m.from], value, raw[m.to:])
}

// jsonText is a text as JSON, with nothing escaped that need not be.
func jsonText(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil // never: a string has a JSON form
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
