package cmd

import (
	"testing"

	"github.com/redrivectl/redrivectl/internal/tui"
	"github.com/redrivectl/redrivectl/redrive"
	"github.com/spf13/pflag"
)

// TestEditCommand: what the form does not take is a command that a shell reads as it
// was meant.
func TestEditCommand(t *testing.T) {
	t.Parallel()
	flags := map[string]string{"max": "12", "rate": "50/s", "canary": "", "reason": "never said", "fan-out": "true", "fixed": "the template's locale"}
	const rest = ` --edit FILTER --reason WHY --dry-run`
	for _, c := range []struct {
		sel  redrive.Selection
		want string
	}{
		{redrive.Selection{All: true}, ` --all`},
		{redrive.Selection{Class: []string{"schema_mismatch", "malformed"}, Region: []string{"eu-west"}, Schema: []string{"2"}}, ` --class schema_mismatch --class malformed --region eu-west --schema 2`},
		{redrive.Selection{Where: `reason == "$HOME"`}, ` --where 'reason == "$HOME"'`},
		{redrive.Selection{Jobs: []string{"a b", "c"}}, ` --job "a b" --job c`},
		{redrive.Selection{Jobs: []string{"a", "b", "c", "d"}}, ` --jobs-from FILE`},
	} {
		want := "redrivectl plan create digests" + c.want + ` --fan-out --fixed "the template's locale" --max 12 --rate 50/s` + rest
		if got := editCommand(tui.Form{Queue: "digests", Select: c.sel, Flags: flags}); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestFormTakesWhatPlanCreateTakes: each line of the form is a flag of plan create,
// and what it lacks is what selects, or is named by the form's command.
func TestFormTakesWhatPlanCreateTakes(t *testing.T) {
	t.Parallel()
	offered := map[string]bool{}
	for _, name := range tui.FormFlags() {
		offered[name] = true
	}
	elsewhere := map[string]bool{"revision": true, "dry-run": true, "from-capture": true, "jobs-from": true}
	c := newPlanCreateCmd(newApp(Env{}))
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !offered[f.Name] && !elsewhere[f.Name] && !selects[f.Name] {
			t.Errorf("the form does not offer --%s", f.Name)
		}
		delete(offered, f.Name)
	})
	for name := range offered {
		t.Errorf("plan create has no --%s", name)
	}
}

// selects are the flags in whose place the screen has lists, filters and marks.
var selects = map[string]bool{
	"class": true, "reason-type": true, "period": true, "region": true, "schema": true, "customer-status": true, "channel": true, "since": true, "until": true,
	"sent-since": true, "sent-until": true, "older-than": true, "receives": true, "where": true, "job": true, "all": true,
}
