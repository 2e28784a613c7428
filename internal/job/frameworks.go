package job

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// celery reads Celery's messages as kombu writes them: headers with the task's
// name, the body in base64, on SQS all of it in base64 again. They never hold
// an exception.
func celery(v view, j *Job) bool {
	if task := v.header("task").text; task != "" && v.header("id").text != "" && v.header("argsrepr").name != "" {
		j.Format, j.Task, j.Kind = "celery", task, task // on AMQP the headers are the message's
		setAttempt(j, v.header("retries").text)
		return true
	}
	o := v.obj
	if o == nil {
		o = asObject(base64Object(v.body))
	}
	h := o.obj("headers")
	if !h.isString("task") || !o.has("body") || !o.has("properties") {
		return false
	}
	j.Format, j.Task, j.Kind = "celery", h.text("task"), h.text("task")
	setAttempt(j, h.text("retries"))
	j.Payload = content(o["body"])
	if o.obj("properties").text("body_encoding") == "base64" {
		if b, err := base64.StdEncoding.DecodeString(o.text("body")); err == nil {
			j.Payload = b
		}
	}
	return true
}

// base64Object is what a base64 text stands for, if that looks like JSON.
func base64Object(body []byte) json.RawMessage {
	if len(body) < 8 || len(body) > maxParsed || !bytes.HasPrefix(body, []byte("ey")) {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body)))
	if err != nil || !looksLikeJSON(b) {
		return nil
	}
	return b
}

// symfonyStamp begins the headers into which Symfony Messenger writes a stamp.
// On SQS, whose names have no backslash, they are all in one attribute.
const (
	symfonyStamp   = "X-Message-Stamp-"
	symfonyHeaders = "X-Symfony-Headers"
)

// symfony reads the stamps of Symfony Messenger: JSON in strings. The last stamp
// of a kind is the latest.
func symfony(v view, j *Job) bool {
	stamps, where := symfonyStamps(v)
	key, details := stamp(stamps, "ErrorDetailsStamp")
	_, sent := stamp(stamps, "SentToFailureTransportStamp")
	if where == "" && len(details) == 0 && len(sent) == 0 {
		return false
	}
	j.Format, j.QuarantinedBy = "symfony", ByApplication
	if task, _ := v.attr("type"); task != "" {
		j.Task, j.Kind = task, task
	}
	if i := len(details) - 1; i >= 0 {
		path := fmt.Sprintf("%s%s]|json[%d]", orElse(where, "MessageAttributes["), key, i)
		at := func(k string) pair { return pair{k, details[i].text(k), path + "." + k} }
		j.Failure = compose(at("exceptionClass"), at("exceptionCode"), at("exceptionMessage"), pair{})
	}
	if _, list := stamp(stamps, "RedeliveryStamp"); len(list) > 0 {
		setAttempt(j, list[len(list)-1].text("retryCount"))
		j.Failure.At = parseTime(list[len(list)-1].text("redeliveredAt"))
	}
	if len(sent) > 0 {
		j.Origin = sent[len(sent)-1].text("originalReceiverName")
	}
	return true
}

// symfonyStamps are the headers with stamps, and the beginning of the path to
// them where one attribute holds all.
func symfonyStamps(v view) (stamps object, where string) {
	raw, _ := v.attr(symfonyHeaders)
	if stamps = asObject(json.RawMessage(raw)); stamps != nil {
		return stamps, stringField(symfonyHeaders) + "|json["
	}
	stamps = object{}
	for _, a := range v.attrs {
		if !strings.HasPrefix(a.Name, symfonyStamp) {
			continue
		}
		if text, err := json.Marshal(string(a.Value)); err == nil {
			stamps[a.Name] = text
		}
	}
	return stamps, ""
}

// stamp finds the stamps of one class, with the short name that the field path
// gives them.
func stamp(stamps object, class string) (string, []object) {
	keys := make([]string, 0, len(stamps))
	for k := range stamps {
		if strings.HasSuffix(k, `\`+class) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var list []object
	for _, k := range keys {
		var raws []json.RawMessage
		if json.Unmarshal([]byte(stamps.text(k)), &raws) != nil {
			continue
		}
		for _, raw := range raws {
			list = append(list, asObject(raw))
		}
	}
	return "..." + class, list
}

// compressed reads a body that its attributes declare to be gzip, with or
// without base64. What breaks its own declaration is malformed.
func compressed(v view, j *Job) bool {
	encoding := ""
	for _, a := range v.attrs {
		if plain(a.Name) == "contentencoding" {
			encoding = strings.ToLower(string(a.Value))
		}
	}
	if !strings.Contains(encoding, "gzip") {
		return false
	}
	j.Format = "gzip"
	body := v.body
	if strings.Contains(encoding, "base64") {
		b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(body)))
		if err != nil {
			j.DecodeError, j.Malformed = "declared as base64: "+err.Error(), true
			return true
		}
		body = b
	}
	plainBody, err := gunzip(body)
	if err != nil {
		j.DecodeError, j.Malformed = "declared as gzip: "+err.Error(), true
		return true
	}
	inside(v, plainBody, v.path+"|gunzip", j)
	return true
}

// gunzip decompresses at most maxParsed bytes.
func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxParsed+1))
	if err == nil && len(out) > maxParsed {
		err = fmt.Errorf("larger than %d bytes", maxParsed)
	}
	return out, err
}

// cloudEvent reads a CloudEvents envelope in structured mode. The consumer
// expects it, so it is redriven as it is.
func cloudEvent(v view, j *Job) bool {
	if !v.obj.isString("specversion") || !v.obj.isString("type") || !v.obj.isString("source") || !v.obj.isString("id") {
		return false
	}
	j.Format = "cloudevents"
	j.Kind, j.Task, j.Subject = v.obj.text("type"), v.obj.text("type"), v.obj.text("subject")
	j.TraceContext = orElse(v.obj.text("traceparent"), v.obj.text("traceid"))
	j.Failure = bodyFailure(without(v.obj, "data", "type", "source"), v.path)
	if raw, ok := v.obj["data"]; ok {
		j.Payload = raw
	}
	return true
}
