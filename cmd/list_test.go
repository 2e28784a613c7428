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

// TestReqC23Approximate: what a broker only estimates is never called exact, and
// what could not be reached is said.
func TestReqC23Approximate(t *testing.T) {
	t.Parallel()
	const why = "the broker shows no more than 9,999"
	var out bytes.Buffer
	a := newApp(Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Now: time.Now, Getenv: func(string) string { return "" }})
	a.cfg = &config.Config{}
	src, err := a.dumpSource("-")
	if err != nil {
		t.Fatal(err)
	}
	src.describe = func(context.Context) (broker.Description, error) {
		return broker.Description{Depth: broker.Depth{Visible: 2_000_000}}, nil
	}
	src.browse = func(_ context.Context, _ int, each func(broker.Message) error) (broker.Completeness, error) {
		return broker.Completeness{Why: why}, each(broker.Message{MessageID: "m-1"})
	}
	list := newListing(&listOptions{app: a, target: "q"}, src)
	seen, err := src.look(t.Context(), 0, list.add)
	if err != nil {
		t.Fatal(err)
	}
	v := list.view(seen)
	if v.Counted != "approximate" || v.Total != 2_000_000 || v.Complete || or(v.Why) != why || v.Classes[0].Count != 1 {
		t.Errorf("%+v", v)
	}
	if heading := list.heading(v)[0]; !strings.Contains(heading, "2000000 quarantined, approximate count") {
		t.Error(heading)
	}
}
