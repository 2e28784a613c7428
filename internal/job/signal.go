package job

import (
	"slices"
	"strconv"
	"strings"
)

// Signal is one word of the closed vocabulary into which codes, exception names
// and error texts are read. It says what kind of failure they name; the policy
// says what class that is.
type Signal string

// The vocabulary. docs/policy.md lists what is read as each.
const (
	NoSignal           Signal = ""
	SignalHTTP         Signal = "http" // an HTTP status decides; see Cause.HTTPStatus
	SignalThrottled    Signal = "throttled"
	SignalRefused      Signal = "not_connected" // provably no connection was made
	SignalTimeout      Signal = "timeout"
	SignalReset        Signal = "reset"
	SignalKilled       Signal = "killed"
	SignalServerError  Signal = "server_error"
	SignalUnauthorized Signal = "unauthorized"
	SignalDestination  Signal = "bad_destination"
	SignalRejected     Signal = "rejected"
	SignalSchema       Signal = "schema"
	SignalMalformed    Signal = "malformed"
	SignalUnsupported  Signal = "unsupported"
	SignalExpired      Signal = "expired"
)

// Where a signal was read.
const (
	FromCode    = "code"
	FromType    = "type"
	FromMessage = "message"
)

// Cause is what a failure's code, type and message say together.
type Cause struct {
	Signal Signal
	From   string // FromCode, FromType, FromMessage; empty without a signal
	Phrase string // the words that decided, as they were found
	// HTTPStatus is 400 to 599 where an HTTP status decided, else 0.
	HTTPStatus int
	// RetryAfter reports that the message names a Retry-After of the server.
	RetryAfter bool
	// Doubt reports that the message names another try too, whose outcome is
	// open: a status of 500 or above that did not decide, a request that was cut or
	// timed out. Such a failure never proves that nothing was sent.
	Doubt bool
}

// CauseOf weighs a failure: its code first, then the innermost type, then the
// last cause that the message names. A message that says in so many words that
// the outcome is unknown (timed out, connection reset) overrides a type and a
// code that is no HTTP status, because a wrong "nothing was sent" is the one
// mistake that cannot be repaired.
func CauseOf(f Failure) Cause {
	if f.Signal != NoSignal {
		return Cause{Signal: f.Signal, From: FromType, Phrase: f.Type}
	}
	text, code := lastInText(f.Message), fromCode(f.Code)
	c := code
	if c.Signal == NoSignal {
		c = fromType(f.Type)
	}
	switch {
	case c.Signal == NoSignal, c.weak && text.Signal != NoSignal && (!text.weak || uncertain(text.Signal)):
		c = text
	case text.strong && !uncertain(c.Signal) && c.HTTPStatus == 0:
		c = text
	}
	c.RetryAfter, c.Doubt = namesRetryAfter(f.Message), text.leavesOpen(c)
	return c.Cause
}

// uncertain reports whether the signal leaves the outcome open by itself.
func uncertain(s Signal) bool {
	return s == SignalTimeout || s == SignalReset || s == SignalKilled || s == SignalServerError
}

// hit is a cause with what the weighing needs to know of it.
type hit struct {
	Cause
	weak   bool // a name that many causes share: the message decides if it can
	strong bool // words that state an unknown outcome
	from   int  // where in the text the phrase begins, and
	at     int  // where it ends

	// What else a text names that leaves an outcome open:
	statuses []int // of 500 and above
	cut      bool  // a connection was cut under way
	timedOut bool
}

// leavesOpen reports whether the text names a try with an open outcome beside the
// cause that decided. A time-out beside "no connection" is that of connecting.
func (h hit) leavesOpen(decided hit) bool {
	other := func(status int) bool { return status != decided.HTTPStatus }
	return h.cut || h.timedOut && decided.Signal != SignalRefused || slices.ContainsFunc(h.statuses, other)
}

// fromCode reads a code field: an HTTP status, or a name. 200 and 0 say nothing.
func fromCode(code string) hit {
	code = strings.TrimSpace(code)
	if n, ok := httpStatus(code); ok {
		return statusHit(n, FromCode, code)
	}
	return fromName(code, FromCode)
}

// fromType reads a type's name. One with spaces is free text, in which a number
// by itself says nothing.
func fromType(name string) hit {
	if strings.ContainsAny(strings.TrimSpace(name), " \n") {
		h := lastInText(name)
		if h.Signal != NoSignal {
			h.From = FromType
		}
		return h
	}
	if n, ok := httpStatus(lastPart(name, ":/ ")); ok {
		return statusHit(n, FromType, name)
	}
	return fromName(name, FromType)
}

func fromName(name, from string) hit {
	h := lastPhrase(splitName(name), false)
	if h.Signal != NoSignal {
		h.From, h.Phrase = from, name
	}
	return h
}

func statusHit(n int, from, phrase string) hit {
	return hit{Cause: Cause{Signal: SignalHTTP, From: from, HTTPStatus: n, Phrase: phrase}}
}

// httpStatus reads a whole string as a failing HTTP status.
func httpStatus(s string) (int, bool) {
	if len(s) != 3 {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 400 && n <= 599
}

// lastPart is the text after the last of the separators.
func lastPart(s, seps string) string {
	return s[strings.LastIndexAny(s, seps)+1:]
}

func namesRetryAfter(text string) bool {
	return strings.Contains(strings.ToLower(text), "retry-after")
}
