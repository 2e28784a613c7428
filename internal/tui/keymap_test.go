package tui

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeysPage holds the table of docs/triage.md to the keys in force.
func TestKeysPage(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/triage.md", "-update -->\n", "<!-- /keys -->"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	got, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the keys", page)
	}
	want := keysTable()
	if *update {
		got = want
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not what the keys are: run the test with -update (-want +got):\n%s", page, diff)
	}
}

func keysTable() string {
	var b strings.Builder
	for _, p := range Panes() {
		fmt.Fprintf(&b, "\n### %s\n\n| key | does |\n| --- | --- |\n", p.Pane)
		for _, k := range p.Keys {
			var names []string
			for _, name := range k.Keys() {
				names = append(names, "`"+name+"`")
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, " "), k.Does)
		}
	}
	return b.String() + "\n"
}

// No pane has one key for two things.
func TestKeysAreApart(t *testing.T) {
	t.Parallel()
	panes := Panes()
	for _, p := range panes {
		taken := map[string]string{}
		own := p.Keys
		if !slices.Contains([]string{paneProposal, paneQuestion, paneInput, "everywhere"}, p.Pane) {
			own = append(append([]Key{}, own...), panes[0].Keys...)
		}
		for _, k := range own {
			for _, name := range k.Keys() {
				if was, ok := taken[name]; ok {
					t.Errorf("%s: %s means %q and %q", p.Pane, name, was, k.Does)
				}
				taken[name] = k.Does
			}
		}
	}
}
