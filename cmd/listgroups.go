package cmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/term"
)

// Bounds of grouping. Some fields have a value of its own for each job; what is
// kept of a queue must not grow with it.
const (
	maxGroups     = 10_000 // values of one field in one class
	maxGroupValue = 200    // characters of one value
	shownGroups   = 10     // for a person
	splitGroups   = 5      // on one line
)

// groupView is how many jobs of a class have one value.
type groupView struct {
	By     string `json:"by"`
	Value  string `json:"value"`
	Count  int    `json:"count"`
	Others bool   `json:"others"` // the values that are not named
}

// groupOf maps what --by can name to a job's value of it.
var groupOf = map[string]func(jobView) string{
	"class":           func(v jobView) string { return v.Class },
	"region":          func(v jobView) string { return or(v.Region) },
	"kind":            func(v jobView) string { return or(v.Kind) },
	"task":            func(v jobView) string { return or(v.Task) },
	"channel":         func(v jobView) string { return or(v.Channel) },
	"period":          func(v jobView) string { return or(v.Period) },
	"origin":          func(v jobView) string { return or(v.Origin) },
	"schema_version":  func(v jobView) string { return or(v.SchemaVersion) },
	"deployment_id":   func(v jobView) string { return or(v.DeploymentID) },
	"customer_status": func(v jobView) string { return or(v.CustomerStatus) },
	"reason_type":     func(v jobView) string { return or(v.Reason.Type) },
	"reason_code":     func(v jobView) string { return or(v.Reason.Code) },
	"rule":            func(v jobView) string { return v.Rule },
	"effect":          func(v jobView) string { return v.Effect },
	"format":          func(v jobView) string { return v.Format },
	"quarantined_by":  func(v jobView) string { return v.QuarantinedBy },
	"receives":        func(v jobView) string { return strconv.Itoa(v.Receives) },
	"hour":            hourOf,
	"ledger_state":    func(v jobView) string { return or(v.LedgerState) },
	"verdict":         func(v jobView) string { return or(v.Verdict) },
	"action":          func(v jobView) string { return v.Action },
	"needs":           func(v jobView) string { return or(v.Needs) },
}

// unknownBy is what the class unknown is split by when nobody asks for more.
func unknownBy() []string { return []string{"reason_type", "task", "origin", "receives", "hour"} }

// hourOf is the hour in which the job failed, else was sent.
func hourOf(v jobView) string {
	at := oldest(v.FailedAt, v.SentAt)
	if at == nil {
		return nothing
	}
	return utc(at.Truncate(time.Hour))
}

func groupNames() []string {
	return slices.Sorted(maps.Keys(groupOf))
}

// groupName reads what was typed: also with hyphens, and as the flags of plan
// create are called.
func groupName(typed string) (name string, ok bool) {
	name = strings.ReplaceAll(typed, "-", "_")
	switch name {
	case "schema":
		name = "schema_version"
	case "deployment":
		name = "deployment_id"
	}
	_, ok = groupOf[name]
	return name, ok
}

// groupsOf is what a class is split by.
func (o *listOptions) groupsOf(class string) []string {
	if len(o.by) == 0 && class == string(classify.Unknown) {
		return unknownBy()
	}
	return o.by
}

// groupTally counts the jobs of one class by field and value.
type groupTally struct {
	by     []string
	counts []map[string]int // as by
	others []int            // as by
}

func newGroupTally(by []string) groupTally {
	by = slices.Compact(slices.Sorted(slices.Values(by)))
	t := groupTally{by: by, counts: make([]map[string]int, len(by)), others: make([]int, len(by))}
	for i := range t.counts {
		t.counts[i] = map[string]int{}
	}
	return t
}

// count adds one job. A value that has its place keeps it, so that each count is
// exact; one that comes after all places are taken is one of the others.
func (t groupTally) count(v jobView) {
	for i, name := range t.by {
		value := clip(groupOf[name](v), maxGroupValue)
		if _, known := t.counts[i][value]; !known && len(t.counts[i]) >= maxGroups {
			t.others[i]++
			continue
		}
		t.counts[i][value]++
	}
}

// views are the groups: by field, the largest first, and the others last.
func (t groupTally) views() []groupView {
	views := []groupView{}
	for i, name := range t.by {
		first := len(views)
		for value, n := range t.counts[i] {
			views = append(views, groupView{By: name, Value: value, Count: n})
		}
		slices.SortFunc(views[first:], func(x, y groupView) int {
			return cmp.Or(y.Count-x.Count, strings.Compare(x.Value, y.Value))
		})
		if t.others[i] > 0 {
			views = append(views, groupView{By: name, Count: t.others[i], Others: true})
		}
	}
	return views
}

// groupRows are the rows of a class for a program: each can be read by itself.
func groupRows(c classView) [][]string {
	var rows [][]string
	for _, g := range c.Groups {
		rows = append(rows, []string{c.Class, "", "", "", strconv.Itoa(g.Count), "", g.By + "=" + g.value()})
	}
	return rows
}

func (g groupView) value() string {
	if g.Others {
		return "(others)"
	}
	return g.Value
}

// foremost are the rows under a class for a person: of each field the largest
// groups, and how many jobs the rest have.
func foremost(gs []groupView) [][]string {
	var rows [][]string
	for _, part := range byField(gs) {
		shown, values, jobs := leading(part, shownGroups)
		for _, g := range shown {
			rows = append(rows, []string{"  " + g.By + "=" + g.Value, "", "", "", strconv.Itoa(g.Count)})
		}
		if jobs > 0 {
			rows = append(rows, []string{"  " + part[0].By + ": " + values, "", "", "", strconv.Itoa(jobs)})
		}
	}
	return rows
}

// byField cuts groups into those of each field.
func byField(gs []groupView) [][]groupView {
	var parts [][]groupView
	for i, g := range gs {
		if i == 0 || gs[i-1].By != g.By {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], g)
	}
	return parts
}

// leading are the first groups, and what is left: its values in words, and its
// jobs.
func leading(gs []groupView, limit int) (shown []groupView, values string, jobs int) {
	more, unnamed := 0, false
	for _, g := range gs {
		switch {
		case g.Others:
			unnamed = true
		case len(shown) < limit:
			shown = append(shown, g)
			continue
		default:
			more++
		}
		jobs += g.Count
	}
	switch {
	case more == 0:
		values = "others"
	case unnamed:
		values = fmt.Sprintf("%d others and more", more)
	default:
		values = fmt.Sprintf("%d others", more)
	}
	return shown, values, jobs
}

// splitLines tell a person what the jobs of a class have in common, a line for
// each field of which they have any value.
func splitLines(c classView, width int) []string {
	var lines []string
	for _, part := range byField(c.Groups) {
		if len(part) == 1 && part[0].Value == nothing {
			continue
		}
		shown, values, jobs := leading(part, splitGroups)
		var words []string
		for _, g := range shown {
			words = append(words, fmt.Sprintf("%s (%d)", term.Clean(g.Value), g.Count))
		}
		if jobs > 0 {
			words = append(words, fmt.Sprintf("%s (%d)", values, jobs))
		}
		line := fmt.Sprintf("  %-13s%s", part[0].By, strings.Join(words, ", "))
		lines = append(lines, clip(line, max(width, leastSplit)-1))
	}
	if len(lines) > 0 {
		lines = append([]string{"", fmt.Sprintf("%s, %d jobs, by what they have:", c.Class, c.Count)}, lines...)
	}
	return lines
}

// leastSplit is the width below which a line is no longer cut.
const leastSplit = 40
