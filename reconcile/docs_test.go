package reconcile

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsHoldTheTable compares the page with the table that decides.
func TestDocsHoldTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reconciliation.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| # | when | action |\n| --- | --- | --- |\n")
	for _, r := range Rows() {
		fmt.Fprintf(&want, "| %d | %s | %s |\n", r.Row, r.When, r.Action)
	}
	if !strings.Contains(string(page), want.String()) {
		t.Errorf("docs/reconciliation.md lacks the table as it is:\n%s", want.String())
	}
	for _, v := range verdicts[1:] {
		if !strings.Contains(string(page), "| `"+string(v)+"` |") {
			t.Errorf("docs/reconciliation.md lacks the verdict %s", v)
		}
	}
}
