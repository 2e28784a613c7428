package term

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":               {"Zürich 日本 ✓ 100%", "Zürich 日本 ✓ 100%"},
		"line and tab":        {"a\nb\r\tc", `a\nb\r\tc`},
		"colour":              {"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		"clipboard (OSC 52)":  {"\x1b]52;c;aGk=\a", `\x1b]52;c;aGk=\x07`},
		"C1 CSI":              {"\u009b31m", `\u009b31m`},
		"NUL and DEL":         {"a\x00b\x7f", `a\x00b\x7f`},
		"bidirectional":       {"user\u202etxt.exe\u2066\u2069", `user\u202etxt.exe\u2066\u2069`},
		"zero-width":          {"pass\u200bword\ufeff\u200d", `pass\u200bword\ufeff\u200d`},
		"separators":          {"a\u2028b\u2029c\u00a0d", `a\u2028b\u2029c\u00a0d`},
		"ideographic space":   {"日本\u3000東京", "日本\u3000東京"},
		"tags and selectors":  {"x\U000e0041\ufe0f\u3164", `x\U000e0041\ufe0f\u3164`},
		"invalid UTF-8":       {"a\xff\xc3", `a\xff\xc3`},
		"replacement as sent": {"a\uFFFDb", "a\uFFFDb"},
		"backslash stays":     {`C:\new`, `C:\new`},
		"combining marks":     {"e\u0301 ไทย", "e\u0301 ไทย"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Clean(c.in)); diff != "" {
				t.Errorf("Clean(%q) (-want +got):\n%s", c.in, diff)
			}
		})
	}
	if got, want := CleanLines("a\nb\x1b\r\n"), "a\nb\\x1b\\r\n"; got != want {
		t.Errorf("CleanLines = %q, want %q", got, want)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"abc", 0, ""},
		{"abc", 1, "…"},
		{strings.Repeat("x", 1<<20), 5, "xxxx…"},
	} {
		if got := Cut(c.in, c.width); got != c.want {
			t.Errorf("Cut(%.20q, %d) = %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

func TestCleanJSON(t *testing.T) {
	t.Parallel()
	value := map[string]string{"a": "\u009b\u202e\x7f\U000e0041 ü \x1b\u2028"}
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got := CleanJSON(encoded)
	want := `{"a":"\u009b\u202e\u007f\udb40\udc41 ü \u001b\u2028"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value, back); diff != "" {
		t.Errorf("another value after cleaning (-want +got):\n%s", diff)
	}
}

func TestCleanCSV(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                      "",
		"plain":                 "plain",
		"=HYPERLINK(\"http:\")": "'=HYPERLINK(\"http:\")",
		"+1+cmd|' /C calc'!A0":  "'+1+cmd|' /C calc'!A0",
		"-12.5":                 "-12.5",
		"-2+3":                  "'-2+3",
		"@SUM(A1)":              "'@SUM(A1)",
		"＝1+1":                  "'＝1+1",
		"\t=1":                  `\t=1`,
		"\r=1":                  `\r=1`,
		"a\u202eb":              `a\u202eb`,
	} {
		if got := CleanCSV(in); got != want {
			t.Errorf("CleanCSV(%q) = %q, want %q", in, got, want)
		}
	}
}

// forbidden says that a character must never reach a terminal. It is written
// apart from visible, by Unicode's own categories.
func forbidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) ||
		unicode.Is(unicode.Bidi_Control, r)
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", "a\x1b[2J", "\u202e\u200b", "\xff\xfe", "\\x1b", "日本\u3000", "\u009b\n\t"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Errorf("Clean(%q) = %q is not UTF-8", s, got)
		}
		if i := strings.IndexFunc(got, forbidden); i >= 0 {
			t.Errorf("Clean(%q) = %q lets %q through", s, got, got[i:])
		}
		if again := Clean(got); again != got {
			t.Errorf("Clean(%q) = %q, cleaned again %q", s, got, again)
		}
		if Width(Cut(got, 10)) > 10 {
			t.Errorf("Cut(%q, 10) is wider: %q", got, Cut(got, 10))
		}
		if cell := CleanCSV(s); CleanCSV(cell) != cell || strings.IndexFunc(cell, forbidden) >= 0 {
			t.Errorf("CleanCSV(%q) = %q", s, cell)
		}
	})
}
