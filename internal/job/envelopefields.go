package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// kind is what a field of the envelope may hold. Null is a field left out, unless
// the kind is anyJSON.
type kind int

const (
	aString kind = iota
	anInteger
	aStringOrInteger
	anObject
	aList // of objects
	anyJSON
)

// ownField is one field of the tool's own envelope: what the decoder demands and
// what the JSON Schema says.
type ownField struct {
	name   string
	kind   kind
	doc    string
	fields []ownField // of an object, or of each object of a list
}

// ownFields are all fields of the envelope but the payload's one.
func ownFields() []ownField {
	return []ownField{
		{"job_key", aString, "The stable identity of the business effect for one consumer.", nil},
		{"subject", aString, "What a newer version would replace.", nil},
		{"version", aStringOrInteger, "The version of the subject, kept as the text that was written.", nil},
		{"kind", aString, "The kind of job.", nil},
		{"channel", aString, "The channel of the effect, such as email.", nil},
		{"customer", anObject, "Whom the effect is for.", []ownField{
			{"id", aStringOrInteger, "The customer's ID.", nil},
			{"status", aString, "The customer's status when the job was made.", nil},
		}},
		{"period", aString, "The period that the job is for.", nil},
		{"region", aString, "The region that the job belongs to.", nil},
		{"schema_version", aStringOrInteger, "The version of the payload's schema.", nil},
		{"deployment_id", aString, "The deployment that made the job.", nil},
		{"trace_context", aString, "The trace context, as in traceparent.", nil},
		{"failure", anObject, "Why the job stopped: the last error, not the wrapper around it.", []ownField{
			{"type", aString, "The error's type.", nil},
			{"code", aStringOrInteger, "The error's code.", nil},
			{"message", aString, "The error's text.", nil},
			{"at", aString, "When it happened, in RFC 3339.", nil},
		}},
		{"quarantined_by", aString, "Who put the copy into the dead-letter queue: max_receives, application or integration.", nil},
		{"attempt", anInteger, "The attempt that this copy was; for display, since attempts are counted in the ledger.", nil},
		{"references", aList, "Content kept elsewhere.", []ownField{
			{"kind", aString, "payload, rendering or stack_trace.", nil},
			{"uri", aString, "Where it is.", nil},
			{"sha256", aString, "The SHA-256 of its bytes, in lower-case hex.", nil},
		}},
	}
}

// The two fields of which an envelope has exactly one.
func payloadFields() [2]ownField {
	return [2]ownField{
		{"payload", anyJSON, "The job itself; its bytes are kept as they are written.", nil},
		{"payload_base64", aString, "The job itself in base64, for what is not JSON.", nil},
	}
}

// checkFields says which field has a type that it must not have.
func checkFields(o object, fields []ownField, prefix string) error {
	for _, f := range fields {
		raw, ok := o[f.name]
		if !ok || string(raw) == "null" {
			continue
		}
		if !f.kind.takes(raw) {
			return fmt.Errorf("envelope field %q has the wrong type", prefix+f.name)
		}
		for _, inner := range f.objects(raw) {
			if err := checkFields(asObject(inner), f.fields, prefix+f.name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// takes reports whether a value, which is not null, is of the kind.
func (k kind) takes(raw json.RawMessage) bool {
	isString := raw[0] == '"'
	switch k {
	case aString:
		return isString
	case anInteger:
		return isInteger(string(raw))
	case aStringOrInteger:
		return isString || isInteger(string(raw))
	case anObject:
		return raw[0] == '{'
	case aList:
		var list []json.RawMessage
		if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
			return false
		}
		for _, e := range list {
			if e[0] != '{' {
				return false
			}
		}
	}
	return true
}

// objects are those within a value of the field, whose fields are checked too.
func (f ownField) objects(raw json.RawMessage) []json.RawMessage {
	switch f.kind {
	case anObject:
		return []json.RawMessage{raw}
	case aList:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			return list
		}
	}
	return nil
}

// isInteger reports whether a JSON value is a number without a fraction, however
// it is written (JSON Schema counts 1.0 and 1e2 as integers). It computes nothing
// that an exponent could make large.
func isInteger(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(s, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if strings.Trim(digits, "0") == "" {
		return true
	}
	shift, err := strconv.Atoi(exponent)
	if exponent != "" && err != nil {
		return exponent[0] != '-' // beyond an int, the sign alone counts
	}
	return len(digits) <= len(whole)+shift
}
