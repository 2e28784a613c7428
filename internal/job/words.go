package job

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText bounds how much of an error text is read: its end, where stacked
// causes come last.
const maxText = 16 << 10

// word is one token of a text, lower case, with where it lies.
type word struct {
	text       string
	start, end int
	// chunk numbers the run of characters without a space or an outer
	// punctuation mark that the word is part of.
	chunk int
	// loose: part of a lower-case compound ("payment-timeout-alerts"), which is
	// more likely somebody's name for a queue than the cause.
	loose bool
	last  bool // ends its chunk
	first bool // starts its chunk
	after byte // the byte that follows the word, 0 at the end
}

// splitName cuts a code or a type name into words: at case changes, digits,
// underscores, dots, slashes.
func splitName(name string) []word {
	name = tail(name, 512)
	if i := strings.LastIndexAny(name, `.\/$:#`); i >= 0 && i < len(name)-1 {
		if outer := name[:i]; !speaksAlone(name[i+1:]) {
			return wordsOf(outer+" "+name[i+1:], 0, 0)
		}
		name = name[i+1:]
	}
	return wordsOf(name, 0, 0)
}

// speaksAlone reports whether the last part of a qualified name has several
// words, so that its package need not be read ("java.net.SocketTimeoutException"
// does, "Sandbox.Timedout" does not).
func speaksAlone(part string) bool { return len(wordsOf(part, 0, 0)) > 1 }

// wordsOf cuts one chunk into words.
func wordsOf(s string, offset, chunk int) []word {
	var ws []word
	start := -1
	flush := func(end int) {
		if start >= 0 {
			ws = append(ws, word{text: strings.ToLower(s[start:end]), start: offset + start, end: offset + end, chunk: chunk})
			start = -1
		}
	}
	var prev rune
	for i, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush(i)
		case start >= 0 && boundary(prev, r, s[i+utf8.RuneLen(r):]):
			flush(i)
			start = i
		case start < 0:
			start = i
		}
		prev = r
	}
	flush(len(s))
	return ws
}

// boundary reports a case change between two letters: "tE" always, and "PE" in
// "HTTPError" or "2T" in "EC2Throttled" where a lower-case letter follows.
func boundary(prev, r rune, rest string) bool {
	if !unicode.IsUpper(r) {
		return false
	}
	if unicode.IsLower(prev) {
		return true
	}
	next, _ := utf8.DecodeRuneInString(rest)
	return (unicode.IsUpper(prev) || unicode.IsDigit(prev)) && unicode.IsLower(next)
}

// words cuts an error text into words, leaving out what varies from one job to
// the next: quoted values, URLs, addresses, identifiers, numbers.
func words(text string) []word {
	var ws []word
	chunk, closing := 0, -1
	for i := 0; i < len(text); {
		if n := quotedCause(text, i); n > 0 {
			closing = i + n - 1
			i++ // a quoted cause is read, its quotes are not
			continue
		}
		if i == closing {
			i++
			continue
		}
		if n := skipVariable(text[i:], i == 0 || !isWordByte(text[i-1])); n > 0 {
			i += n
			continue
		}
		n := chunkLen(text[i:])
		if n == 0 {
			i++
			continue
		}
		chunk++
		ws = append(ws, chunkWords(text, i, i+n, chunk)...)
		i += n
	}
	return ws
}

// quotedCause is the length of the quoted text that begins at i, where the words
// before it say that it is the cause and not a value.
func quotedCause(text string, i int) int {
	for _, c := range quotedCauses {
		if strings.IndexByte(c.quotes, text[i]) >= 0 && strings.HasSuffix(text[:i], c.before) {
			return quoted(text[i:], text[i])
		}
	}
	return 0
}

// quotedCauses are the words before a quoted cause: those of Guzzle ("resulted in
// a `429 Too Many Requests` response"), of httpx, of gRPC, and of an error that
// Python prints inside another.
var quotedCauses = []struct{ before, quotes string }{
	{"resulted in a ", "`"},
	{"Client error ", "'"},
	{"Server error ", "'"},
	{"desc = ", `"`},
	{"Error(", `"'`},
	{"Exception(", `"'`},
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// chunkLen is the length of the leading run of letters, digits and the marks
// that join them into one name.
func chunkLen(s string) int {
	n := 0
	for n < len(s) && (isWordByte(s[n]) || n > 0 && joins(s, n)) {
		n++
	}
	return n
}

func joins(s string, i int) bool {
	return strings.IndexByte(`-.\/:@$#`, s[i]) >= 0 && i+1 < len(s) && isWordByte(s[i+1])
}

// chunkWords reads one chunk: a number, a plain word, a class name, a compound.
// What looks like an identifier, an address or a path yields nothing.
func chunkWords(text string, from, to, chunk int) []word {
	s := text[from:to]
	if strings.IndexByte(s, '@') >= 0 || variable(s) {
		return nil
	}
	off := from
	if i := strings.LastIndexAny(s, `.\:/$#`); i >= 0 && !strings.EqualFold(s, "i/o") {
		if !unicode.IsUpper(rune(s[i+1])) {
			return splitSentence(text, from, to, chunk)
		}
		s, off = s[i+1:], from+i+1
	}
	ws := wordsOf(s, off, chunk)
	compound := strings.ContainsAny(s, "-_") && s == strings.ToLower(s)
	for i := range ws {
		ws[i].loose, ws[i].first, ws[i].last = compound, i == 0, i == len(ws)-1
		if ws[i].end < len(text) {
			ws[i].after = text[ws[i].end]
		}
	}
	return ws
}

// splitSentence reads a chunk joined by a colon or a slash as separate words
// ("failed:timeout", "HTTP/1.1"); names joined by dots are hosts and files.
func splitSentence(text string, from, to, chunk int) []word {
	i := strings.IndexAny(text[from:to], ":/")
	if i < 0 || strings.IndexByte(text[from:from+i], '.') >= 0 {
		return nil
	}
	left := chunkWords(text, from, from+i, chunk)
	return append(left, chunkWords(text, from+i+1, to, chunk)...)
}

// variable reports whether a chunk mixes digits with letters, as identifiers
// do; a bare number is kept for the search for a status.
func variable(s string) bool {
	digits, letters := 0, 0
	for i := range len(s) {
		switch {
		case s[i] >= '0' && s[i] <= '9':
			digits++
		case s[i] != '.':
			letters++
		}
	}
	if digits == 0 || knownMixed[strings.ToLower(s)] {
		return false
	}
	colon := strings.IndexByte(s, ':')
	if colon > 0 && letters > 1 && colon < len(s)-1 { // "code:429", "HTTP/1.1:503"
		return variable(s[:colon]) || variable(s[colon+1:])
	}
	return letters > 0 || digits != len(s)
}

// knownMixed are words of the vocabulary that hold a digit.
var knownMixed = map[string]bool{"http/1.1": true, "http/2": true, "x509": true, "utf8": true, "utf-8": true, "base64": true, "s3": true, "oauth2": true, "http2": true, "http1": true}

// skipVariable is the length of the quoted value or URL that s begins with.
func skipVariable(s string, atWord bool) int {
	switch s[0] {
	case '"', '`':
		return quoted(s, s[0])
	case '\'':
		if atWord {
			return quoted(s, '\'')
		}
	case 'h', 'H', 'a':
		if atWord && urlLike(s) {
			return len(s) - len(strings.TrimLeftFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && r != '"' && r != ',' && r != ')' }))
		}
	}
	return 0
}

func urlLike(s string) bool {
	return hasPrefixFold(s, "http://") || hasPrefixFold(s, "https://") || strings.HasPrefix(s, "amqp://") || strings.HasPrefix(s, "amqps://") || strings.HasPrefix(s, "arn:")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// quoted is the length of a quoted value on one line, 0 if it is not closed.
func quoted(s string, q byte) int {
	for i := 1; i < len(s) && i < 256; i++ {
		switch s[i] {
		case q:
			return i + 1
		case '\n':
			return 0
		}
	}
	return 0
}

// tail is the last n bytes of s, cut at a rune.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
