package term

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// Masked stands where a secret was.
const Masked = "***"

// maxMaskPasses bounds the passes of Mask. Two are the rule; a text that is not
// settled after these is hidden altogether.
const maxMaskPasses = 8

// Mask hides secrets in a text: credentials in URLs, values named like a secret
// (query parameters, form fields, settings, flags, XML elements, JSON members, also
// within a JSON string), Authorization and cookie headers, bearer and basic tokens,
// JWTs, AWS keys, the tokens of well-known providers, private keys and card numbers.
//
// It rather hides too much than too little. Masking twice changes nothing. The
// identifiers of a job (job key, message ID and the like) are not to be passed
// through it: operators need them exactly.
func Mask(s string) string {
	for range maxMaskPasses {
		next := maskOnce(s)
		if next == s {
			return s
		}
		s = next
	}
	return Masked
}

// maskOnce applies each rule whose trigger occurs in the text. Triggers keep
// the cost of clean text near that of reading it.
func maskOnce(s string) string {
	lower := asciiLower(s)
	for _, rule := range maskRules {
		if !containsAny(lower, rule.triggers) {
			continue
		}
		if next := rule.apply(s); next != s {
			s, lower = next, asciiLower(next)
		}
	}
	if hasDigits(s, minCardDigits) {
		s = maskCards(s)
	}
	return s
}

type maskRule struct {
	triggers []string // lower case; one of them occurs in every match
	apply    func(string) string
}

// secretName matches the names whose values are hidden wherever they stand.
// "key" alone is none of them: it names jobs, objects and partitions far more
// often than secrets, and counts in query strings alone. "tokens" are counted far more
// often than they are listed.
const secretName = `(?:(?:passw(?:or)?ds?|passphrases?|pwd|secrets?|token|signature|credentials?` +
	`|(?:api|access|account|private|signing|encryption|master|client|shared)[_\-.]?keys?|accesskeyid|secretkey)` +
	`(?:[_\-.]?(?:hash|value|plain(?:text)?|text|base64|b64|old|new|current|[0-9]{1,2}))?)`

// inQuery matches the names that are secrets in a query string alone.
const inQuery = `[?&;](?:amp;)?(?:key|sig|auth|code|pass)`

const (
	gap    = `(?:\\{0,8}["'])?\s{0,8}(?:=>|[:=]|%3[dD])\s{0,8}` // between name and value
	opened = `\\{0,8}["']`
	bare   = `(?:[^\s&;"'<>\\]|\\[^"'\s\\])+`
	apart  = `(?:\s|%20|\+)+`
	scheme = `(?:(?:bearer|basic|digest)` + apart + `)`           // once more, as a client that adds it twice
	lead   = `(?:(?:bearer|basic|digest|[^\s&;"'<>\\]*[:=])\s+)*` // words that only announce the value
)

var (
	keyBlock    = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}-----|\z)`)
	jwt         = regexp.MustCompile(`eyJ[\w\-]{4,}\.[\w\-]*(?:\.[\w\-]*){0,3}`)
	header      = regexp.MustCompile(`(?i)((?:authorization|cookie)` + gap + `)([^\s\["'\\][^\r\n]*)`)
	bearer      = regexp.MustCompile(`(?i)\b(bearer` + apart + scheme + `*)([\w.~+/\-]+=*)`)
	basic       = regexp.MustCompile(`(?i)\b(basic` + apart + scheme + `*)([\w+/\-]{4,}=*)`)
	awsKeyID    = regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ANVA|ABIA|ACCA)[A-Z0-9]{12,}`)
	wellKnown   = regexp.MustCompile(`\b(?:gh[opsur]_\w{16,}|github_pat_\w{16,}|xox[a-z]-[\w\-]{8,}|[srp]k_(?:live|test)_\w{8,}|whsec_\w{8,}|SG\.[\w\-]{8,}\.[\w\-]{8,}|AIza[\w\-]{16,}|key-[0-9a-f]{32})`)
	fortyLong   = regexp.MustCompile(`[A-Za-z0-9/+]{40,}`)
	quotedValue = regexp.MustCompile(`(?i)((?:` + secretName + `|authorization|cookie)` + gap + `\[?)(` + opened + `)`)
	jsonScalar  = regexp.MustCompile(`(?i)((?:` + secretName + `)\\?"\s{0,8}:\s{0,8})(?:null|true|false|-?[0-9][0-9.eE+\-]*)(\s*[,}\]])`)
	element     = regexp.MustCompile(`(?i)(<[\w:.\-]*` + secretName + `[\w:.\-]*(?:\s[^<>]{0,200})?>)([^<>]*[^<>\s][^<>]*)`)
	flag        = regexp.MustCompile(`(?i)(--[\w\-]*` + secretName + `[\w\-]*\s+)("[^"]*"?|'[^']*'?|[^\s"'\-]\S*)`)
	bareValue   = regexp.MustCompile(`(?i)((?:` + secretName + `|` + inQuery + `)` + gap + `)(` + lead + bare + `)`)
)

// nameTriggers are the literal texts of which secretName and inQuery need one.
var nameTriggers = append([]string{
	"passw", "passphrase", "pwd", "secret", "token", "signature", "credential", "authorization", "cookie", "accesskeyid",
}, append(
	products([]string{"api", "access", "account", "private", "signing", "encryption", "master", "client", "shared"}, []string{"key", "_key", "-key", ".key"}),
	products([]string{"?", "&", ";"}, []string{"key", "sig", "auth", "code", "pass"})...,
)...)

func products(heads, tails []string) []string {
	all := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			all = append(all, h+t)
		}
	}
	return all
}

// maskRules stand in order: a rule that hides more of what it finds comes
// before one that would cut it in two, and quoted values come before the rules
// that end at a quotation mark.
var maskRules = []maskRule{
	{[]string{"private key"}, func(s string) string { return keyBlock.ReplaceAllLiteralString(s, Masked) }},
	{[]string{"://"}, maskUserinfo},
	{nameTriggers, maskNamed},
	{[]string{"eyj"}, func(s string) string { return jwt.ReplaceAllLiteralString(s, Masked) }},
	{[]string{"authorization", "cookie"}, func(s string) string { return header.ReplaceAllString(s, "${1}"+Masked) }},
	{[]string{"bearer"}, func(s string) string { return replaceValue(bearer, s, isBearer) }},
	{[]string{"basic"}, func(s string) string { return replaceValue(basic, s, isBasic) }},
	{[]string{"akia", "asia", "aroa", "aida", "agpa", "anpa", "anva", "abia", "acca"}, func(s string) string {
		return awsKeyID.ReplaceAllLiteralString(s, Masked)
	}},
	{[]string{"gh", "github_pat_", "xox", "k_live_", "k_test_", "whsec_", "sg.", "aiza", "key-"}, func(s string) string {
		return wellKnown.ReplaceAllLiteralString(s, Masked)
	}},
	{[]string{""}, maskAWSSecrets},
}

// maskNamed hides the values of members, settings and parameters that are named
// like a secret.
func maskNamed(s string) string {
	s = maskQuoted(s)
	s = jsonScalar.ReplaceAllString(s, `${1}`+Masked+`${2}`)
	always := func(string, string) bool { return true }
	s = replaceValue(flag, replaceValue(element, s, always), always)
	return replaceValue(bareValue, s, func(name, value string) bool {
		return !isProse(name, value) && strings.Trim(strings.TrimPrefix(value, Masked), "}]).,") != ""
	})
}

// maskQuoted hides quoted values up to the quotation mark that closes them, or
// to the end of a text that was cut before it.
func maskQuoted(s string) string {
	var b strings.Builder
	for {
		m := quotedValue.FindStringSubmatchIndex(s)
		if m == nil {
			b.WriteString(s)
			return b.String()
		}
		open := s[m[4]:m[5]]
		end := closing(s[m[1]:], open)
		b.WriteString(s[:m[1]])
		b.WriteString(Masked)
		s = s[m[1]+end:]
		if strings.HasPrefix(s, open) {
			b.WriteString(open)
			s = s[len(open):]
		}
	}
}

// closing finds the mark that ends a value: the opening one, with exactly as
// many backslashes before it.
func closing(s, open string) int {
	quote := open[len(open)-1]
	for i := 0; i < len(s); i++ {
		if s[i] != quote {
			continue
		}
		slashes := 0
		for slashes < i && s[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes <= len(open)-1 {
			return i - slashes
		}
	}
	return len(s)
}

// isProse says that what follows the name is a sentence rather than a value:
// "invalid token: expired". Names of passwords and secrets are never prose.
func isProse(name, value string) bool {
	lower := strings.ToLower(name)
	if !strings.HasSuffix(lower, ": ") || strings.ContainsAny(lower, "\"'=") {
		return false
	}
	if !containsAny(lower, []string{"token", "signature", "credential"}) {
		return false
	}
	return len(value) <= 16 && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz.,") == ""
}

// isBearer tells a token from the words that follow "bearer" in prose.
func isBearer(_, value string) bool {
	switch strings.ToLower(strings.Trim(value, ".")) {
	case "bearer", "basic", "digest", "token", "tokens", "auth", "authentication", "authorization", "scheme", "is", "was", "not", "realm":
		return false
	}
	return true
}

// isBasic tells a user and password from prose: they are the base64 of a text
// with a colon.
func isBasic(_, value string) bool {
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
	return err == nil && strings.Contains(string(decoded), ":")
}

// replaceValue masks the second group of each match for which secret holds.
func replaceValue(re *regexp.Regexp, s string, secret func(name, value string) bool) string {
	var b strings.Builder
	last := 0
	for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
		if !secret(s[m[2]:m[3]], s[m[4]:m[5]]) {
			continue
		}
		b.WriteString(s[last:m[4]])
		b.WriteString(Masked)
		last = m[5]
	}
	b.WriteString(s[last:])
	return b.String()
}

// maskAWSSecrets hides runs of exactly 40 characters that look random: with
// capitals, small letters and digits, which no hexadecimal digest has.
func maskAWSSecrets(s string) string {
	return fortyLong.ReplaceAllStringFunc(s, func(run string) string {
		if len(run) != 40 || !strings.ContainsAny(run, "0123456789") {
			return run
		}
		if strings.ToLower(run) == run || strings.ToUpper(run) == run {
			return run
		}
		return Masked
	})
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
