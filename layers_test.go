package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/redrivectl/redrivectl"

// layers says, for each package of the module (its path within it; "." is the
// module's root), which others it may import. A pattern that ends in "/*" means
// the packages one folder below. A package that no line names fails the test:
// a new one gets a place here first, or none at all.
//
// Imports run one way: main, cmd, tui, redrive, reconcile, classify, job,
// broker. The audit log lies below reconcile. The contracts broker, ledger and
// provider import nothing, and nobody but cmd knows what implements them.
var layers = []struct {
	name  string
	allow []string
}{
	{".", []string{"cmd"}},
	{"cmd", []string{"*"}},
	{"cmd/quiet", nil},
	// The screen knows no broker, not even the contract: it cannot publish.
	{"internal/tui", []string{"redrive", "internal/term"}},
	{"redrive", []string{"reconcile", "audit", "internal/classify", "internal/job", "internal/broker", "internal/ledger", "internal/provider", "internal/expr", "internal/crash"}},
	{"reconcile", []string{"audit", "internal/classify", "internal/job", "internal/broker", "internal/ledger", "internal/provider", "internal/crash"}},
	{"internal/classify", []string{"internal/job", "internal/broker", "internal/expr"}},
	{"internal/job", []string{"internal/broker", "internal/expr"}},
	{"audit", nil},
	{"internal/broker", nil},
	{"internal/ledger", nil},
	{"internal/provider", nil},
	{"internal/expr", nil},
	{"internal/crash", nil},
	{"internal/term", nil},
	{"internal/faultfs", nil},
	{"internal/sqlite", nil},
	{"internal/metrics", nil},
	{"internal/testservers/*", nil},
	{"internal/broker/*", []string{"internal/broker", "internal/broker/brokertest", "internal/crash", "internal/sqlite"}},
	{"internal/ledger/*", []string{"internal/ledger", "internal/ledger/ledgertest", "internal/crash", "internal/sqlite"}},
	{"internal/provider/*", []string{"internal/provider", "internal/provider/providertest", "internal/expr"}},
	{"internal/store", []string{"redrive", "reconcile", "audit", "internal/job", "internal/ledger", "internal/broker", "internal/classify", "internal/crash", "internal/sqlite"}},
	{"internal/config", []string{"internal/classify", "internal/job", "internal/expr", "internal/broker", "internal/ledger", "internal/provider"}},
	{"internal/reference", []string{"internal/job"}},
	{"internal/sim", []string{"redrive", "reconcile", "audit", "internal/worker", "internal/classify", "internal/job", "internal/broker", "internal/ledger", "internal/provider"}},
	{"internal/worker", []string{"internal/broker", "internal/ledger", "internal/provider", "internal/job", "internal/classify", "internal/crash"}},
}

// goPackage is what "go list" says of one package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

func TestLayers(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	for _, p := range packages {
		name := within(p.ImportPath)
		allow, known := layerOf(name)
		if !known {
			t.Errorf("%s has no place in the layers", name)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if !permits(allow, within(imported)) {
				t.Errorf("%s imports %s, which lies outside its layer", name, within(imported))
			}
		}
	}
}

// listPackages asks for the packages as a release and as a crash test build
// them, without their tests.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	var all []goPackage
	for _, tags := range []string{"", "crashpoints"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-tags", tags, "-json=ImportPath,Imports", "./...").Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("go list: %v: %s", err, exit.Stderr)
			}
			t.Fatalf("go list: %v", err)
		}
		for in := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p goPackage
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("read go list: %v", err)
			}
			all = append(all, p)
		}
	}
	return all
}

// layerOf finds the line for a package, the one that names it first.
func layerOf(name string) (allow []string, known bool) {
	for _, l := range layers {
		if l.name == name {
			return l.allow, true
		}
	}
	for _, l := range layers {
		if parent, ok := strings.CutSuffix(l.name, "/*"); ok && parentOf(name) == parent {
			return l.allow, true
		}
	}
	return nil, false
}

func permits(allow []string, name string) bool {
	return slices.Contains(allow, "*") || slices.Contains(allow, name)
}

func within(importPath string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/"), ".")
}

func parentOf(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}
