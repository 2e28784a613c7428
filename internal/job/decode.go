package job

import (
	"errors"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Bare is the format of a body that no envelope was recognised in.
const Bare = "bare"

// recogniser reads one envelope. It reports whether the message is of its kind,
// and then has filled the job.
type recogniser func(v view, j *Job) bool

// recognisers are in the order in which they are tried: the more a shape says
// of itself, the earlier.
func recognisers() []recogniser {
	return []recogniser{
		ownEnvelope, retryEnvelope, lambdaDestination, eventBusRecord, eventBridge, snsNotification,
		lambdaAsync, extendedClient, celery, symfony, natsAdvisory, compressed, cloudEvent,
		framework, laravel, sidekiq, bullMQ, asynq, errorEnvelope,
	}
}

// Decode turns a message into a job. It is pure and never fails: what cannot be
// read is a job with DecodeError, known by its message ID. The message itself
// is kept as it is.
func Decode(m broker.Message, queue string) Job { return decode(m, queue, nil) }

func decode(m broker.Message, queue string, mapping *Mapping) Job {
	j := Job{Message: m, Queue: queue, Payload: m.Body, Format: Bare, Redrivable: true}
	v := newView(m.Attributes, m.Body, "Body", 0)
	v.system, v.origin = m.System, m.Origin
	decodeView(v, &j)
	attributeIdentity(m.Attributes, &j)
	bodyIdentity(v.obj, &j)
	failureBeside(v, &j)
	refine(&j.Failure)
	declaredForm(v, &j)
	origin(v, &j)
	asDumped(m.System, &j)
	j.QuarantinedBy = quarantinedBy(&j)
	if j.TraceContext == "" {
		j.TraceContext = attribute(m.System, broker.SystemTraceHeader)
	}
	mapping.apply(v, &j)
	j.PayloadBytes = len(j.Payload)
	hash(&j)
	return j
}

// decodeView tries the envelopes, then an error that the body carries bare.
func decodeView(v view, j *Job) {
	for _, recognise := range recognisers() {
		if recognise(v, j) {
			return
		}
	}
	if f := bodyFailure(v.obj, v.path); !f.Empty() && j.Failure.Empty() {
		j.Failure = f
	}
	taskOf(v.obj, j)
}

// inside decodes what a wrapper holds for its identity and its failure. The
// wrapper decides on format and redrivability.
func inside(v view, body []byte, path string, j *Job) {
	j.Payload = body
	inner, ok := v.into(body, path)
	if !ok {
		return
	}
	n := Job{Payload: body, Format: Bare, Redrivable: true}
	decodeView(inner, &n)
	bodyIdentity(inner.obj, &n)
	keepOuter(&n, j)
	n.References = append(n.References, j.References...)
	n.Message, n.Queue, n.Format, n.Origin = j.Message, j.Queue, j.Format, j.Origin
	n.Redrivable, n.WhyNot, n.Original = j.Redrivable, j.WhyNot, j.Original
	*j = n
}

// keepOuter gives the inner job what the wrapper says. The wrapper's failure is
// why the copy was quarantined; an error inside the original is the original's
// own matter, and counts only where the wrapper has none.
func keepOuter(n *Job, outer *Job) {
	if !outer.Failure.Empty() {
		n.Failure = outer.Failure
	}
	for _, p := range []struct{ in, out *string }{
		{&n.JobKey, &outer.JobKey},
		{&n.Subject, &outer.Subject},
		{&n.Version, &outer.Version},
		{&n.Kind, &outer.Kind},
		{&n.Channel, &outer.Channel},
		{&n.CustomerID, &outer.CustomerID},
		{&n.CustomerStatus, &outer.CustomerStatus},
		{&n.Period, &outer.Period},
		{&n.Region, &outer.Region},
		{&n.SchemaVersion, &outer.SchemaVersion},
		{&n.DeploymentID, &outer.DeploymentID},
		{&n.TraceContext, &outer.TraceContext},
		{&n.Task, &outer.Task},
	} {
		if *p.in == "" {
			*p.in = *p.out
		}
	}
	if n.AttemptOnCopy == nil {
		n.AttemptOnCopy = outer.AttemptOnCopy
	}
	if outer.QuarantinedBy != "" {
		n.QuarantinedBy = outer.QuarantinedBy
	}
}

// declaredForm marks a body that is broken against the form that the message
// itself declares, and says why a body that looks like JSON was not read.
func declaredForm(v view, j *Job) {
	if v.err == nil || errors.Is(v.err, errDuplicate) || j.DecodeError != "" || j.Format != Bare {
		return
	}
	j.DecodeError = v.err.Error()
	if ownMarker(v.body) || strings.Contains(strings.ToLower(contentType(v)), "json") && syntaxError(v.body) != nil {
		j.Malformed = true
	}
}

func contentType(v view) string {
	for _, a := range v.attrs {
		if plain(a.Name) == "contenttype" {
			return string(a.Value)
		}
	}
	return ""
}

// origin completes where the copy came from, and how often it was tried, with
// what the broker keeps beside the message or among its attributes.
func origin(v view, j *Job) {
	pubsub(v.attrs, j)
	pubsub(v.system, j)
	rabbitDeaths(v.system, j)
	j.Origin = orElse(v.origin, j.Origin)
}

// quarantinedBy says who moved the copy: what the broker or the envelope says,
// else the broker where it names the source queue, else the application where
// there is a reason.
func quarantinedBy(j *Job) QuarantinedBy {
	by := attribute(j.Message.System, broker.SystemQuarantinedBy)
	switch {
	case by == broker.QuarantinedByMaxReceives:
		return ByMaxReceives
	case by == broker.QuarantinedByApplication:
		return ByApplication
	case by == broker.QuarantinedByBroker:
		return ByUnknown
	case j.QuarantinedBy != "":
		return j.QuarantinedBy
	case j.Message.Origin != "":
		return ByMaxReceives
	case !j.Failure.Empty():
		return ByApplication
	}
	return ByUnknown
}

// attribute is the first attribute of that name as text, or empty.
func attribute(as []broker.Attribute, name string) string {
	for _, a := range as {
		if a.Name == name {
			return string(a.Value)
		}
	}
	return ""
}

// parseTime reads the forms in which envelopes write times: RFC 3339 and Unix
// seconds or milliseconds. What it cannot read is the zero time.
func parseTime(s string) time.Time {
	if len(s) < 8 {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04:05:000000 Z"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return unixTime(s)
}
