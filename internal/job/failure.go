package job

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Field names that tell a failure, in the form of plain. They are unambiguous:
// a business field of that name would be about an error too.
var (
	typeNames = []string{
		"errortype", "errorname", "errorclass", "exceptiontype", "exceptionclass", "exceptionname", "failuretype", "faulttype",
		"causetype", "reasontype", "nservicebusexceptioninfoinnerexceptiontype", "nservicebusexceptioninfoexceptiontype", "mtfaultexceptiontype",
		"kafkadltexceptioncausefqcn", "kafkadltexceptionfqcn", "connecterrorsexceptionclassname", "errortypename", "lasterrortype", "failureclass", "errorkind", "failurekind", "errorcategory",
	}
	codeNames = []string{"errorcode", "failurecode", "exceptioncode", "reasoncode", "errorstatus", "errorstatuscode", "lasterrorcode", "faultcode", "dlqerrorcode"}
	// statusNames count only beside another field that tells a failure.
	statusNames  = []string{"statuscode", "httpstatus", "httpstatuscode", "responsecode", "responsestatus"}
	messageNames = []string{
		"errormessage", "errormsg", "errortext", "errordescription", "errordetail", "errordetails", "exceptionmessage", "failuremessage",
		"failurereason", "failedreason", "errorreason", "lasterror", "lasterrormessage", "deadlettererrordescription", "mtfaultmessage", "rbs2errordetails",
		"nservicebusexceptioninfomessage", "exceptionstacktrace", "stacktrace", "errorstack", "exceptionstack", "faultmessage", "faultstring",
	}
	// stackNames hold a stack trace, with the causes below the error.
	stackNames = []string{"exceptionstacktrace", "stacktrace", "errorstack", "exceptionstack", "stack", "errorstacktrace"}
	// The last of the reasons is a business word too, see decided.
	reasonNames = []string{"deadletterreason", "dlqreason", "dlreason", "rejectreason", "rejectionreason", "reason"}
	timeNames   = []string{"failedat", "failuretime", "failuretimestamp", "erroredat", "lastfailedat", "nservicebustimeoffailure", "mtfaulttimestamp", "errortime", "errortimestamp"}
	// containerNames hold an error as an object, a text, or a list of them.
	containerNames = []string{"error", "exception", "failure", "lasterror", "lastexception", "errorinfo", "errordetails", "fault", "failureinfo", "failuredetails", "err", "errors", "exceptions", "failures", "cause"}
)

// Keys inside an error object.
var (
	objectTypes    = []string{"name", "type", "class", "errortype", "errorname", "exceptiontype", "exceptionclass", "exception", "kind", "typename", "classname"}
	objectCodes    = []string{"code", "errorcode", "statuscode", "status", "httpstatus", "httpstatuscode", "responsecode", "errno"}
	objectMessages = []string{"message", "msg", "errormessage", "exceptionmessage", "description", "detail", "reason", "text", "stack", "stacktrace"}
	objectCauses   = []string{"cause", "innerexception", "innererror", "inner", "nested", "previous", "rootcause", "error", "causedby", "source"}
)

// pair is one named text with the path where it lies.
type pair struct{ name, text, path string }

// pick is the first pair, in the order of names, that has text.
func pick(ps []pair, names []string) pair {
	for _, n := range names {
		for _, p := range ps {
			if p.name == n && p.text != "" {
				return p
			}
		}
	}
	return pair{}
}

func objectPairs(o object, path string) []pair {
	ps := make([]pair, 0, len(o))
	for k, raw := range o {
		ps = append(ps, pair{plain(k), asText(raw), path + "." + k})
	}
	slices.SortFunc(ps, func(a, b pair) int { return strings.Compare(a.path, b.path) })
	return ps
}

func attributePairs(as []broker.Attribute) []pair {
	ps := make([]pair, 0, len(as))
	for _, a := range as {
		ps = append(ps, pair{plain(a.Name), string(a.Value), attrField(a)})
	}
	return ps
}

// compose makes a failure of what was found. The type is what the reason is
// called by, so a code alone is also the type.
func compose(typ, code, message, at pair) Failure {
	f := Failure{Type: typ.text, Code: code.text, Message: message.text, At: parseTime(at.text)}
	if typ.text != "" {
		f.Field = typ.path
	}
	if f.Type == "" && informative(code.text) {
		f.Type, f.Field = code.text, code.path
	}
	if f.Field == "" && message.text != "" {
		f.Field = message.path
	}
	if f.Type == "" && f.Message == "" {
		f.Field = ""
		f.Code = ""
	}
	return f
}

// informative reports whether a code says anything: a success status or a zero
// does not (Lambda gives 200 for a function that failed).
func informative(code string) bool {
	return code != "" && code != "0" && !(len(code) == 3 && (code[0] == '2' || code[0] == '3') && isDigits(code))
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func attributeFailure(as []broker.Attribute, j *Job) {
	ps := attributePairs(as)
	j.Failure = flatFailure(ps)
	if j.Failure.Empty() {
		if p := pick(ps, []string{"error", "exception"}); p.text != "" {
			j.Failure = textFailure(p)
		}
	}
}

// flatFailure reads fields that stand side by side.
func flatFailure(ps []pair) Failure {
	typ, code, message := pick(ps, typeNames), pick(ps, codeNames), pick(ps, messageNames)
	if reason := pick(ps, reasonNames[:len(reasonNames)-1]); typ.text == "" && code.text == "" && !strings.Contains(reason.text, " ") {
		typ = reason
	}
	if typ.text == "" && message.text != "" || typ.text != "" && code.text == "" {
		if s := pick(ps, statusNames); code.text == "" {
			code = s
		}
	}
	at := pick(ps, timeNames)
	if f := compose(typ, code, message, at); !f.Empty() {
		return deeper(f, pick(ps, stackNames))
	}
	p := pick(ps, reasonNames)
	if p.text == "" || p.name == "reason" && !decided(p.text) {
		return Failure{}
	}
	f := reasonFailure(p)
	f.At = parseTime(at.text)
	return f
}

// decided reports whether a field called "reason" is a consumer's decision and
// not a reason of the business: "terminal:400", "transient:timeout",
// "attempts_exhausted".
func decided(s string) bool {
	word, _, marked := strings.Cut(s, ":")
	word = plain(word)
	if marked && slices.Contains([]string{"terminal", "transient", "permanent", "retryable", "fatal", "error", "exception", "nonretryable", "poison", "failed"}, word) {
		return true
	}
	return slices.Contains([]string{"attemptsexhausted", "retriesexhausted", "maxretries", "maxretriesexceeded", "maxattempts", "maxattemptsexceeded", "maxdeliverycountexceeded", "retryattemptsexhausted", "maxreceivecountexceeded", "toomanyretries"}, plain(s))
}

// reasonFailure reads a reason: one word is a code like "terminal:400", a text
// with spaces is a message.
func reasonFailure(p pair) Failure {
	if strings.ContainsAny(strings.TrimSpace(p.text), " \n") {
		return textFailure(p)
	}
	return codeFailure(p)
}

// codeFailure reads "terminal:400": the whole is the type, what follows the
// colon is the code.
func codeFailure(p pair) Failure {
	f := Failure{Type: strings.TrimSpace(p.text), Field: p.path}
	if _, code, ok := strings.Cut(f.Type, ":"); ok {
		f.Code = code
	}
	if f.Type == "" {
		return Failure{}
	}
	return f
}

// textFailure reads one text: a code without spaces, or a message.
func textFailure(p pair) Failure {
	if o := asObject(json.RawMessage(strings.TrimSpace(p.text))); o != nil {
		if f := errorObject(o, p.path+"|json", 1); !f.Empty() {
			return f
		}
	}
	if !strings.ContainsAny(strings.TrimSpace(p.text), " \n") {
		return codeFailure(p)
	}
	return Failure{Message: p.text, Field: p.path}
}

// failureBeside finds the failure of a message that does not tell it itself: in
// what its broker keeps beside it, in the headers of a framework, in attributes.
// A broker that only says how often, or that it was rejected, has the last word.
func failureBeside(v view, j *Job) {
	kept := brokerReason(v.system)
	switch {
	case !j.Failure.Empty():
	case !kept.Empty() && !howOften(kept.Type):
		j.Failure = kept
	default:
		format := j.Format
		if framework(v, j) && format != Bare {
			j.Format = format
		}
		if j.Failure.Empty() {
			attributeFailure(v.attrs, j)
		}
		if j.Failure.Empty() {
			j.Failure = kept
		}
	}
	if j.Failure.At.IsZero() {
		j.Failure.At = kept.At
	}
}

// howOften reports whether a broker's reason says how a message came to be dead,
// and not why: RabbitMQ's four, and the names for too many deliveries.
func howOften(reason string) bool {
	return slices.Contains([]string{"rejected", "expired", "maxlen", "delivery_limit"}, reason) || decided(reason)
}

// bodyFailure reads an error that a body carries at its top level, as an object
// or as fields side by side.
func bodyFailure(o object, path string) Failure {
	if o == nil {
		return Failure{}
	}
	ps := objectPairs(o, path)
	flat := flatFailure(ps)
	if f := namedCause(ps); !f.Empty() {
		return withTime(f, pick(ps, timeNames))
	}
	for _, name := range containerNames {
		for _, p := range ps {
			if p.name != name || name == "cause" && flat.Empty() {
				continue
			}
			f := errorValue(o[p.path[len(path)+1:]], p.path, 0)
			if !f.Empty() && (flat.Type == "" || f.Type != "") {
				return withTime(f, pick(ps, timeNames))
			}
		}
	}
	if flat.Empty() {
		return sideFailure(o, ps, path)
	}
	return flat
}

// namedCause reads an error's name beside its cause, as a state machine gives it:
// the cause is a text, or an error object in one.
func namedCause(ps []pair) Failure {
	name, cause := pick(ps, []string{"error"}), pick(ps, []string{"cause"})
	if name.text == "" || cause.text == "" || strings.ContainsAny(name.text, "{[ \n") {
		return Failure{}
	}
	if f := errorText(cause, 0); !f.Empty() {
		return f
	}
	return compose(name, pair{}, cause, pair{})
}

// sideNames hold what a consumer knows of a message, the error among it.
var sideNames = []string{"metadata", "meta", "dlq", "deadletter", "deadletterinfo", "dlqmetadata", "failurecontext", "errorcontext", "_error", "_failure", "_dlq"}

// sideFailure reads an error from an object of metadata beside the original: one
// of the pairs that the object has at this path.
func sideFailure(o object, ps []pair, path string) Failure {
	for _, p := range ps {
		key := p.path[len(path)+1:]
		if !slices.Contains(sideNames, p.name) && !slices.Contains(sideNames, key) {
			continue
		}
		inner := o.obj(key)
		if f := bodyFailure(without(inner, sideNames...), p.path); !f.Empty() {
			return f
		}
		if reason := inner.text("reason"); reason != "" && p.name != "metadata" && p.name != "meta" {
			return textFailure(pair{text: reason, path: p.path + ".reason"})
		}
	}
	return Failure{}
}

func withTime(f Failure, at pair) Failure {
	if f.At.IsZero() {
		f.At = parseTime(at.text)
	}
	return f
}

// errorValue reads an error that is an object, a text, or a list whose last
// entry is the latest.
func errorValue(raw json.RawMessage, path string, depth int) Failure {
	if len(raw) == 0 || depth >= maxWraps {
		return Failure{}
	}
	switch raw[0] {
	case '{':
		return errorObject(asObject(raw), path, depth)
	case '"':
		if s := asText(raw); s != "" {
			return textFailure(pair{text: s, path: path})
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			return errorValue(list[len(list)-1], path+"["+strconv.Itoa(len(list)-1)+"]", depth+1)
		}
	}
	return Failure{}
}

// errorObject reads an error object and follows its causes to the innermost one
// that says anything.
func errorObject(o object, path string, depth int) Failure {
	ps := objectPairs(o, path)
	for _, name := range objectCauses {
		for _, p := range ps {
			if p.name != name {
				continue
			}
			raw := o[p.path[len(path)+1:]]
			if name == "source" && (len(raw) == 0 || raw[0] != '{') {
				continue
			}
			if f := errorValue(raw, p.path, depth+1); !f.Empty() {
				return f
			}
		}
	}
	if r := o.obj("response"); r != nil && pick(ps, objectCodes).text == "" {
		ps = append(ps, objectPairs(object{"status": r["status"]}, path+".response")...)
	}
	message := pick(ps, objectMessages)
	if f := errorText(message, depth); !f.Empty() {
		return f
	}
	f := compose(pick(ps, objectTypes), objectCode(ps), message, pick(ps, append(slices.Clone(timeNames), "at", "timestamp")))
	return deeper(f, pick(ps, stackNames))
}

// errorText reads a message that is itself an error object, as a function gives
// it that passes on another's.
func errorText(message pair, depth int) Failure {
	o := asObject(json.RawMessage(strings.TrimSpace(message.text)))
	if o == nil || depth >= maxWraps {
		return Failure{}
	}
	return errorObject(o, message.path+"|json", depth+1)
}

// objectCode prefers a code; a status beside it counts where the code is only
// the name of a wrapper.
func objectCode(ps []pair) pair {
	code := pick(ps, objectCodes)
	for _, p := range ps {
		if _, ok := httpStatus(p.text); ok && slices.Contains(objectCodes, p.name) && fromName(code.text, FromCode).weak {
			return p
		}
	}
	return code
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
