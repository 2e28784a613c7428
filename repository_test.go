package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFunctionLines = 80
	maxFileLines     = 500
)

// surroundings are the names that only main and cmd may use: the environment,
// the standard streams, and the end of the process.
var surroundings = map[string][]string{
	"os":  {"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Stdin", "Stdout", "Stderr", "Exit"},
	"fmt": {"Print", "Printf", "Println"},
	"log": {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln"},
}

// goFile is one parsed file of the repository.
type goFile struct {
	path  string
	set   *token.FileSet
	tree  *ast.File
	lines int
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func TestOnlyCmdTouchesTheSurroundings(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() || f.path == "main.go" || strings.HasPrefix(f.path, "cmd/") || strings.HasPrefix(f.path, "internal/testservers/") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(surroundings[pkg.Name], sel.Sel.Name) {
				t.Errorf("%s uses %s.%s, which only cmd may", f.set.Position(n.Pos()), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		if f.lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, maxFileLines)
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, more than %d", f.set.Position(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

// The words that no file may hold, written so that this one holds none.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	machine    = regexp.MustCompile(`(^|[\s"'(=:])/(root|work|Users)` + `/`)
)

func TestTextSpeaksOfTheProjectAlone(t *testing.T) {
	t.Parallel()
	for _, path := range sources(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			if m := unfinished.FindString(line); m != "" {
				t.Errorf("%s:%d: %s", path, i+1, m)
			}
			if m := machine.FindString(line); m != "" {
				t.Errorf("%s:%d: a path of one machine: %s", path, i+1, m)
			}
		}
	}
}

var (
	// link is a relative link of a Markdown page, without its anchor.
	link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)
	// mention is a path of the source that a page names.
	mention = regexp.MustCompile("`((?:cmd|redrive|reconcile|audit|internal)/[\\w./-]+)`")
)

func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, path := range sources(t) {
		if !strings.HasSuffix(path, ".md") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		for _, m := range mention.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s, which is not there", path, m[1])
			}
		}
	}
}

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	for _, path := range sources(t) {
		if !strings.HasSuffix(path, ".go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, goFile{path, set, tree, set.Position(tree.FileEnd).Line})
	}
	return files
}

// sources are the files of the repository, by their slash-separated paths.
// What git does not keep (build results, hidden folders) is left out.
func sources(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(path)
		hidden := strings.HasPrefix(d.Name(), ".") && path != "." && d.Name() != ".ci"
		switch {
		case d.IsDir() && (hidden || slashed == "dist" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.IsDir() && slashed != ".git" && slashed != "redrivectl" && !strings.HasSuffix(path, ".test"):
			paths = append(paths, slashed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
