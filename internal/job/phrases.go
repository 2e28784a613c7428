package job

import (
	"strings"
	"sync"
)

// phrase is a sequence of words that names a cause.
type phrase struct {
	words  []string
	signal Signal
	weak   bool
	strong bool
}

// vocabulary lists the phrases by signal. A word of a code or a type name is
// matched in the same way as one of a text, so "read timed out", READ_TIMED_OUT
// and ReadTimedOut are one entry.
var vocabulary = map[Signal]string{
	SignalThrottled: `throttl|throttled|throttling|throttled exception|throttling exception|too many requests|toomanyrequests|rate exceeded|rate limit|rate limited|ratelimit|ratelimited|ratelimiterror|
rate limit exceeded|rate limiting|quota exceeded|resource exhausted|slow down|slowdown|request limit exceeded|limit exceeded exception|provisioned throughput exceeded|bandwidth limit exceeded|
over quota|requests exceeded|too many concurrent|over limit|rate exceed|bulkhead full|rate limiter rejected`,
	SignalRefused: `connection refused|econnrefused|no such host|enotfound|eai again|name or service not known|getaddrinfo|could not resolve host|couldn resolve host|name resolution|unknown host|unknownhost|
ehostunreach|enetunreach|host unreachable|network unreachable|network is unreachable|no route to host|host is unreachable|nodename nor servname|connect timeout|connecttimeout|connection timeout exception|open timeout|opentimeout|
actively refused it|dns error|dns failure|name not resolved|connection could not be established|failed to establish a new connection|target unavailable|host not found|circuit breaker open|circuit breaker is open|circuit open|broken circuit|call not permitted|does not permit further calls|cannot connect error`,
	SignalTimeout: `timeout|timeouts|time out|timed out|timedout|etimedout|esockettimedout|econnaborted|deadline exceeded|deadlineexceeded|deadline has elapsed|execution expired|request timeout|read timeout|socket timeout|
gateway timeout|i/o timeout|i o timeout|operation timed out|task timed out|task canceled|operation canceled exception|operation cancelled|context canceled|request aborted|aborted request|lock wait|time limit exceeded`,
	SignalReset: `connection reset|econnreset|reset by peer|broken pipe|epipe|socket hang up|unexpected eof|eof|eoferror|unexpected end of stream|connection closed|connection aborted|connection lost|connection failure|connection terminated|
remote end closed|server disconnected|premature close|stream closed|channel closed|incomplete read|remote disconnected|no http response|empty reply|goaway|transport closing|connection was closed|closed the connection|closed connection|closed unexpectedly|terminated unexpectedly|terminating connection|has gone away`,
	SignalKilled: `killed|sigkill|sigterm|sigsegv|oomkilled|oom killed|oom|out of memory|outofmemory|outofmemoryerror|memory error|worker lost|workerlost|worker lost error|worker terminated|process exited|runtime exited|exit error|heap space|
segmentation fault|core dumped|evicted|shutdown in progress|memory limit|spot interruption|process crashed|worker died|worker crashed|sidekiq shutdown`,
	SignalServerError: `err bad response|internal server error|internal error|internalerror|internal failure|server error|servererror|bad gateway|service unavailable|serviceunavailable|unavailable exception|code unavailable|temporarily unavailable|internal exception|internal service error|service exception|code internal`,
	SignalUnauthorized: `unauthorized|unauthorised|forbidden|access denied|accessdenied|permission denied|permissiondenied|not authorized|not authorised|no permissions|unauthenticated|authentication failed|authentication failure|authentication error|authenticationexception|authentication|
authorization error|authorization failed|authorization failure|authorization exception|invalid credentials|bad credentials|invalid token|token expired|expired token|expiredtoken|token has expired|expired token exception|invalid api key|api key|signature does not match|signature mismatch|signaturedoesnotmatch|invalid signature|signature verification|
security token|invalid client token id|unrecognized client|insufficient permissions|insufficient privileges|permission error|jwt expired|kms access denied|credentials|certificate has expired|certificate expired|cert has expired|x509|certificate verify failed|unable to verify|self signed certificate|may not send|eacces|eperm`,
	SignalDestination: `invalid email|invalid address|invalid recipient|bad address|invalid phone|invalid destination|invalid number|unsubscribed|opted out|no recipient|missing recipient|unknown recipient|unknown user|user unknown|no such user|mailbox unavailable|mailbox not found|mailbox does not exist|recipient rejected|recipient address rejected|
address rejected|hard bounce|suppressed|suppression list|invalid to address|address not found|recipient not found|queue does not exist|nonexistent queue|non existent queue|no such queue|queue not found|topic not found|topic does not exist|no such bucket|resource not found|resourcenotfound|destination not found|target not found|unregistered|not registered|
device token|invalid registration|no such recipient|blacklisted|blocklisted|endpoint disabled|platform application disabled|recipient is missing|destination is missing|phone number is not valid|email address is not valid|email address is invalid|not a valid email|not a valid phone|domain not found|entity not found|no such topic|invalid mailbox|undeliverable|unknown topic`,
	SignalRejected: `err bad request|bad request|badrequest|unprocessable entity|unprocessable|unprocessableentity|payload too large|request too large|entity too large|message too long|message too large|invalid parameter|invalid parameters|invalid argument|illegal argument exception|invalid request|request rejected|content rejected|payload rejected|parameter validation|out of range|failed precondition|invalid input|record too large|message rejected`,
	SignalSchema: `schema|schema mismatch|unknown schema|schema version|unknown schema version|unsupported schema|unsupported version|unsupported schema version|schema validation|schema registry|zod|zod error|validation|validation error|validation errors|validation exception|validation failed|validation failure|failed validation|constraint violation|constraintviolation|
missing required|required field|required property|is required|required key|unrecognized property|unrecognized field|unknown field|unknown property|unexpected field|missing field|missing property|additional properties|invalid type|type mismatch|mismatched input|incompatible schema|incompatible version|unknown version|field missing|key error|missing key|contract violation|does not match schema|ajv|joi|pydantic|invalid enum|no enum constant|field required|version mismatch|expected number received string|expected string received number|avro type`,
	SignalMalformed: `json parse|json parse error|json parse exception|parse error|parser error|parse exception|parse failed|parsing failed|json error|json decode error|jsondecodeerror|json syntax|json syntax error|json syntax exception|json exception|json reader exception|syntax error|syntaxerror|unexpected token|unexpected end of json|unexpected character|unexpected end of input|invalid character|invalid json|malformed|malformed json|
decode failed|decode error|decode exception|decoding failed|decoding error|failed to decode|cannot decode|could not decode|unable to decode|deserialization|deserialize|deserialization exception|deserialization error|serialization exception|serializationexception|unmarshal|unmarshalling|cannot unmarshal|failed to unmarshal|unmarshal error|cannot parse|failed to parse|could not parse|unable to parse|
invalid utf|invalid base64|not in gzip format|bad magic number|unicode decode error|corrupt|corrupted|invalid protobuf|wire type|not well formed|data exception|data format exception|encoding error|undecodable|json mapping exception|unparseable|unparsable|invalid encoding|poison message|eof in string|json processing exception|bad message format`,
	SignalUnsupported: `not implemented|notimplemented|unimplemented|not supported|notsupported|unsupported operation|unsupported|method not allowed|methodnotallowed|no handler|nohandler|handler not found|no handler found|no such handler|no handlers|unknown message type|unknown event type|unknown job type|unknown task|unknown command|unregistered task|task not registered|not registered task|no consumer|no route|unknown type|unknown type id|
unsupported message|unsupported event|unsupported type|unsupported media type|handler missing|no subscriber|no mapping|unknown action|no handler for message|no listener|unhandled message type|import module error|handlernotfound|unrecognized message type|not registered for|missing process handler`,
	NoSignal:      `duplicate key error|foreign key error|primary key error`, // of the application's data, and no missing key
	SignalExpired: `message expired|ttl expired|ttlexpired|time to live|ttl exceeded|message has expired|ttl expired exception`,
}

// weakNames are words by which libraries wrap several causes: a message that
// names one overrides them.
const weakNames = `err bad request|err bad response|connect exception|connectexception|connection error|connect error|connection exception|connection failed|connection|internal error|service exception|validation|invalid request|invalid argument|illegal argument exception|service unavailable|connection failure|data exception|serialization exception|permission error|key error|unsupported|credentials|authentication|schema`

// strongWords state that a request was under way and its outcome is not known.
const strongWords = `timed out|etimedout|deadline exceeded|i/o timeout|i o timeout|read timeout|request timeout|socket timeout|gateway timeout|connection reset|econnreset|reset by peer|broken pipe|socket hang up|unexpected eof|remote end closed|server disconnected|premature close`

// phrases is the vocabulary by first word, built at first use.
var phrases = sync.OnceValue(buildPhrases)

func buildPhrases() map[string][]phrase {
	weak, strong := setOf(weakNames), setOf(strongWords)
	index := map[string][]phrase{}
	for signal, list := range vocabulary {
		for text := range setOf(list) {
			ws := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '/' })
			p := phrase{words: ws, signal: signal, weak: weak[text], strong: strong[text]}
			index[ws[0]] = append(index[ws[0]], p)
		}
	}
	return index
}

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for part := range strings.SplitSeq(list, "|") {
		if part = strings.TrimSpace(part); part != "" {
			set[part] = true
		}
	}
	return set
}

// lastPhrase finds the phrase that ends last, and of those the longest. In a
// text, a loose word counts only where the phrase is the whole compound.
func lastPhrase(ws []word, text bool) hit {
	index := phrases()
	best, bestEnd, bestLen := phrase{}, -1, 0
	for i := range ws {
		for _, p := range index[ws[i].text] {
			end := i + len(p.words) - 1
			if end < bestEnd || end == bestEnd && len(p.words) <= bestLen || !matches(ws[i:], p) {
				continue
			}
			if text && (ws[i].loose && !ws[i].first || ws[end].loose && !ws[end].last) {
				continue
			}
			best, bestEnd, bestLen = p, end, len(p.words)
		}
	}
	if bestEnd < 0 {
		return hit{}
	}
	first := ws[bestEnd-bestLen+1]
	return hit{Cause: Cause{Signal: best.signal, Phrase: strings.Join(best.words, " ")}, weak: best.weak, strong: best.strong, at: ws[bestEnd].end, from: first.start}
}

// states reports whether a text says in so many words that a request was under
// way when it ended in the signal's way.
func states(ws []word, signal Signal) bool {
	index := phrases()
	for i := range ws {
		for _, p := range index[ws[i].text] {
			if p.strong && p.signal == signal && !ws[i].loose && matches(ws[i:], p) {
				return true
			}
		}
	}
	return false
}

func matches(ws []word, p phrase) bool {
	if len(ws) < len(p.words) {
		return false
	}
	for i, w := range p.words[1:] {
		if ws[i+1].text != w {
			return false
		}
	}
	return true
}
