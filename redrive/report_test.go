package redrive_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/redrive"
)

// TestReportOf: the report of a run under way adds up, and what is open remains.
func TestReportOf(t *testing.T) {
	t.Parallel()
	got := redrive.ReportOf(9, map[string]redrive.ItemEnd{
		"1": {Result: "redriven"}, "2": {Result: "redriven"}, "3": {Result: "settled"}, "4": {Result: "failed"},
		"5": {Result: "unknown"}, "6": {Result: "skipped", Reason: "gone"}, "7": {Result: "held", Reason: "fenced"},
	})
	want := redrive.Report{Planned: 9, Redriven: 2, Settled: 1, Failed: 1, Unknown: 1, Remaining: 2, Skipped: map[string]int{"gone": 1, "fenced": 1}}
	if d := cmp.Diff(want, got); d != "" || !got.Adds() {
		t.Errorf("adds up: %v; %s", got.Adds(), d)
	}
}
