package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runCLI runs one command line in this process, in an empty home, and returns
// its exit code and what it wrote.
func runCLI(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	var out, errs bytes.Buffer
	code = Run(t.Context(), Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
		Getenv: func(name string) string {
			if v, ok := env[name]; ok {
				return v
			}
			return map[string]string{"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}[name]
		},
	})
	return code, out.String(), errs.String()
}

// TestListSamples: list FILE --jobs -o json says of every sample what its
// "expect" says.
func TestListSamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../internal/job/testdata/samples/*.json")
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d samples, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			want := sampleExpects(t, path)
			code, stdout, stderr := runCLI(t, nil, "list", path, "--jobs", "-o", "json")
			if code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var got struct {
				Total int       `json:"total"`
				Jobs  []jobView `json:"jobs"`
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Jobs) != 1 || got.Total != 1 {
				t.Fatalf("%v in %s", err, stdout)
			}
			j := got.Jobs[0]
			if j.Class != want.Class || j.Redrivable != want.Redrivable || or(j.Reason.Type) != or(want.ReasonType) {
				t.Errorf("class %s, reason %s, redrivable %v; want %s, %s, %v",
					j.Class, or(j.Reason.Type), j.Redrivable, want.Class, or(want.ReasonType), want.Redrivable)
			}
			if want.JobKey != "" && or(j.JobKey) != want.JobKey {
				t.Errorf("job key %s, want %s", or(j.JobKey), want.JobKey)
			}
		})
	}
}

type sampleExpect struct {
	Class      string  `json:"class"`
	ReasonType *string `json:"reason_type"`
	Redrivable bool    `json:"redrivable"`
	JobKey     string  `json:"job_key"`
}

func sampleExpects(t *testing.T, path string) sampleExpect {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Expect sampleExpect `json:"expect"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s.Expect
}
