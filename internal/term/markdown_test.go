package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

func TestCodeSpan(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        "-",
		"d-1":                     "`d-1`",
		"a|b":                     "`a`&#124;`b`",
		`a\|b`:                    "`a\\`&#124;`b`",
		"|":                       "&#124;",
		"`":                       "`` ` ``",
		"a```b":                   "````a```b````",
		"`x":                      "`` `x ``",
		" x":                      "`  x `",
		"  ":                      "`  `",
		"two\nlines\r\n| a |":     "`two\\nlines\\r\\n`&#124;`  a  `&#124;",
		"<script>alert(1)":        "`<script>alert(1)`",
		"[x](https://a.example)":  "`[x](https://a.example)`",
		"@team #1 *b* _i_ &lt; ~": "`@team #1 *b* _i_ &lt; ~`",
		"\x1b[31m\u202ered":       "`\\x1b[31m\\u202ered`",
	} {
		if got := CodeSpan(in); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// FuzzCodeSpan: a reader of Markdown shows, in one cell of a table, the cleaned
// text as code, and its bars between.
func FuzzCodeSpan(f *testing.F) {
	for _, s := range []string{"", "a|b", "``a`|` b", "x\\|y", "| \n |", "a`", "\xff\x1b", "<b>&lt; [x](y) @z"} {
		f.Add(s)
	}
	reader := goldmark.New(goldmark.WithExtensions(extension.GFM))
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
	f.Fuzz(func(t *testing.T, s string) {
		got := CodeSpan(s)
		want := "-"
		if clean := Clean(s); clean != "" {
			parts := strings.Split(clean, "|")
			for i, part := range parts {
				if part != "" {
					parts[i] = "<code>" + escape.Replace(part) + "</code>"
				}
			}
			want = strings.Join(parts, "|")
		}
		var page bytes.Buffer
		if err := reader.Convert([]byte("| x | y |\n| --- | --- |\n| "+got+" | z |\n"), &page); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "<tr>\n<td>"+want+"</td>\n<td>z</td>\n</tr>") {
			t.Fatalf("%q is %s, which reads\n%s", s, got, page.String())
		}
	})
}
