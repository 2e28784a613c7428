package job

import (
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// EnvelopeAttribute is the attribute that can carry all fields of the envelope
// but the payload, as one JSON object, for brokers with few attributes.
const EnvelopeAttribute = "redrivectl"

// identityField is the job's own field that is read under a name in the form of
// plain; nil: none is.
func identityField(j *Job, name string) *string {
	switch name {
	case "jobkey", "deliverykey", "idempotencykey":
		return &j.JobKey
	case "subject":
		return &j.Subject
	case "version":
		return &j.Version
	case "channel":
		return &j.Channel
	case "period":
		return &j.Period
	case "region":
		return &j.Region
	case "customerid":
		return &j.CustomerID
	case "customerstatus":
		return &j.CustomerStatus
	case "schemaversion":
		return &j.SchemaVersion
	case "deploymentid":
		return &j.DeploymentID
	case "traceparent", "tracecontext":
		return &j.TraceContext
	case "kind":
		return &j.Kind
	}
	return nil
}

// attributeIdentity reads a job's fields from attributes; what an envelope said
// already stays.
func attributeIdentity(as []broker.Attribute, j *Job) {
	if raw := attribute(as, EnvelopeAttribute); raw != "" {
		if o := asObject([]byte(raw)); o != nil {
			envelopeFields(o, stringField(EnvelopeAttribute)+"|json", j)
		} else if j.DecodeError == "" {
			j.DecodeError, j.Malformed = "attribute redrivectl is not a JSON object", true
		}
	}
	for _, a := range as {
		name := plain(a.Name)
		if p := identityField(j, name); p != nil && *p == "" {
			*p = string(a.Value)
		}
		if name == "eventtype" || name == "messagetype" || a.Name == "type" {
			j.Kind = orElse(j.Kind, string(a.Value))
		}
		if name == "attempt" {
			setAttempt(j, string(a.Value))
		}
	}
	j.Task = orElse(j.Task, j.Kind)
}

// bodyFields are the fields that a bare JSON body may tell of its job. A
// subject, a channel or a kind of the same name is too often something else.
var bodyFields = []string{"job_key", "delivery_key", "idempotency_key", "customer_id", "customer_status", "schema_version", "period", "region", "version", "channel"}

func bodyIdentity(o object, j *Job) {
	for _, name := range bodyFields {
		if text := o.text(name); text != "" {
			p := identityField(j, plain(name))
			*p = orElse(*p, text)
		}
	}
}

func setAttempt(j *Job, s string) {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && j.AttemptOnCopy == nil {
		j.AttemptOnCopy = &n
	}
}

// generalFields reads an application's own job object by the ending of its
// names: the first "X_version" names the subject's version and "X_id" beside it
// the subject; "subscriber_id", "customer_id", "user_id", "tenant_id" and
// "account_id" name the customer.
func generalFields(o object, j *Job) {
	bodyIdentity(o, j)
	setAttempt(j, o.text("attempt"))
	j.Kind = orElse(j.Kind, orElse(o.text("kind"), o.text("type")))
	j.Subject = orElse(j.Subject, o.text("subject"))
	ps := objectPairs(o, "")
	for _, customer := range []string{"subscriber_id", "customer_id", "user_id", "tenant_id", "account_id"} {
		j.CustomerID = orElse(j.CustomerID, o.text(customer))
	}
	for _, p := range ps {
		name := p.path[1:]
		if base, ok := strings.CutSuffix(name, "_version"); ok && base != "schema" && p.text != "" {
			j.Version = orElse(j.Version, p.text)
			j.Subject = orElse(j.Subject, o.text(base+"_id"))
		}
	}
	for _, p := range ps {
		if name := p.path[1:]; strings.HasSuffix(name, "_id") && !aside(name) {
			j.Subject = orElse(j.Subject, p.text)
		}
	}
}

// aside reports whether an "_id" names something beside the job's subject.
func aside(name string) bool {
	switch name {
	case "subscriber_id", "customer_id", "user_id", "tenant_id", "account_id", "request_id", "trace_id", "correlation_id", "message_id", "deployment_id":
		return true
	}
	return false
}

// taskOf names what a job without a reason can be grouped by: the task or class
// that frameworks write into their bodies.
func taskOf(o object, j *Job) {
	switch {
	case j.Task != "":
	case o.has("job_class", "arguments"): // Active Job
		j.Task = o.text("job_class")
	case o.has("messageType", "message"): // MassTransit
		j.Task = firstText(o["messageType"])
	default:
		for _, k := range []string{"detail-type", "eventType", "event_type", "task", "type", "event", "kind"} {
			j.Task = orElse(j.Task, o.text(k))
		}
	}
}
