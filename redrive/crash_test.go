package redrive

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestEveryStepHasACrashPoint reads the source: each function that carry lists
// as a step, and each stage of a resume, marks a boundary where a test can kill
// the process.
func TestEveryStepHasACrashPoint(t *testing.T) {
	t.Parallel()
	steps := parsed(t, "step.go")
	names := fieldsOfSteps(steps["carry"])
	if len(names) != 6 {
		t.Fatalf("carry has the steps %v", names)
	}
	for _, name := range names {
		if crashPoints(steps[name]) == 0 {
			t.Errorf("step %s has no crash point", name)
		}
	}
	for file, f := range map[string]string{"resume.go": "resume", "run.go": "Run"} {
		if crashPoints(parsed(t, file)[f]) == 0 {
			t.Errorf("%s of %s has no crash point", f, file)
		}
	}
}

func parsed(t *testing.T, file string) map[string]*ast.FuncDecl {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]*ast.FuncDecl{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			funcs[fn.Name.Name] = fn
		}
	}
	return funcs
}

// fieldsOfSteps are the methods in the composite literal of carry.
func fieldsOfSteps(fn *ast.FuncDecl) []string {
	var names []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				if sel, ok := e.(*ast.SelectorExpr); ok {
					names = append(names, sel.Sel.Name)
				}
			}
		}
		return true
	})
	return names
}

func crashPoints(fn *ast.FuncDecl) int {
	n := 0
	ast.Inspect(fn, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "crash" && sel.Sel.Name == "At" {
					n++
				}
			}
		}
		return true
	})
	return n
}
