package tui

import (
	"fmt"
	"strings"

	"github.com/redrivectl/redrivectl/redrive"
)

// filter is which jobs of a queue a list shows. Words is for the eye alone: they
// must all occur in what the list says of a job. Select is what a plan may select
// by.
type filter struct {
	Words  []string // lower case
	Select redrive.Selection
}

// parseFilter reads what is typed after "/": class:, region: and schema: narrow,
// each with a value or several apart by commas; the rest are words.
func parseFilter(typed string) (filter, error) {
	var f filter
	for _, part := range strings.Fields(typed) {
		name, value, ok := strings.Cut(part, ":")
		to := map[string]*[]string{"class": &f.Select.Class, "region": &f.Select.Region, "schema": &f.Select.Schema}[name]
		switch {
		case !ok || to == nil:
			f.Words = append(f.Words, strings.ToLower(part))
		case value == "":
			return f, fmt.Errorf("%s: needs a value, as in %s:VALUE", name, name)
		default:
			*to = append(*to, strings.Split(value, ",")...)
		}
	}
	return f, nil
}

// typed is the text that the filter is read from.
func (f filter) typed() string {
	var parts []string
	for _, x := range []struct {
		name   string
		values []string
	}{{"class", f.Select.Class}, {"region", f.Select.Region}, {"schema", f.Select.Schema}} {
		if len(x.values) > 0 {
			parts = append(parts, x.name+":"+strings.Join(x.values, ","))
		}
	}
	return strings.Join(append(parts, f.Words...), " ")
}

// spaced leaves room to type on.
func spaced(typed string) string {
	if typed == "" {
		return ""
	}
	return typed + " "
}

// String is the whole filter as the screen says it.
func (f filter) String() string {
	parts := []string{}
	if t := f.typed(); t != "" {
		parts = append(parts, t)
	}
	if f.Select.Where != "" {
		parts = append(parts, "where "+f.Select.Where)
	}
	return strings.Join(parts, ", ")
}

// says reports whether a job's row has all the words.
func (f filter) says(j *Job) bool {
	if len(f.Words) == 0 {
		return true
	}
	row := strings.ToLower(strings.Join([]string{
		j.JobKey, j.MessageID, j.LedgerRow, j.RequestID, j.Class, j.Effect, j.Action, j.Needs, j.Reason, j.Ledger, j.Verdict, j.Region, j.Schema,
	}, "\n"))
	for _, w := range f.Words {
		if !strings.Contains(row, w) {
			return false
		}
	}
	return true
}
