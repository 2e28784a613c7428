package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/config"
)

// TestListIncomplete: a look that did not see all says so in every form, and ends
// with code 3; one that was limited on purpose says so and ends with 0.
func TestListIncomplete(t *testing.T) {
	t.Parallel()
	for _, form := range outputForms {
		for limit, want := range map[int]int{0: exitPartly, 1: exitDone} {
			for _, jobs := range []bool{false, true} {
				var out, errs bytes.Buffer
				a := newApp(Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now, Getenv: func(string) string { return "" }})
				a.output, a.cfg = outputForm(form), &config.Config{}
				src, err := a.dumpSource("-")
				if err != nil {
					t.Fatal(err)
				}
				src.browse = func(_ context.Context, _ int, each func(broker.Message) error) (broker.Completeness, error) {
					return broker.Completeness{Why: "the broker answered too little"}, each(broker.Message{MessageID: "m-1"})
				}
				err = (&listOptions{app: a, target: "q", limit: limit, jobs: jobs}).list(t.Context(), src)
				if got := exitCode(err); got != want {
					t.Errorf("%s, limit %d: exit %d, want %d", form, limit, got, want)
				}
				if said := out.String() + errs.String(); strings.Count(said, "the broker answered too little") != 1 {
					t.Errorf("%s, limit %d: said %q", form, limit, said)
				}
				if form == outputJSON && !json.Valid(out.Bytes()) {
					t.Errorf("no JSON: %s", out.String())
				}
			}
		}
	}
}
