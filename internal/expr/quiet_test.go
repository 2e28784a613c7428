package expr

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

// TestQuiet: no error of an evaluation repeats what it was evaluated on.
func TestQuiet(t *testing.T) {
	t.Parallel()
	env, err := cel.NewEnv(cel.Variable("s", cel.StringType), cel.Variable("m", cel.MapType(cel.StringType, cel.StringType)), Functions())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`timestamp(s) == timestamp(s)`:                             "invalid RFC 3339 timestamp",
		`"x".matches(s)`:                                           "error parsing regexp",
		`timestamp("2020-01-01T00:00:00Z").getHours(s) == 1`:       "unknown time zone",
		`m[s] == "x"`:                                              "no such key",
		`int(s) == 1`:                                              "type conversion error from 'string' to 'int'",
		`base64.decode(s) == b""`:                                  "illegal base64 data at input byte 3",
		`s.charAt(99) == "x"`:                                      "index out of range",
		`dyn(s) + dyn(1) == s`:                                     "no such overload",
		`1 / (size(s) - size(s)) == 1`:                             "division by zero",
		`9223372036854775807 + size(s) == 1`:                       "integer overflow",
		`duration(s) == duration("1s")`:                            "type conversion error from 'string' to 'google.protobuf.Duration'",
		`[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, s != "q")))`: "operation cancelled: actual cost limit exceeded",
	} {
		c, err := Compile(env, text, 40, cel.BoolType)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, _, err = c.Run.Eval(map[string]any{"s": "sec(ret", "m": map[string]string{}})
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		if got := Quiet(err).Error(); got != want || strings.Contains(got, "sec(ret") {
			t.Errorf("%s: %q, want %q (of %q)", text, got, want, err)
		}
	}
	if Quiet(nil) != nil {
		t.Error("an error of none")
	}
}
