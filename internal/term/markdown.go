package term

import "strings"

// CodeSpan makes a text harmless in Markdown, also in a cell of a table: it is
// cleaned like a table's cell and stands between backticks, so that nothing in it
// is a link, a tag, a mention or emphasis. The bar that would end a cell stands
// between the spans, as a character reference: what a backslash before a bar means
// differs from one reader of Markdown to the next. The empty text is a dash.
func CodeSpan(s string) string {
	s = Clean(s)
	if s == "" {
		return "-"
	}
	parts := strings.Split(s, "|")
	for i, part := range parts {
		parts[i] = fence(part)
	}
	return strings.Join(parts, "&#124;")
}

// fence puts a text between more backticks than it has in a row. Spaces keep its
// own backticks and spaces apart from them; a reader takes one off at each end,
// unless all of it is spaces.
func fence(s string) string {
	if s == "" {
		return ""
	}
	ticks := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.Trim(s, " ") != "" && (strings.ContainsAny(s[:1], "` ") || strings.ContainsAny(s[len(s)-1:], "` ")) {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

func longestRun(s string, c byte) (longest int) {
	run := 0
	for i := range len(s) {
		run++
		if s[i] != c {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
