package classify_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
)

const header = `policy: redrivectl/v1
classes:
  timeout: {effect: unknown, disposition: retry, max_age: 30d, owner: mail}
rules:
`

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":            {"policy: [", "p.yaml:1:9: "},
		"empty":              {"", "p.yaml:1:1: policy must be"},
		"other version":      {strings.Replace(header, "v1", "v9", 1) + "  - {name: a, class: timeout, when: malformed}\n", `p.yaml:1:9: policy must be "redrivectl/v1", not "redrivectl/v9"`},
		"unknown field":      {header + "  - {name: a, class: timeout, wen: malformed}\n", `p.yaml:5:31: unknown field "wen"`},
		"unknown top field":  {"polcy: x\n", `p.yaml:1:1: unknown field "polcy"`},
		"duplicate rule":     {header + "  - {name: a, class: timeout, when: malformed}\n  - {name: a, class: timeout, when: receives > 1}\n", `p.yaml:6:12: duplicate rule "a", first on line 5`},
		"duplicate class":    {"policy: redrivectl/v1\nclasses:\n  a: {effect: none, disposition: fix}\n  a: {effect: none, disposition: fix}\n", "p.yaml:4:3: "},
		"undefined class":    {header + "  - {name: a, class: tmeout, when: malformed}\n", `p.yaml:5:22: rule "a": class "tmeout" is not defined`},
		"type error":         {header + "  - {name: a, class: timeout, when: receives > 'x'}\n", `p.yaml:5:46: rule "a": found no matching overload`},
		"type error, quoted": {header + "  - {name: a, class: timeout, when: \"receives > 'x'\"}\n", `p.yaml:5:47: rule "a": found no matching overload`},
		"no bool":            {header + "  - {name: a, class: timeout, when: receives}\n", `p.yaml:5:37: rule "a": gives int, not bool`},
		"unknown variable":   {header + "  - name: a\n    class: timeout\n    when: reason.typ == ''\n", `p.yaml:7:11: rule "a": undeclared reference`},
		"after always":       {header + "  - {name: a, class: timeout, when: 'true'}\n  - {name: b, class: timeout, when: malformed}\n", `p.yaml:6:37: rule "b" is unreachable: rule "a" before it always matches`},
		"constant always":    {header + "  - {name: a, class: timeout, when: 1 < 2}\n  - {name: b, class: timeout, when: malformed}\n", `rule "b" is unreachable`},
		"never":              {header + "  - {name: a, class: timeout, when: 1 > 2}\n", `p.yaml:5:37: rule "a" is unreachable: its condition is never true`},
		"same condition":     {header + "  - {name: a, class: timeout, when: receives>1}\n  - {name: b, class: timeout, when: (receives  >  1)}\n", `p.yaml:6:37: rule "b" is unreachable: rule "a" has the same condition`},
		"looser limit":       {header + "  - {name: a, class: timeout, when: malformed}\nself_max: 11\n", "p.yaml:6:11: must be 0 to 10"},
		"bad duration":       {header + "  - {name: a, class: timeout, when: malformed}\nmax_age: 3 weeks\n", `p.yaml:6:10: duration "3 weeks"`},
		"bad effect":         {strings.Replace(header, "unknown", "maybe", 1) + "  - {name: a, class: timeout, when: malformed}\n", `p.yaml:3:21: effect of class timeout must be none or unknown, not "maybe"`},
		"unknown as retry":   {"policy: redrivectl/v1\nclasses:\n  unknown: {effect: none, disposition: retry}\nrules:\n  - {name: a, class: unknown, when: malformed}\n", "p.yaml:3:"},
		"no rules":           {"policy: redrivectl/v1\n", "the policy has no rules"},
		"bad share":          {header + "  - {name: a, class: timeout, when: malformed}\ngate: {min_success: 950%}\n", `p.yaml:6:21: "950%" is no share`},
		"bad canary":         {header + "  - {name: a, class: timeout, when: malformed}\ngate: {canary: -3}\n", `p.yaml:6:16: write the number`},
		"unknown in gate":    {header + "  - {name: a, class: timeout, when: malformed}\ngate: {max_retuned: 5%}\n", `unknown field "max_retuned"`},
		"cap below base":     {header + "  - {name: a, class: timeout, when: malformed}\nretry: {base: 2m, cap: 1m, budget: 3}\n", "p.yaml:6:24: cap must not be shorter than base"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := classify.Load("p.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestRuleErrorIsUnknown(t *testing.T) {
	t.Parallel()
	p, err := classify.Load("p.yaml", []byte(header+"  - {name: a, class: timeout, when: 'int(attributes[\"n\"]) > 1'}\n  - {name: b, class: timeout, when: 'true'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	j := job.Job{Message: broker.Message{Attributes: []broker.Attribute{{Name: "n", Value: []byte("x")}}}}
	if got := p.Classify(j, now); got.Class != classify.Unknown || got.Rule != "error:a" {
		t.Errorf("%+v", got)
	}
	j.Message.Attributes[0].Value = []byte("2")
	if got := p.Classify(j, now); got.Rule != "a" || got.Owner != "mail" {
		t.Errorf("%+v", got)
	}
}

func TestMissingAttributeReadsAsEmpty(t *testing.T) {
	t.Parallel()
	p, err := classify.Load("p.yaml", []byte(header+"  - {name: a, class: timeout, when: 'attributes[\"n\"] == \"\" && !(\"n\" in attributes)'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Classify(job.Job{}, now); got.Rule != "a" {
		t.Errorf("%+v", got)
	}
}

func TestExplainTriesEveryRule(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	e := p.Explain(job.Job{Failure: job.Failure{Type: "429", Code: "429", Message: "order 17: too many requests"}}, now)
	if e.Result.Class != classify.Throttled || e.Message != "order #: too many requests" || len(e.Trials) < 10 {
		t.Errorf("%+v", e)
	}
	decided := 0
	for _, trial := range e.Trials {
		if trial.Decided {
			decided++
		}
		if trial.Line == 0 || trial.Matched != (trial.Name == "throttled") {
			t.Errorf("%+v", trial)
		}
	}
	if decided != 1 {
		t.Errorf("%d rules decided", decided)
	}
}

func TestDefaultDefinesEveryClass(t *testing.T) {
	t.Parallel()
	p := defaultPolicy(t)
	for _, c := range []classify.Class{
		classify.Throttled, classify.Unavailable, classify.ServerError, classify.Timeout, classify.Auth, classify.InvalidDestination,
		classify.RejectedPayload, classify.SchemaMismatch, classify.Malformed, classify.NotSupported, classify.Stale, classify.Expired, classify.Unknown,
	} {
		if !p.Has(c) {
			t.Errorf("class %s is not defined", c)
		}
	}
	if p.SHA256() == "" || !bytes.Contains(classify.DefaultYAML(), []byte("policy: "+classify.FileVersion)) {
		t.Error("default policy has no digest or marker")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(classify.DefaultYAML())
	f.Add([]byte(header + "  - {name: a, class: timeout, when: malformed}\n"))
	f.Add([]byte("rules:\n  ! #"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := classify.Load("p.yaml", text)
		if err == nil && p.Classify(job.Job{}, now).Class == "" {
			t.Error("a loaded policy gave no class")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "p.yaml:") {
			t.Errorf("error without position: %v", errors.Unwrap(err))
		}
	})
}

func FuzzNormalise(f *testing.F) {
	for _, e := range evidence {
		f.Add(e.message)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(classify.Normalise(s), "0123456789") && !strings.Contains(s, "x509") {
			t.Errorf("%q keeps digits: %q", s, classify.Normalise(s))
		}
	})
}

// TestDocs compares the documentation with the vocabulary: each variable and
// each signal of a rule is described.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(classify.Variables(), "http", "throttled", "not_connected", "timeout", "reset", "killed", "server_error", "unauthorized", "bad_destination", "rejected", "schema", "malformed", "unsupported", "expired") {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("docs/policy.md does not describe %s", name)
		}
	}
}
