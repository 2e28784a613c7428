package classify

import (
	"strings"
	"sync"
	"unicode"
)

// maxNormalised bounds the text that rules see, in bytes.
const maxNormalised = 4 << 10

// readers are the variables of the environment by name.
var readers = sync.OnceValue(func() map[string]func(*facts) any {
	m := map[string]func(*facts) any{}
	for _, f := range environment() {
		m[f.name] = f.read
	}
	return m
})

// Normalise takes from an error text what varies from one job to the next:
// quoted values become "…", and words that hold a digit, an at sign or a slash
// (numbers, identifiers, addresses, times, paths, URLs) become "#". The rest is
// in lower case with single spaces. At most the last 4 KiB are read.
func Normalise(text string) string {
	if len(text) > maxNormalised {
		text = strings.ToValidUTF8(text[len(text)-maxNormalised:], "")
	}
	var b strings.Builder
	for _, w := range strings.Fields(unquote(text)) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ToLower(placeholder(w)))
	}
	return b.String()
}

// placeholder is the word, or "#" with its outer punctuation where it varies.
func placeholder(w string) string {
	if w == "i/o" || strings.HasPrefix(w, "x509") {
		return w
	}
	core := strings.TrimFunc(w, func(r rune) bool { return unicode.IsPunct(r) && r != '#' })
	if core == "" || !strings.ContainsFunc(core, func(r rune) bool { return unicode.IsDigit(r) || r == '@' || r == '/' }) {
		return w
	}
	return strings.Replace(w, core, "#", 1)
}

// unquote replaces what stands in double quotes or back quotes on one line, and
// in single quotes that begin a word.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '"' || c == '`' || c == '\'' && (i == 0 || !letter(s[i-1])) {
			if n := strings.IndexAny(s[i+1:], string(c)+"\n"); n >= 0 && s[i+1+n] == c {
				b.WriteString("…")
				i += n + 1
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

func letter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80
}
