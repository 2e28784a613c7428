package cmd

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemoBreaker: the canary passes, and the circuit breaker stops the rest.
func TestDemoBreaker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "world")
	stdout, stderr, code := demoOutput(t, "demo", "--dir", dir, "--jobs", "60", "--scenario", "breaker", "-o", "json")
	if code != exitGate {
		t.Fatalf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
	var s demoSummary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	if s.Jobs != 60 || s.Redriven < 5 || s.Held+s.Redriven != 60 || len(s.problems()) > 0 {
		t.Errorf("summary %+v", s)
	}
	for _, part := range []string{
		"the gate says pass", "the circuit breaker tripped: ", "The run ended with exit code 6. Its canary had passed", "--promote --reason WHY",
	} {
		if !strings.Contains(stderr, part) {
			t.Errorf("the demo does not say %q:\n%s", part, stderr)
		}
	}
}
