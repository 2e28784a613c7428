package crash

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// TestPointsListed compares the list of boundaries with the calls of At in the
// source, in both directions, in either build.
func TestPointsListed(t *testing.T) {
	t.Parallel()
	listed := literals(t, "points_on.go", list)
	for p, n := range called(t) {
		if n > 1 {
			t.Errorf("%s marks %d places: a test could not tell which it reached", p, n)
		}
		if !slices.Contains(listed, p) {
			t.Errorf("%s is called and not listed", p)
		}
		listed = slices.DeleteFunc(listed, func(l string) bool { return l == p })
	}
	for _, p := range listed {
		t.Errorf("%s is listed and marks no place", p)
	}
}

// TestPointsOfSteps: each step that a reconciliation or a run takes in order, and
// what stands before and after them, passes a boundary.
func TestPointsOfSteps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pkg, lists string // the function that lists the steps
		more       []string
		least      int
	}{
		{"reconcile", "work", []string{"closeOpen", "fence"}, 6},
		{"redrive", "carry", []string{"resume", "Resume", "Run"}, 9},
	}
	for _, tt := range tests {
		funcs := functions(t, filepath.Join(root, tt.pkg))
		steps := append(stepsOf(funcs[tt.lists]), tt.more...)
		if len(steps) < tt.least {
			t.Errorf("%s of %s has the steps %v", tt.lists, tt.pkg, steps)
		}
		for _, s := range steps {
			if !marks(funcs, funcs[s], map[string]bool{}) {
				t.Errorf("step %s of %s has no crash point", s, tt.pkg)
			}
		}
	}
}

// functions are those of the package in a folder, by name.
func functions(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	funcs := map[string]*ast.FuncDecl{}
	for _, file := range goFiles(t, dir) {
		for _, d := range parse(t, file).Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				funcs[fn.Name.Name] = fn
			}
		}
	}
	return funcs
}

// TestPointsNotInRelease: an ordinary build has none of the names, nor the
// variables that arm them.
func TestPointsNotInRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "redrivectl")
	c := exec.Command("go", "build", "-o", path, ".")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"REDRIVECTL_CRASH_AT", "REDRIVECTL_STORE_FAULT", "REDRIVECTL_CLOCK", "redrivectl-faults"}
	for p := range called(t) {
		names = append(names, p)
	}
	for _, n := range names {
		if strings.Contains(string(program), n) {
			t.Errorf("a release holds %q", n)
		}
	}
}

// called counts the calls of crash.At in the module's source, by name.
func called(t *testing.T) map[string]int {
	t.Helper()
	names := map[string]int{}
	for _, file := range goFiles(t, root) {
		for _, p := range literals(t, file, atCall) {
			names[p]++
		}
	}
	if len(names) == 0 {
		t.Fatal("no call of crash.At was found")
	}
	return names
}

// atCall is n if it is a call of crash.At.
func atCall(n ast.Node) ast.Node {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "At" {
		return nil
	}
	if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "crash" {
		return nil
	}
	return call
}

// list is n if it is a composite literal.
func list(n ast.Node) ast.Node {
	if lit, ok := n.(*ast.CompositeLit); ok {
		return lit
	}
	return nil
}

// literals are the texts within the nodes of a file that in picks.
func literals(t *testing.T, file string, in func(ast.Node) ast.Node) []string {
	t.Helper()
	var texts []string
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		picked := in(n)
		if picked == nil {
			return true
		}
		ast.Inspect(picked, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, text)
			}
			return true
		})
		return false
	})
	return texts
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// goFiles are the Go files below dir that are no tests.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// stepsOf are the methods that a function lists.
func stepsOf(fn *ast.FuncDecl) []string {
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

// marks reports that fn, or a function of its package that it calls, calls At.
func marks(funcs map[string]*ast.FuncDecl, fn *ast.FuncDecl, seen map[string]bool) bool {
	if fn == nil || seen[fn.Name.Name] {
		return false
	}
	seen[fn.Name.Name] = true
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if atCall(n) != nil {
			found = true
		}
		if sel, ok := n.(*ast.SelectorExpr); ok && !found {
			found = marks(funcs, funcs[sel.Sel.Name], seen)
		}
		return !found
	})
	return found
}
