package cmd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGroupTallyIsBounded: a field with a value for each job takes no more memory
// than its places, and what is named is counted exactly.
func TestGroupTallyIsBounded(t *testing.T) {
	t.Parallel()
	tally := newGroupTally([]string{"task", "receives", "task"})
	for i := range maxGroups + 500 {
		task := fmt.Sprint("task-", i)
		tally.count(jobView{Task: &task, Receives: i % 2})
	}
	first, long := "task-0", strings.Repeat("x", 10*maxGroupValue)
	tally.count(jobView{Task: &first, Receives: 1})
	tally.count(jobView{Task: &long})
	views := tally.views()
	if len(views) != 2+maxGroups+1 {
		t.Fatalf("%d groups", len(views))
	}
	got := append(views[:3:3], views[len(views)-1])
	want := []groupView{
		{By: "receives", Value: "0", Count: (maxGroups+500)/2 + 1},
		{By: "receives", Value: "1", Count: (maxGroups+500)/2 + 1},
		{By: "task", Value: "task-0", Count: 2},
		{By: "task", Count: 501, Others: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestGroupsForPeople: the largest groups and how many are left; a field that no
// job has is not told of.
func TestGroupsForPeople(t *testing.T) {
	t.Parallel()
	c := classView{Class: "unknown", Count: 105}
	for i := range 14 {
		c.Groups = append(c.Groups, groupView{By: "hour", Value: fmt.Sprint("h", i), Count: 14 - i})
	}
	c.Groups = append(c.Groups, groupView{By: "origin", Value: nothing, Count: 105}, groupView{By: "task", Value: "a\x1b[2J", Count: 100}, groupView{By: "task", Count: 5, Others: true})
	want := []string{
		"", "unknown, 105 jobs, by what they have:",
		"  hour         h0 (14), h1 (13), h2 (12), h3 (11), h4 (10), 9 others (45)",
	}
	lines := splitLines(c, 80)
	if diff := cmp.Diff(want, lines[:3]); diff != "" || len(lines) != 4 || strings.Contains(lines[3], "\x1b") || !strings.Contains(lines[3], ", others (5)") {
		t.Errorf("%q (-want +got):\n%s", lines, diff)
	}
	for _, line := range splitLines(c, 50) {
		if len([]rune(line)) > 50 {
			t.Errorf("%d characters: %s", len([]rune(line)), line)
		}
	}
	rows := foremost(c.Groups)
	if len(rows) != 10+1+1+1+1 {
		t.Errorf("%d rows", len(rows))
	}
	if diff := cmp.Diff([]string{"  hour: 4 others", "", "", "", "10"}, rows[10]); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}
