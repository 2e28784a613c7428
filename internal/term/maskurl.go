package term

import "strings"

// maxUserinfo is how far after "://" user information is looked for, so that a
// text of nothing but "://" takes no quadratic time.
const maxUserinfo = 4096

// maskUserinfo hides what stands between "://" and "@" in every URL.
func maskUserinfo(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		i += len("://")
		b.WriteString(s[:i])
		s = s[i:]
		if n := userinfoLen(s); n > 0 {
			b.WriteString(Masked)
			s = s[n:]
		}
	}
}

// userinfoLen is the length of the user information at the start of what
// follows "://". It may hold "/", "?", "#" and "@" unescaped, as passwords in
// hand-written connection strings do; a port with a path is not mistaken for
// one.
func userinfoLen(s string) int {
	url := s[:min(len(s), maxUserinfo)]
	if strings.IndexByte(url, '@') < 0 {
		return 0
	}
	if i := strings.IndexAny(url, " \t\r\n\"'<>"); i >= 0 {
		url = url[:i]
	}
	authority := url
	if i := strings.IndexAny(url, "/?#"); i >= 0 {
		authority = url[:i]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return at
	}
	_, port, hasPort := strings.Cut(authority, ":")
	if !hasPort || port != "" && strings.Trim(port, "0123456789") == "" {
		return 0
	}
	return max(strings.LastIndexByte(url, '@'), 0)
}
