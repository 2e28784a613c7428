package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPolicyPageTable: the table that docs/policy.md shows passes under the
// shipped policy, case for case.
func TestPolicyPageTable(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```yaml\n(now: .*?)```").FindStringSubmatch(readFile(t, "../docs/policy.md"))
	if block == nil {
		t.Fatal("docs/policy.md has no table of cases")
	}
	path := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(path, []byte(block[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCLI(t, nil, "policy", "test", path)
	if code != exitDone || stderr != "" {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
}
