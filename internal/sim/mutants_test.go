package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var mutantsFlag = flag.String("mutants", "", "run the simulation on the mutants whose names match; .: on all")

const root = "../.."

// mutant is one mistake that the simulation has to find: texts of the source and
// what stands in their place.
type mutant struct {
	name  string
	seeds int // within so many it has to be caught
	edits []edit
}

type edit struct{ file, from, to string }

// mutants are the files of mutants: a line that says what is wrong, the number of
// seeds, and for each edit the file, the text, a line of two equals signs, and
// what replaces the text.
func mutants(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("mutants/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var ms []mutant
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, parseMutant(t, strings.TrimSuffix(filepath.Base(f), ".txt"), string(text)))
	}
	return ms
}

var fileLine = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

func parseMutant(t *testing.T, name, text string) mutant {
	t.Helper()
	parts := fileLine.Split(text, -1)
	m := mutant{name: name}
	if _, err := fmt.Sscanf(parts[0][strings.IndexByte(parts[0], '\n')+1:], "seeds %d\n", &m.seeds); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i, at := range fileLine.FindAllStringSubmatch(text, -1) {
		from, to, ok := strings.Cut(parts[i+1], "\n==\n")
		if !ok {
			t.Fatalf("%s: edit of %s has no line ==", name, at[1])
		}
		m.edits = append(m.edits, edit{at[1], from, strings.TrimSuffix(to, "\n")})
	}
	return m
}

// apply makes the mutated files in dir, and is the overlay that puts them into
// the place of the real ones.
func (m mutant) apply(dir string) (overlay map[string]string, err error) {
	overlay = map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			return nil, err
		}
		from := orElse(overlay[path], path)
		source, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		if n := strings.Count(string(source), e.from); n != 1 {
			return nil, fmt.Errorf("%s: %s has this text %d times, not once:\n%s", m.name, e.file, n, e.from)
		}
		overlay[path] = filepath.Join(dir, strings.ReplaceAll(e.file, "/", "_"))
		mutated := strings.Replace(string(source), e.from, e.to, 1)
		if err := os.WriteFile(overlay[path], []byte(mutated), 0o600); err != nil {
			return nil, err
		}
	}
	return overlay, nil
}

// TestMutantsApply: each mutant still fits the source, so that none is passed
// over in silence.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	ms := mutants(t)
	if len(ms) < 14 {
		t.Errorf("%d mutants, want 14 or more", len(ms))
	}
	for _, m := range ms {
		if _, err := m.apply(t.TempDir()); err != nil {
			t.Error(err)
		}
		if len(m.edits) == 0 {
			t.Errorf("%s changes nothing", m.name)
		}
	}
}

// TestMutants runs the simulation on each mutant, which it has to catch within
// the mutant's number of seeds. It runs with -mutants alone.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("run with -mutants=. (make sim-mutants)")
	}
	which, err := regexp.Compile(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants(t) {
		if which.MatchString(m.name) {
			t.Run(m.name, m.hunt)
		}
	}
}

var brokenLine = regexp.MustCompile(`seed (\d+) breaks (.*)`)

func (m mutant) hunt(t *testing.T) {
	dir := t.TempDir()
	program := m.build(t, dir)
	started := time.Now()
	out, err := exec.CommandContext(t.Context(), program, "-test.run", "^TestSim$", "-seeds", strconv.Itoa(m.seeds)).CombinedOutput()
	found := brokenLine.FindStringSubmatch(string(out))
	switch {
	case err == nil:
		t.Errorf("%s: not caught within %d seeds", m.name, m.seeds)
	case found == nil:
		t.Errorf("%s: %v\n%s", m.name, err, out)
	default:
		fmt.Printf("%-34s caught after %4s of %d seeds, %5.1fs: %s\n", m.name, found[1], m.seeds, time.Since(started).Seconds(), found[2])
	}
}

// build compiles this package's tests against the mutated source.
func (m mutant) build(t *testing.T, dir string) string {
	t.Helper()
	replace, err := m.apply(dir)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "sim.test")
	c := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s does not compile: %v\n%s", m.name, err, out)
	}
	return program
}
