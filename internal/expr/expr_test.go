package expr

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/cel-go/cel"
)

func testEnv(t *testing.T) *cel.Env {
	t.Helper()
	env, err := cel.NewEnv(cel.Variable("x", cel.DynType), Functions())
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func TestCompile(t *testing.T) {
	t.Parallel()
	env := testEnv(t)
	for text, want := range map[string]string{
		`x.a`:         "",
		`"a"`:         "",
		`sha256(x)`:   "",
		`sha256(b"")`: "",
		`1`:           "gives int, not string",
		`y`:           "undeclared reference to 'y' (in container '')",
		`sha256(1)`:   "found no matching overload for 'sha256' applied to '(int)'",
	} {
		_, err := Compile(env, text, 1000, cel.StringType, cel.DynType)
		if got := message(err); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestCheap: what can cost more than it is long is counted.
func TestCheap(t *testing.T) {
	t.Parallel()
	env := testEnv(t)
	for text, want := range map[string]bool{
		`x`: true, `x.a`: true, `x.a == "b" || !(x.n in [1, 2]) && x.m >= 3`: true, `"a" in ["a", "b"]`: true,
		`x == x`: false, `x == [x]`: false, `x.a in x.l`: false, `"a" in x`: false, `[x, x]`: false, `{"a": x}`: false,
		`x + "a" == "b"`: false, `x.contains("a")`: false, `x.exists(i, i == 1)`: false, `sha256(x) == "a"`: false, `has(x.a)`: true,
	} {
		tree, issues := env.Compile(text)
		if issues != nil && issues.Err() != nil {
			t.Fatalf("%s: %v", text, issues.Err())
		}
		if got := cheap(tree); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	long := `x == "` + string(bytes.Repeat([]byte("b"), 2000)) + `"`
	c, err := Compile(env, long, 100, cel.BoolType)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Run.Eval(map[string]any{"x": string(bytes.Repeat([]byte("b"), 2000))}); err == nil {
		t.Error("an expression longer than its limit is not counted")
	}
}

func message(err error) string {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault.Message
	}
	return ""
}

// TestAbsent tells what is not there from what goes wrong.
func TestAbsent(t *testing.T) {
	t.Parallel()
	env := testEnv(t)
	x := map[string]any{"a": "text", "n": nil, "l": []any{"one"}, "big": string(make([]byte, 100_000))}
	for text, want := range map[string]bool{
		`x.b`: true, `x.b.c`: true, `x["b"]`: true, `x.l[1]`: true, `x.a.b`: true, `"p" + x.b`: true, `x.n.b`: true, `x.l.map(i, i + x.b)[0]`: true,
		`int(x.a)`: false, `x.a + 1`: false, `x.n + "p"`: false, `1 / 0`: false,
		`x.big + x.big + x.big`: false, `[x.big, x.big, x.big].map(b, sha256(b))`: false, // too dear
	} {
		c, err := Compile(env, text, 2000, cel.DynType, cel.StringType, cel.IntType, cel.ListType(cel.StringType))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		_, _, err = c.Run.Eval(map[string]any{"x": x})
		if err == nil || c.Absent(err) != want {
			t.Errorf("%s: absent %v: %v", text, c.Absent(err), err)
		}
	}
	c, err := Compile(env, `1 + size("x")`, 100, cel.IntType)
	if err != nil || c.Mentions("x") {
		t.Error("mentions what it does not read", err)
	}
}

// TestPlace: a fault in the second character of an expression, however it stands
// in the file.
func TestPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{
		"k: abc":              {1, 5},
		"k:   'abc'":          {1, 8},
		"a: 1\nk: \"abc\"":    {2, 6},
		"k: |\n    abc\n":     {2, 6},
		"a:\n  k: >-\n    ab": {3, 6},
	} {
		f, err := parser.ParseBytes([]byte(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		line, column := (&Fault{Line: 1, Column: 1}).Place(valueOf(f.Docs[0].Body))
		if [2]int{line, column} != want {
			t.Errorf("%q: %d:%d, want %v", text, line, column, want)
		}
	}
}

// valueOf is the last value of a mapping, at its innermost.
func valueOf(n ast.Node) ast.Node {
	switch x := n.(type) {
	case *ast.MappingNode:
		return valueOf(x.Values[len(x.Values)-1])
	case *ast.MappingValueNode:
		return valueOf(x.Value)
	}
	return n
}
