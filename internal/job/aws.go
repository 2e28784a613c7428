package job

import (
	"encoding/json"
	"errors"
)

// lambdaDestination reads the record that Lambda sends to an on-failure
// destination. That of a stream's event source holds positions, not records.
func lambdaDestination(v view, j *Job) bool {
	rc := v.obj.obj("requestContext")
	pointer := hasAny(v.obj, "KinesisBatchInfo", "DDBStreamBatchInfo", "KafkaBatchInfo")
	if rc == nil || !rc.has("condition") || !rc.has("functionArn") && !pointer {
		return false
	}
	j.Format, j.QuarantinedBy = "lambda-destination", ByIntegration
	setAttempt(j, rc.text("approximateInvokeCount"))
	j.Failure = responseFailure(v)
	if j.Failure.Empty() {
		j.Failure = Failure{Type: rc.text("condition"), Field: v.path + ".requestContext.condition"}
	}
	j.Failure.At = parseTime(v.obj.text("timestamp"))
	if pointer {
		j.Format = "lambda-stream-pointer"
		j.Redrivable, j.WhyNot = false, "the message holds positions in a stream, not the records"
		return true
	}
	request, err := exactBytes(v.obj["requestPayload"], false)
	if errors.Is(err, errNotWhole) {
		err = errors.New("the record does not hold the request")
	}
	wrapped(v, Original{Body: request}, err, v.path+".requestPayload", j)
	return true
}

// responseFailure reads the function's own error: an object, or a text.
func responseFailure(v view) Failure {
	path := v.path + ".responsePayload"
	raw := v.obj["responsePayload"]
	if o := asObject(raw); o != nil {
		return withDetail(errorObject(o, path, 0), o, path)
	}
	return errorValue(raw, path, 0)
}

// withDetail fills what errorObject found with the fields side by side, where
// it found none.
func withDetail(f Failure, o object, path string) Failure {
	if f.Empty() {
		return bodyFailure(o, path)
	}
	return f
}

// eventBusRecord reads what a custom event bus writes about events that it
// could not deliver. The events are not in it.
func eventBusRecord(v view, j *Job) bool {
	if !v.obj.has("failedMessages") || !v.obj.has("busArn") && !v.obj.has("subscriberArn") {
		return false
	}
	j.Format, j.QuarantinedBy = "eventbridge-bus", ByIntegration
	at := func(key string) pair { return pair{key, v.obj.text(key), v.path + "." + key} }
	j.Failure = compose(pair{}, at("errorCode"), at("errorMessage"), pair{})
	j.Failure.Signal = eventBridgeCodes[j.Failure.Code]
	if j.Failure.Empty() {
		j.Failure = compose(at("exhaustedRetryCondition"), pair{}, pair{}, pair{})
	}
	setAttempt(j, v.obj.text("retryAttempts"))
	j.Origin = v.obj.text("targetArn")
	j.Redrivable, j.WhyNot = false, "the record names the events and does not hold them"
	return true
}

// eventBridge reads what a rule or a schedule leaves: the whole event, with the
// reason in attributes.
func eventBridge(v view, j *Job) bool {
	target := v.hasAttrs("TARGET_ARN") || v.hasAttrs("RULE_ARN") || v.hasAttrs("SCHEDULE_ARN")
	if !target || !v.hasAttrs("ERROR_CODE") && !v.hasAttrs("EXHAUSTED_RETRY_CONDITION") && !v.hasAttrs("ERROR_MESSAGE") {
		return false
	}
	j.Format, j.QuarantinedBy = "eventbridge-rule", ByIntegration
	if v.hasAttrs("SCHEDULE_ARN") {
		j.Format = "eventbridge-scheduler"
	}
	j.Failure = namedFailure(v, "", "ERROR_CODE", "ERROR_MESSAGE")
	if j.Failure.Empty() {
		j.Failure = namedFailure(v, "EXHAUSTED_RETRY_CONDITION", "", "")
	}
	j.Failure.Signal = eventBridgeCodes[j.Failure.Code]
	attempts, _ := v.attr("RETRY_ATTEMPTS")
	setAttempt(j, attempts)
	j.Origin, _ = v.attr("TARGET_ARN")
	j.Task, j.Kind = v.obj.text("detail-type"), v.obj.text("detail-type")
	j.Region = v.obj.text("region")
	if cut, _ := v.attr("IS_PAYLOAD_TRUNCATED"); cut == "true" {
		j.Redrivable, j.WhyNot = false, "the integration cut the payload short"
	}
	return true
}

// eventBridgeCodes are error codes of EventBridge whose words alone do not say
// what they mean.
var eventBridgeCodes = map[string]Signal{
	"NO_RESOURCE":           SignalDestination,
	"FAILED_TO_ASSUME_ROLE": SignalUnauthorized,
}

// namedFailure reads a failure from attributes of exactly these names.
func namedFailure(v view, typ, code, message string) Failure {
	at := func(name string) pair {
		text, _ := v.attr(name)
		return pair{name, text, stringField(name)}
	}
	return compose(at(typ), at(code), at(message), pair{})
}

// snsNotification reads SNS's wrapping, as a queue without raw delivery gets it
// or as the dead-letter queue of a subscription does. The consumer expects the
// wrapping, so it stays.
func snsNotification(v view, j *Job) bool {
	if v.obj.text("Type") != "Notification" || !v.obj.has("TopicArn") || !v.obj.isString("Message") {
		return false
	}
	j.Format = "sns"
	if j.Message.Origin == "" && v.depth == 0 {
		j.Format, j.QuarantinedBy = "sns-subscription", ByIntegration
		j.Failure = namedFailure(v, "", "ErrorCode", "ErrorMessage")
	}
	kind := snsAttribute(v.obj, "eventType")
	if kind == "" {
		kind = v.obj.text("Subject")
	}
	j.Kind, j.Task = kind, kind
	inside(v, []byte(v.obj.text("Message")), v.path+".Message", j)
	return true
}

func snsAttribute(o object, name string) string {
	return o.obj("MessageAttributes").obj(name).text("Value")
}

// lambdaAsync reads the dead-letter queue of an asynchronously invoked
// function: the body is the raw event, the reason is in attributes. Its
// ErrorCode is the status of the invocation, often 200, and says nothing then.
func lambdaAsync(v view, j *Job) bool {
	if !v.hasAttrs("RequestID") || !v.hasAttrs("ErrorCode") && !v.hasAttrs("ErrorMessage") {
		return false
	}
	j.Format, j.QuarantinedBy = "lambda-async", ByIntegration
	j.Failure = namedFailure(v, "", "ErrorCode", "ErrorMessage")
	if m, _ := v.attr("ErrorMessage"); m != "" {
		if f := textFailure(pair{text: m, path: stringField("ErrorMessage")}); f.Type != "" && asObject(json.RawMessage(m)) != nil {
			j.Failure = f
		}
	}
	return true
}

// extendedClient reads the pointer of the extended client: the payload lies in
// S3. It is redriven as it is, with its size attribute.
func extendedClient(v view, j *Job) bool {
	if v.obj != nil || v.err != nil || len(v.body) > 8<<10 || !looksLikeJSON(v.body) {
		return false
	}
	var parts []json.RawMessage
	if json.Unmarshal(v.body, &parts) != nil || len(parts) != 2 {
		return false
	}
	p := asObject(parts[1])
	if asText(parts[0]) == "" || !p.isString("s3BucketName") || !p.isString("s3Key") {
		return false
	}
	j.Format = "extended-client"
	j.References = append(j.References, Reference{Kind: "payload", URI: "s3://" + p.text("s3BucketName") + "/" + p.text("s3Key")})
	return true
}
