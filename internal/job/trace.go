package job

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// exceptionLine matches "Type: message", qualified or by its ending.
var exceptionLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:Exception in thread "[^"]*" |Uncaught |Unhandled |Error: (?:Uncaught )?)?((?:[A-Za-z_$][\w$]*(?:\.|::|\\|\$))+[A-Z][\w$]*|[A-Z][\w$]*(?:Error|Exception|Fault|Timeout|Failure|Refused|Interrupt|Down|Denied))(?: \(\w+\))?(?:: ?| ?$)(.*)`)
})

// causeMarks stand before a cause: Java's, .NET's, and what people write.
var causeMarks = []string{"Caused by: ", "caused by: ", " ---> ", "Caused by "}

// innermost cuts a text with stacked causes down to its innermost one, and
// splits the type name off where it has one. Frameworks wrap: Java after the
// last "Caused by:", .NET after the last "--->", Python before the first "The
// above exception was the direct cause", PHP before the first "Next".
func innermost(text string) (typ, message string) {
	text = tail(text, maxText)
	if i := strings.Index(text, "\nThe above exception was the direct cause"); i >= 0 {
		text = lastLine(text[:i])
	} else if strings.HasPrefix(strings.TrimSpace(text), "Traceback (most recent call last)") {
		text = lastLine(text)
	} else if inner, _, ok := strings.Cut(text, "\n\nNext "); ok && strings.Contains(inner, "\nStack trace:") {
		text = inner
	}
	return splitException(strings.TrimSpace(lastCause(text)))
}

// lastCause is the text after the last mark of a cause. A stack trace may be cut
// to a maximum length: a last cause whose name may be incomplete is not taken.
func lastCause(text string) string {
	frames := hasFrames(text)
	for {
		at, end := -1, 0
		for _, mark := range causeMarks {
			if i := strings.LastIndex(text, mark); i > at {
				at, end = i, i+len(mark)
			}
		}
		if at < 0 {
			return text
		}
		if cause := text[end:]; !frames || strings.ContainsAny(cause, ":\n") {
			return cause
		}
		text = text[:at]
	}
}

// hasFrames reports whether a text holds frames of a stack trace.
func hasFrames(text string) bool {
	return slices.ContainsFunc([]string{"\n\tat ", "\n  at ", "\n    at ", "\n   at "}, func(s string) bool { return strings.Contains(text, s) })
}

// splitException splits "A: B: message" at its last leading type name.
func splitException(text string) (typ, message string) {
	line, rest, _ := strings.Cut(text, "\n")
	for range 4 {
		m := exceptionLine().FindStringSubmatch(line)
		if m == nil {
			break
		}
		typ, line = m[1], m[2]
	}
	if typ == "" {
		return "", text
	}
	if stack(rest) {
		rest = ""
	}
	return typ, strings.TrimSpace(line + "\n" + rest)
}

// stack reports whether the lines are a stack trace, whose frames name files
// and functions and never the cause.
func stack(lines string) bool { return isFrame(strings.TrimSpace(lines)) }

func isFrame(line string) bool {
	return slices.ContainsFunc([]string{"at ", "Stack trace", "#0 ", "goroutine ", "from ", "File \"", "--- End of"}, func(start string) bool { return strings.HasPrefix(line, start) })
}

// withoutStack is a text up to the first line, not counting the very first, that
// begins a stack trace.
func withoutStack(text string) string {
	at := 0
	for line := range strings.Lines(text) {
		if at > 0 && isFrame(strings.TrimSpace(line)) {
			return strings.TrimSpace(text[:at])
		}
		at += len(line)
	}
	return text
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n ")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// wrapperTypes are the last parts of type names that only wrap a cause, and say
// nothing of it.
var wrapperTypes = setOf(`Exception|Error|Throwable|RuntimeException|AggregateException|TargetInvocationException|InvocationTargetException|UndeclaredThrowableException|
CompletionException|ExecutionException|ListenerExecutionFailedException|MessagingException|MessageHandlingException|MessageDeliveryException|AmqpRejectAndDontRequeueException|
ImmediateAcknowledgeAmqpException|BatchListenerFailedException|HandlerFailedException|ConsumerException|FailFastException`)

func isWrapper(name string) bool { return wrapperTypes[lastPart(name, `.\:$`)] }

// says reports whether a failure's type or text names a cause that is known.
func says(typ, message string) bool {
	return CauseOf(Failure{Type: typ, Message: message}).Signal != NoSignal
}

// deeper follows a stack trace beside a failure. Its innermost cause decides
// where it says anything, or where the failure's own type only wraps; else the
// type that a field names stays.
func deeper(f Failure, trace pair) Failure {
	typ, message := innermost(trace.text)
	switch {
	case typ == "":
	case typ == f.Type:
		f.Message = orElse(message, f.Message)
	case f.Type == "", isWrapper(f.Type) && !isWrapper(typ), says(typ, message):
		f.Type, f.Field = typ, trace.path
		f.Message = orElse(message, f.Message)
	}
	return f
}

// refine looks inside the texts: the innermost of stacked causes names the
// type, and a message that names a known cause names it where no field does.
func refine(f *Failure) {
	typ, message := innermost(f.Message)
	stacked := strings.Contains(f.Message, "aused by") || strings.Contains(f.Message, " ---> ")
	switch {
	case typ != "" && (f.Type == "" || stacked):
		f.Type, f.Message = typ, orElse(message, f.Message)
	case f.Type == "":
		f.Message = withoutStack(f.Message)
		f.Type = lastInText(f.Message).Phrase
	default:
		f.Message = withoutStack(f.Message)
	}
}
