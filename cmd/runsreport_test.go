package cmd

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/redrive"
)

// hostileReason is what a person, or who writes job keys, could put into a ticket.
const hostileReason = "a | b\n| forged | row |\r\n# heading `code` ``` <script>x</script> [link](https://h.example) ![i](https://h.example/i.png) @team &lt; \\| \u202e"

// ticketView is a run of which something went every way.
func ticketView() runReportView {
	at := func(minute int) time.Time { return time.Date(2026, 5, 4, 10, minute, 0, 0, time.UTC) }
	j := func(key string) reportedJob {
		return reportedJob{JobKey: text(key), MessageID: "m-" + key, CopyID: "dlq/" + key, Class: "throttled"}
	}
	end, interrupted := at(20), "interrupted"
	v := runReportView{
		Run: strings.Repeat("81c2", 8), Plan: strings.Repeat("3f9a", 16), Queue: "digests", State: "finished",
		Requester: "requester", RequesterKnown: "account", Reason: hostileReason, Query: "--class throttled", Tier: "two", TierWhy: []string{"accepted_duplicates"},
		Lifts: redrive.Lifts{AcceptDuplicates: hostileReason, To: "digests|x"},
		Approvals: []statementView{
			{Decision: "approve", Person: "approver|x", Known: "declared", Reason: hostileReason, At: at(2)},
			{Decision: "revoke", Person: "approver", Known: "account", Reason: "stop", Solo: text("one person"), At: at(3)},
		},
		PlannedAt: at(0), ApprovedAt: moment(at(2)), StartedAt: at(10), EndedAt: &end, ExpiresAt: at(59),
		Sessions: []sessionView{
			{StartedAt: at(10), EndedAt: at(11), By: "requester", Host: "host", State: &interrupted},
			{StartedAt: at(12), EndedAt: at(20), By: "requester", Host: "host", Resumed: true},
		},
		Classes: []classReport{
			{Class: "throttled", Planned: 9, Redriven: 3, Settled: 1, Skipped: 2, Failed: 1, Unknown: 1, Remaining: 1},
			{Class: "a|b", Planned: 1, Discarded: 1},
		},
		Rate:         rateReport{Asked: 50, Effective: new(1.25), Highest: 4, Publishes: 3, Running: 540},
		Prevented:    preventedReport{1, []preventedJob{{j("d|1"), "settled", "accepted"}}},
		UnknownSends: unknownSends{4, []unknownSendOf{{j("d|6"), "redriven"}, {j(hostileReason), "unknown"}, {j("d-8"), "redriven"}, {j("d-9"), "redriven"}}},
		ToClose:      newPercentiles([]float64{60, 120}), ToReconciled: newPercentiles([]float64{90}),
		Since:    sinceReport{ReadAt: moment(at(30)), Jobs: 3, Sent: 1, Queued: 1, Failed: map[string]int{"thrott|led": 1}, LookAt: moment(at(31)), Back: new(1)},
		Provider: providerReport{map[string]int{"accepted": 1}, map[string]int{"2xx": 2}},
		Left: []leftView{
			{"failed_again", "thrott|led", 1, "redrivectl list digests --jobs", []reportedJob{j(hostileReason)}},
			{"skipped", "changed_ledger", 4, "redrivectl show JOB", []reportedJob{j("d-2"), j("d-3"), j("d-4"), j("d-5")}},
		},
		Archives:    archivesReport{2, map[string]int{"settle": 1, "discard": 1}, 10, 86400, moment(at(10)), moment(at(11))},
		OpenIntents: 1,
		Audit:       auditReport{text("5"), text("70"), 60, audit.Head{Seq: 80, Hash: strings.Repeat("ab", 32)}, false, []audit.Problem{{Seq: 7, What: "record | was edited"}}},
		Sources:     []sourceView{newSourceView("audit log", 60, nil), newSourceView("ledger app|x", 0, os.ErrNotExist)},
		Solo:        text("one person"),
	}
	v.record.State = v.State
	v.record.report(redrive.Report{Planned: 10, Redriven: 3, Settled: 1, Discarded: 1, Failed: 1, Unknown: 1, Remaining: 1, Skipped: map[string]int{"changed_ledger": 2}})
	return v
}

// TestTicket holds the Markdown to a page that was read and found good.
func TestTicket(t *testing.T) {
	t.Parallel()
	got := ticketView().markdown()
	if d := cmp.Diff(readFile(t, "testdata/ticket.md"), got); d != "" {
		t.Errorf("%s\nit is now:\n%s", d, got)
	}
}

// TestTicketKeepsItsForm: whatever texts from outside hold, a reader of Markdown
// shows no link, image, tag or heading of theirs, and no row has more cells than
// its table.
func TestTicketKeepsItsForm(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert([]byte(ticketView().markdown()), &page); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	shape := map[string]int{}
	for _, tag := range []string{"<h1", "<h2", "<table", "<tr", "<th", "<td", "<a", "<img", "<script", "<em", "<!--", "<pre"} {
		shape[tag] = strings.Count(html, tag+">")
	}
	rows := []int{17, 2, 2} // of the three tables, without their headers
	want := map[string]int{
		"<h1": 1, "<h2": 5, "<table": 3, "<tr": rows[0] + rows[1] + rows[2] + 3, "<th": 2 + 9 + 5, "<td": rows[0]*2 + rows[1]*9 + rows[2]*5,
		"<a": 0, "<img": 0, "<script": 0, "<em": 0, "<!--": 0, "<pre": 0,
	}
	if d := cmp.Diff(want, shape); d != "" || strings.Contains(html, " href") || strings.Contains(html, " src") {
		t.Errorf("%s\n%s", d, html)
	}
	for _, text := range []string{"forged", "@team", "[link]"} {
		plain := regexp.MustCompile(`<code>[^<]*</code>`).ReplaceAllString(html, "")
		if strings.Contains(plain, text) {
			t.Errorf("%s stands outside of code in\n%s", text, html)
		}
	}
}

// TestNextCommands: no reason leaves a person without a command.
func TestNextCommands(t *testing.T) {
	t.Parallel()
	ended, dead, lives := nextCommands{run: "r", queue: "q"}, nextCommands{run: "r", queue: "q", resumes: true}, nextCommands{run: "r", queue: "q", lives: true}
	for _, tt := range []struct {
		n                  nextCommands
		outcome, why, want string
	}{
		{lives, "remaining", "in_flight", "redrivectl runs show r"},
		{dead, "remaining", "not_begun", "redrivectl resume r"},
		{dead, "unknown", redrive.OpenIntent, "redrivectl resume r"},
		{ended, "remaining", "not_begun", "redrivectl plan create q --jobs-from FILE --max N --reason WHY"},
		{ended, "unknown", "copy_gone", "redrivectl trace JOB"},
		{ended, "skipped", "manual_hold", "redrivectl release JOB --reason WHY"},
		{ended, "skipped", "already_sent", "redrivectl plan create q --jobs-from FILE --action settle --max N --reason WHY"},
		{ended, "skipped", "row_sending", "redrivectl reconcile q --apply"},
		{ended, "skipped", "revoked", "redrivectl plan create q --jobs-from FILE --max N --reason WHY"},
		{ended, "skipped", "a new reason", "redrivectl show JOB"},
		{ended, "failed", "publish_refused", "redrivectl doctor q"},
		{ended, leftFailedAgain, "throttled", "redrivectl list q --jobs"},
		{ended, leftBack, "seen_in_last_look", "redrivectl list q --jobs"},
	} {
		if got := tt.n.of(tt.outcome, tt.why); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.outcome, tt.why, got, tt.want)
		}
	}
}
