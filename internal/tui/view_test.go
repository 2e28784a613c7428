package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/internal/term"
)

var update = flag.Bool("update", false, "write the golden files again")

// scenes are the panes as tests draw them.
var scenes = []struct {
	name  string
	queue string
	keys  []string
}{
	{"queues", "", nil},
	{"queues_help", "", []string{"?"}},
	{"classes", "digests", []string{"down"}},
	{"classes_counted", "shipments", nil},
	{"jobs", "digests", []string{"enter", "x", "down"}},
	{"jobs_filter_fault", "digests", []string{"enter", ":", `"receives > class"`, "enter"}},
	{"job", "digests", []string{"enter", "enter"}},
	{"job_timeline", "digests", []string{"enter", "enter", "t"}},
	{"job_reveal", "digests", []string{"enter", "enter", "R", `"ticket 4711"`, "enter"}},
	{"jobs_marked", "digests", []string{"enter", "space", "space"}},
	{"reconcile", "digests", []string{"c", "y"}},
	{"plan_form", "digests", []string{"enter", "n", "end", "enter", `"the outage is over"`, "enter"}},
	{"plan_form_fault", "digests", []string{"enter", "n", "down", "down", "enter", "ctrl+u", `"0/s"`, "enter"}},
	{"plans", "digests", []string{"a"}},
	{"plan_approve", "digests", []string{"a", "enter", "A", `"212"`, "enter", `"seen"`, "enter"}},
	{"runs", "digests", []string{"a", "down", "enter", "S", "y", "w"}},
	{"run", "digests", []string{"a", "down", "enter", "S", "y"}},
}

func TestViews(t *testing.T) {
	t.Parallel()
	for _, sc := range scenes {
		for _, size := range [][2]int{{80, 24}, {120, 40}} {
			t.Run(fmt.Sprintf("%s_%dx%d", sc.name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				x := drive(t, newFakeDesk(), sc.queue).size(size[0], size[1]).press(sc.keys...)
				got := x.s.View()
				fits(t, got, size[0], size[1])
				golden(t, got)
			})
		}
	}
}

// golden compares a view with the file of the test's name. Spaces at the ends of
// lines, which no one sees, are left out.
func golden(t *testing.T, got string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	got = strings.Join(lines, "\n") + "\n"
	file := filepath.Join("testdata", strings.TrimPrefix(t.Name(), "TestViews/")+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// fits demands as many lines as the screen has, none wider than it, and nothing in
// them that a terminal would obey.
func fits(t *testing.T, view string, w, h int) {
	t.Helper()
	lines := strings.Split(view, "\n")
	if len(lines) != h {
		t.Errorf("%d lines on a screen of %d", len(lines), h)
	}
	for i, line := range lines {
		if got := max(term.Width(line), ansi.StringWidth(line)); got > w {
			t.Errorf("line %d is %d wide on a screen of %d: %q", i, got, w, line)
		}
		for _, r := range line {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("line %d has %U: %q", i, r, line)
				break
			}
		}
	}
}

// Every text that a desk can give is as hostile as a message can be, on screens of
// every size.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"controls":   hostile,
		"long":       strings.Repeat("A", 1<<20),
		"wide":       strings.Repeat("漢", 1<<14),
		"combining":  strings.Repeat("e\u0301\u0302", 1<<13),
		"emoji":      strings.Repeat("👩‍👩‍👧🇩🇪☺️", 1<<12),
		"rtl":        strings.Repeat("مرحبا שלום ", 1<<12),
		"not utf-8":  strings.Repeat("\xff\xfe", 1<<12),
		"zero width": strings.Repeat("\u200b\u200d\ufeff", 1<<12),
		"newlines":   strings.Repeat("a\nb\r\n", 1<<12),
	} {
		for _, size := range [][2]int{{40, 8}, {80, 24}, {121, 40}, {200, 60}} {
			t.Run(fmt.Sprintf("%s_%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				x := drive(t, hostileDesk(text), "").size(size[0], size[1])
				fits(t, x.s.View(), size[0], size[1])
				keys := []string{
					"enter", "enter", "x", "down", "home", "enter", "end", "t", "?", "f", "R", `"` + hostile + `"`, "enter", "y", "esc", // jobs
					"c", "n", "c", "y", "down", "end", "esc", // verdicts
					"n", "end", "enter", `"` + hostile + `"`, "enter", "up", "enter", "F", "n", "up", "enter", "ctrl+u", `"漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字"`, "left", "left", "enter", // a plan in the making
					"F", "y", "end", // which is then a plan
					"a", "down", "enter", "A", `"1"`, "enter", `"why"`, "enter", "n", "S", "y", "end", "?", "?", // a run
					"P", `"` + hostile + `"`, "enter", "esc", "w", "down", "enter",
				}
				for _, key := range keys {
					fits(t, x.press(key).s.View(), size[0], size[1])
				}
				for _, do := range []Doing{DoReconcile, DoCreate, DoRun} {
					if size[0] >= 80 && !slices.ContainsFunc(x.desk.acts(), func(a string) bool { return strings.HasPrefix(a, "do "+string(do)+" ") }) {
						t.Errorf("%s was not done", do)
					}
				}
				x.desk.err = fmt.Errorf("%s", text)
				for _, key := range []string{"r", "esc", "r", "o", "a", "r", "enter", "esc", "esc", "r", "c", "n"} {
					fits(t, x.press(key).s.View(), size[0], size[1])
				}
			})
		}
	}
}

func hostileDesk(text string) *fakeDesk {
	d := newFakeDesk()
	d.queues = []Queue{{Name: "q", Broker: text, Depth: 1}, {Name: "z" + text[:min(len(text), 100)], Failed: text}}
	j := Job{
		ID: text, JobKey: text, LedgerRow: text, MessageID: text, RequestID: text, Class: text, Effect: text, Action: text, Needs: text, Reason: text,
		Ledger: text, Verdict: text, Region: text, Schema: text,
	}
	d.looks["q"] = Look{
		Queue: "q", Broker: text, At: noon, Why: text, Total: 1, Jobs: []Job{j, {ID: "2", Class: text}},
		Classes: []Class{{Name: text, Disposition: text, Effect: text, Owner: text, Runbook: text, Count: 1}},
	}
	sheet := Sheet{
		Sections: []Section{{text, []Row{{text, text}, {"", text}}}},
		Payload:  Payload{Form: text, Text: term.CleanLines(text[:min(len(text), term.DefaultPayloadMax)]), Bytes: len(text)},
	}
	d.sheets[text], d.sheets["2"] = sheet, sheet
	d.question, d.noted = text, text
	d.plans = []Plan{
		{ID: text, Queue: text, State: text, Tier: text, Requester: text, Reason: text, Items: 1, Mine: true},
		{ID: "2" + text, Queue: text, State: text, Tier: text, Requester: text, Reason: text},
	}
	d.rows, d.verdicts = []Row{{text, text}, {"", text}}, []Verdict{{text, text, text}, {"1", text, ""}}
	d.draft = &Draft{Items: 1, Tier: text, Rows: d.rows, Held: []Held{{1, text, text}}, Edit: text}
	d.lines[text], d.lines["2"] = []Entry{{noon, text, text, text}}, []Entry{{noon, text, text, text}}
	return d
}

// Colour and its absence show the same text.
func TestColourSaysNothing(t *testing.T) {
	t.Parallel()
	for _, sc := range scenes {
		plain := drive(t, newFakeDesk(), sc.queue).press(sc.keys...)
		coloured := drive(t, newFakeDesk(), sc.queue).press(sc.keys...)
		coloured.s.styles = newStyles(nil, true)
		colour := coloured.press().s.View()
		if colour == plain.s.View() {
			t.Errorf("%s: nothing is coloured", sc.name)
		}
		if sc.name == "job" || sc.name == "job_timeline" || sc.name == "job_reveal" {
			continue // the lines were laid out before the colours came
		}
		if diff := cmp.Diff(plain.s.View(), ansi.Strip(colour)); diff != "" {
			t.Errorf("%s (-plain +coloured):\n%s", sc.name, diff)
		}
	}
}
