package job

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Format names of the envelopes that this file reads.
const (
	FormatOwn   = "redrivectl/v1"
	FormatRetry = "retry"
)

var markerPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*\{\s*"format"\s*:\s*"redrivectl/v`)
})

// ownMarker reports whether a body declares itself the tool's own envelope,
// also where its JSON is broken further on: the marker is its first key.
func ownMarker(body []byte) bool { return markerPattern().Match(body[:min(len(body), 256)]) }

// ownEnvelope reads the tool's own envelope (docs/envelope.md). A field of a
// wrong type makes the envelope malformed; the fields that can be read are kept.
func ownEnvelope(v view, j *Job) bool {
	format := v.obj.text("format")
	if !strings.HasPrefix(format, "redrivectl/") {
		return false
	}
	j.Format = format
	if format != FormatOwn {
		j.DecodeError = fmt.Sprintf("unknown envelope version %q", format)
		return true
	}
	envelopeFields(v.obj, v.path, j)
	err := errors.Join(v.err, checkFields(v.obj, ownFields(), ""), payload(v.obj, j))
	if err != nil {
		j.DecodeError, j.Malformed = strings.ReplaceAll(err.Error(), "\n", "; "), true
	}
	return true
}

// envelopeFields reads the named fields of the envelope; it serves the body and
// the attribute alike.
func envelopeFields(o object, path string, j *Job) {
	for key, p := range map[string]*string{
		"job_key": &j.JobKey, "subject": &j.Subject, "version": &j.Version, "kind": &j.Kind, "channel": &j.Channel,
		"period": &j.Period, "region": &j.Region, "schema_version": &j.SchemaVersion, "deployment_id": &j.DeploymentID, "trace_context": &j.TraceContext,
	} {
		*p = orElse(*p, o.text(key))
	}
	customer := o.obj("customer")
	j.CustomerID = orElse(j.CustomerID, customer.text("id"))
	j.CustomerStatus = orElse(j.CustomerStatus, customer.text("status"))
	setAttempt(j, o.text("attempt"))
	j.Task = orElse(j.Task, j.Kind)
	if by := QuarantinedBy(o.text("quarantined_by")); slices.Contains([]QuarantinedBy{ByMaxReceives, ByApplication, ByIntegration}, by) {
		j.QuarantinedBy = by
	}
	j.References = append(j.References, references(o["references"])...)
	if f := o.obj("failure"); f != nil && j.Failure.Empty() {
		at := func(key string) pair { return pair{key, f.text(key), path + ".failure." + key} }
		j.Failure = compose(at("type"), at("code"), at("message"), at("at"))
	}
}

func references(raw json.RawMessage) []Reference {
	var list []struct {
		Kind   string `json:"kind"`
		URI    string `json:"uri"`
		SHA256 string `json:"sha256"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var rs []Reference
	for _, r := range list {
		rs = append(rs, Reference(r))
	}
	return rs
}

// payload takes the envelope's payload: the raw bytes of "payload", or what
// "payload_base64" stands for.
func payload(o object, j *Job) error {
	if o.has("payload", "payload_base64") {
		return errors.New("envelope has both payload and payload_base64")
	}
	if raw, ok := o["payload"]; ok {
		j.Payload = raw
		return nil
	}
	if !o.isString("payload_base64") {
		return errors.New("envelope has no payload")
	}
	b, err := base64.StdEncoding.DecodeString(o.text("payload_base64"))
	if err != nil {
		return fmt.Errorf("envelope field payload_base64: %w", err)
	}
	j.Payload = b
	return nil
}

// retryEnvelope reads {"job": …, "delivery_key", "reason"}: an application's
// dead letter with the decision that stopped it. The consumer reads the same
// form, so it is redriven as it is.
func retryEnvelope(v view, j *Job) bool {
	if !v.obj.isString("delivery_key") || !v.obj.isString("reason") || !v.obj.has("job") {
		return false
	}
	j.Format = FormatRetry
	j.JobKey = v.obj.text("delivery_key")
	j.Payload = content(v.obj["job"])
	if o := asObject(json.RawMessage(j.Payload)); o != nil {
		generalFields(o, j)
	}
	j.Failure = reasonFailure(pair{text: v.obj.text("reason"), path: v.path + ".reason"})
	if nearer := bodyFailure(without(v.obj, "reason", "job"), v.path); !nearer.Empty() {
		j.Failure = nearer
	}
	j.QuarantinedBy = ByApplication
	return true
}

func without(o object, keys ...string) object {
	rest := object{}
	for k, raw := range o {
		if !slices.Contains(keys, k) {
			rest[k] = raw
		}
	}
	return rest
}

// firstText is the first text of a list, or the text itself.
func firstText(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return asText(raw)
}

// errorEnvelope reads a home-made envelope: an error beside the original, which
// is what a redrive sends.
func errorEnvelope(v view, j *Job) bool {
	key := originalKey(v.obj)
	f := envelopeFailure(v, key)
	if key == "" || f.Empty() {
		return false
	}
	j.Failure, j.Format = f, "error-envelope"
	setAttempt(j, orElse(v.obj.text("attempt"), v.obj.text("attempts")))
	o, path, err := originalOf(v.obj, key, v.path)
	wrapped(v, o, err, path, j)
	return true
}

// envelopeFailure is the error beside the original. Beside one that is called
// so, a plain "reason" is the consumer's too.
func envelopeFailure(v view, key string) Failure {
	if key == "" {
		return Failure{}
	}
	if f := bodyFailure(v.obj, v.path); !f.Empty() {
		return f
	}
	reason := v.obj.text("reason")
	if reason == "" || !strings.HasPrefix(key, "orig") && !strings.HasPrefix(key, "failed") {
		return Failure{}
	}
	return textFailure(pair{text: reason, path: v.path + ".reason"})
}
