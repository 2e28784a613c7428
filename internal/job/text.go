package job

import (
	"strings"
)

// lastInText finds the last cause that a text names: an HTTP status in a
// context that says so, or a phrase, whichever comes later.
func lastInText(text string) hit {
	text = tail(text, maxText)
	if text == "" {
		return hit{}
	}
	ws := words(text)
	h, statuses := lastPhrase(ws, true), namedStatuses(text, ws)
	if n := len(statuses); n > 0 {
		if s := statuses[n-1]; s.at > h.at || s.absorbs(h) {
			h = s
		}
	}
	for _, s := range statuses {
		if s.HTTPStatus >= 500 {
			h.statuses = append(h.statuses, s.HTTPStatus)
		}
	}
	h.cut, h.timedOut = states(ws, SignalReset), states(ws, SignalTimeout)
	if h.Signal != NoSignal {
		h.From, h.Phrase = FromMessage, strings.TrimSpace(text[h.from:h.at])
	}
	return h
}

// absorbs reports whether the phrase found is the status's own reason phrase or
// the words around it ("503 Service Unavailable"), so that the number decides.
// A time-out said in words stays one.
func (h hit) absorbs(p hit) bool {
	return p.from >= h.at && p.from-h.at <= 2 && p.Signal != SignalTimeout
}

// namedStatuses finds the failing HTTP statuses that stand in a context which
// makes them such, in their order.
func namedStatuses(text string, ws []word) []hit {
	if mail(ws) {
		return nil
	}
	var found []hit
	for i := range ws {
		n, ok := httpStatus(ws[i].text)
		if ok && (isStatus(text, ws, i) || len(found) > 0 && isSequel(text, ws, i)) {
			s := statusHit(n, FromMessage, ws[i].text)
			s.from, s.at = ws[i].start, ws[i].end
			found = append(found, s)
		}
	}
	return found
}

// mail reports that a text is about SMTP, whose reply codes are other numbers.
func mail(ws []word) bool {
	for _, w := range ws {
		if w.text == "smtp" || w.text == "mailbox" || w.text == "esmtp" {
			return true
		}
	}
	return false
}

var (
	statusWords  = setOf(`http|https|status|statuscode|httpstatus|httpcode|http1|http2`)
	codeOwners   = setOf(`status|error|http|response|return|failure|result|reply|errors`)
	verbs        = setOf(`answered|returned|responded|response|replied|got|received|gave|returns|answers|says|said|error|upstream|provider|server|gateway|endpoint|api|backend`)
	hosts        = setOf(`upstream|provider|server|gateway|endpoint|api|backend`)
	connectives  = setOf(`then|and|a|an|got|by|with|finally|first|was`)
	sequels      = setOf(`then|finally|lastly|afterwards|later`)
	failing      = setOf(`failed|fails|rejected|refused|ended|declined|errored|failure`)
	prepositions = setOf(`from|for|on|by|after|error|errors|response|status|while|when|in|at|because|to|and|then|during|but|or|via`)
	// reasonPhrases follow a status in RFC 9110's words.
	reasonPhrases = strings.Split("bad request|unauthorized|payment required|forbidden|not found|method not allowed|not acceptable|request time|conflict|gone|too many|content too large|payload too large|request entity too large|unsupported media|unprocessable|internal server error|not implemented|bad gateway|service unavailable|service temporarily|gateway time", "|")
)

// isStatus reports whether the three-digit number at i is said to be a status:
// "status 503", "HTTP 503", "error code: 503", "answered 500", "503 Service
// Unavailable". A number of orders, rows or a sku is not.
func isStatus(text string, ws []word, i int) bool {
	if phrase, as := reasonPhrase(text[ws[i].end:]); phrase && (as || !isCounted(text, ws, i)) {
		return true
	}
	if i+1 < len(ws) && ws[i+1].text == "from" && startsClause(text, ws, i) {
		return true
	}
	if i == 0 {
		return len(ws) == 1 && strings.TrimSpace(text) == ws[0].text
	}
	return isIntroduced(text, ws, i)
}

// isIntroduced reports whether the words before the number at i say that it is a
// status.
func isIntroduced(text string, ws []word, i int) bool {
	before, first := ws[i-1].text, ""
	if i > 1 {
		first = ws[i-2].text
	}
	switch before {
	case "was":
		return (first == "code" || first == "status") && endsClause(text, ws, i)
	case "success":
		return near(ws, i, "status")
	case "code", "codes":
		return i == 1 || codeOwners[first]
	case "with":
		return (verbs[first] || failing[first]) && endsClause(text, ws, i)
	case "1", "2", "3": // of HTTP
		return first == "http"
	default:
		return statusWords[before] || verbs[before] && !isPort(text, ws, i) && endsClause(text, ws, i)
	}
}

// isPort reports whether the number at i is the port of the host before it:
// "api:443".
func isPort(text string, ws []word, i int) bool {
	return hosts[ws[i-1].text] && text[ws[i-1].end:ws[i].start] == ":"
}

// isSequel reports whether the number at i, which comes after a status, is said to
// be the next one: "got 429, then 500".
func isSequel(text string, ws []word, i int) bool {
	return sequels[ws[i-1].text] && endsClause(text, ws, i)
}

// startsClause reports whether no noun stands before the number that it could
// count: "429 from the gate, then 500 from the provider".
func startsClause(text string, ws []word, i int) bool {
	if i == 0 {
		return true
	}
	return connectives[ws[i-1].text] || strings.ContainsAny(text[ws[i-1].end:ws[i].start], ",;:.(")
}

// near reports whether the word occurs among the eight words before i.
func near(ws []word, i int, text string) bool {
	for j := i - 1; j >= 0 && j >= i-8; j-- {
		if ws[j].text == text {
			return true
		}
	}
	return false
}

// endsClause reports whether nothing is counted by the number: it ends the text
// or its clause, or goes on with a preposition or a reason phrase.
func endsClause(text string, ws []word, i int) bool {
	rest := strings.TrimLeft(text[ws[i].end:], " ")
	if rest == "" || strings.IndexByte(".,;:)]}\n\"'-(", rest[0]) >= 0 {
		return true
	}
	return i+1 < len(ws) && prepositions[ws[i+1].text]
}

// isCounted reports whether the number at i belongs to a noun before it, as that of
// an order does: "order 404 not found".
func isCounted(text string, ws []word, i int) bool {
	if startsClause(text, ws, i) || isIntroduced(text, ws, i) {
		return false
	}
	before := ws[i-1].text
	return !verbs[before] && !codeOwners[before] && !sequels[before] && !prepositions[before] && before != "code" && before != "with"
}

// reasonPhrase reports whether a text goes on with the words that belong to a
// status, and whether it has them as RFC 9110 writes them, which prose does not.
func reasonPhrase(rest string) (found, asWritten bool) {
	rest = strings.TrimLeft(rest, " :-(\"") // Ruby quotes the phrase
	for _, p := range reasonPhrases {
		if hasPrefixFold(rest, p) {
			return true, isTitle(rest[:len(p)])
		}
	}
	return false, false
}

// isTitle reports whether each word begins with a capital.
func isTitle(phrase string) bool {
	for w := range strings.FieldsSeq(phrase) {
		if w[0] < 'A' || w[0] > 'Z' {
			return false
		}
	}
	return true
}
