package redrive

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestEditRule(t *testing.T) {
	t.Parallel()
	for jq, want := range map[string]string{
		"":                                     "no text",
		".a |":                                 "unexpected",
		"nosuch":                               "not defined",
		".a = now":                             "now is not allowed",
		"[.[] | {x: (\"\\(now)\")}]":           "now is not allowed",
		"def f: $ENV.HOME; .a = f":             "$ENV is not allowed",
		"env":                                  "env is not allowed",
		".a = input":                           "input is not allowed",
		"reduce inputs as $x (.; .)":           "inputs is not allowed",
		"import \"m\" as m; .":                 "import is not allowed",
		"if .a then halt else . end":           "halt is not allowed",
		"try error(debug) catch .":             "debug is not allowed",
		".[(localtime|length)]?":               "localtime is not allowed",
		"{a: 1} as {a: $x, $y} ?// [$z] | now": "now is not allowed",
	} {
		if _, err := NewEditRule(jq, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", jq, err, want)
		}
	}
	for _, revision := range []string{"a b", "~", "-a", "ä", strings.Repeat("a", 33), "a/b", "\n"} {
		if _, err := NewEditRule(".", revision); err == nil {
			t.Errorf("revision %q is accepted", revision)
		}
	}
	r, err := NewEditRule(".a = 1", "")
	if err != nil || r.Named || r.key("k") != "k~e"+r.SHA256[:8] || r.key("") != "" {
		t.Errorf("%+v %v", r, err)
	}
	r.JQ = ".a = 2"
	if _, err := r.compile(); err == nil {
		t.Error("a rule that does not hash to its name is accepted")
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ jq, payload, want, why string }{
		{".a = 2", ` {"b" : 1.0, "a":1} `, `{"a":2,"b":1.0}`, ""},
		{
			".a = 2", `{"big":12345678901234567890123,"exp":1e400,"f":0.1000000000000000055511151231257827,"t":"<é\u2028😀"}`,
			`{"a":2,"big":12345678901234567890123,"exp":1e400,"f":0.1000000000000000055511151231257827,"t":"<é` + "\u2028" + `😀"}`, "",
		},
		{".big += 1", `{"big":12345678901234567890123}`, `{"big":12345678901234567890124}`, ""},
		{".", `[1]`, `[1]`, "edit_no_change"},
		{".a = .a", `{ "a": 1 }`, "", "edit_no_change"},
		{".a", `{"a":{}}`, `{}`, ""},
		{".[]", `[1,2]`, "", "edit_failed"},
		{"empty", `[1,2]`, "", "edit_failed"},
		{".a.b.c", `[1,2]`, "", "edit_failed"},
		{"error(\"x\")", `[1,2]`, "", "edit_failed"},
		{".a = infinite", `{}`, "", "edit_failed"},
		{".a = [nan]", `{}`, "", "edit_failed"},
		{"def f: f; f", `{}`, "", "edit_timeout"},
		{"[limit(5; repeat(1))] | last(range(1e12))", `{}`, "", "edit_timeout"},
		{".a = \"x\" * 20000000", `{}`, "", "edit_too_large"},
		{".a = 1", `{"a":0,"a":2}`, "", "edit_not_json"},
		{".a = 1", `{"a":"\ud800"}`, "", "edit_not_json"},
		{".a = 1", `{"a":"\ud83d\ude00"}`, `{"a":1}`, ""},
		{".a = 1", "{\"a\":\"\xff\"}", "", "edit_not_json"},
		{".a = 1", `{"a":1} {}`, "", "edit_not_json"},
		{".a = 1", ``, "", "edit_not_json"},
		{".a = 1", `a=1`, "", "edit_not_json"},
	} {
		t.Run(c.jq+" "+c.payload[:min(len(c.payload), 20)], func(t *testing.T) {
			t.Parallel()
			r, err := NewEditRule(c.jq, "")
			if err != nil {
				t.Fatal(err)
			}
			code, err := r.compile()
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got, err := apply(t.Context(), code, []byte(c.payload))
			var refused *editError
			switch {
			case c.why != "":
				if !errors.As(err, &refused) || refused.why != c.why {
					t.Errorf("%s: %v", got, err)
				}
			case err != nil || string(got) != c.want:
				t.Errorf("%s %v, want %s", got, err, c.want)
			}
			if took := time.Since(start); took > 30*editTime {
				t.Errorf("took %s", took)
			}
		})
	}
}

// FuzzExactJSON: what is accepted says the same as the standard library reads,
// and comes out again with all its digits.
func FuzzExactJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,null,true]}`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, `[1e400]`, ` 1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := exactJSON(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is no JSON", raw)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := exactJSON(b)
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if c, err := json.Marshal(again); err != nil || string(b) != string(c) {
			t.Errorf("%s became %s", b, c)
		}
	})
}

// TestBudget: a value is too large before it is written, and a long list before it
// is looked at.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"fits":           {map[string]any{"ab": []any{nil, "abc", 1}}, ""},
		"long text":      {"1234567890123", "edit_too_large"},
		"long name":      {map[string]any{"1234567890123": nil}, "edit_too_large"},
		"long list":      {make([]any, 14), "edit_too_large"},
		"deep":           {[]any{[]any{[]any{"12345678"}}}, "edit_too_large"},
		"not looked at":  {append(make([]any, 14), math.NaN()), "edit_too_large"},
		"no JSON number": {[]any{math.Inf(-1)}, "edit_failed"},
	} {
		left := budget(13)
		err := left.take(c.v)
		if got := editWhyOrNone(err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func editWhyOrNone(err error) string {
	if err == nil {
		return ""
	}
	return editWhy(err)
}
