package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/classify"
)

// policyTable is a file of cases for policy test. docs/policy.md describes it.
type policyTable struct {
	Now   time.Time    `yaml:"now"`
	Given policyGiven  `yaml:"given"`
	Cases []policyCase `yaml:"cases"`
}

// policyGiven is what the cases take for granted of the queue, in the words of
// its settings. Nothing given is what list takes for granted of a dump.
type policyGiven struct {
	TransportRetries *bool  `yaml:"transport_retries"`
	Idempotent       bool   `yaml:"idempotent"`
	Region           string `yaml:"region"`
}

// policyCase is one message, given in one of three ways, and what is expected of
// it.
type policyCase struct {
	Name    string       `json:"case"    yaml:"case"`
	Message anyJSON      `json:"message" yaml:"message"` // as in a dump
	Body    anyJSON      `json:"body"    yaml:"body"`    // the body alone
	File    string       `json:"file"    yaml:"file"`    // a dump of one message
	Expect  policyExpect `json:"expect"  yaml:"expect"`

	line int
}

// policyExpect is what a case demands; nil demands nothing.
type policyExpect struct {
	Class       *string `json:"class"       yaml:"class"`
	Rule        *string `json:"rule"        yaml:"rule"`
	Effect      *string `json:"effect"      yaml:"effect"`
	Disposition *string `json:"disposition" yaml:"disposition"`
	Action      *string `json:"action"      yaml:"action"`
	Redrivable  *bool   `json:"redrivable"  yaml:"redrivable"`
}

// anyJSON is a value of the table as JSON, whichever way it is written.
type anyJSON []byte

// UnmarshalYAML turns any value into JSON.
func (a *anyJSON) UnmarshalYAML(node ast.Node) error {
	var v any
	if err := yaml.NodeToValue(node, &v); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return &yaml.SyntaxError{Message: "no value of JSON: " + err.Error(), Token: node.GetToken()}
	}
	*a = b
	return nil
}

// UnmarshalJSON keeps the value as it stands.
func (a *anyJSON) UnmarshalJSON(b []byte) error {
	*a = bytes.Clone(b)
	return nil
}

// errNoCases: a table without cases would pass whatever the policy says.
var errNoCases = errors.New("the table has no cases")

// readPolicyTable reads a table strictly: an unknown field, a case without a
// name, a message or an expectation, and an empty table are errors.
func readPolicyTable(name string, text []byte) (policyTable, error) {
	var t policyTable
	var err error
	if filepath.Ext(name) == ".jsonl" {
		t.Cases, err = readCaseLines(name, text)
	} else if err = classify.ReadYAML(name, text, &t); err == nil {
		err = t.numberLines(text)
	}
	if err != nil {
		return t, err
	}
	if len(t.Cases) == 0 {
		return t, fmt.Errorf("%s: %w", name, errNoCases)
	}
	return t, t.check(name)
}

// readCaseLines reads one case a line, as JSON.
func readCaseLines(name string, text []byte) ([]policyCase, error) {
	var cases []policyCase
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		c := policyCase{line: n}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		err := d.Decode(&c)
		if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// numberLines finds the line on which each case begins.
func (t *policyTable) numberLines(text []byte) error {
	var at struct {
		Cases []caseLine `yaml:"cases"`
	}
	err := yaml.Unmarshal(text, &at)
	for i := range at.Cases {
		t.Cases[i].line = int(at.Cases[i])
	}
	return err
}

// caseLine is where a value of the table begins.
type caseLine int

// UnmarshalYAML keeps the line alone.
func (l *caseLine) UnmarshalYAML(node ast.Node) error {
	*l = caseLine(node.GetToken().Position.Line)
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		*l = caseLine(m.Values[0].Key.GetToken().Position.Line)
	}
	return nil
}

func (t *policyTable) check(name string) error {
	var errs []error
	seen := map[string]int{}
	for _, c := range t.Cases {
		first, again := seen[c.Name]
		given := 0
		for _, has := range []bool{c.Message != nil, c.Body != nil, c.File != ""} {
			if has {
				given++
			}
		}
		switch {
		case c.Name == "":
			errs = append(errs, fmt.Errorf("%s:%d: the case has no name", name, c.line))
		case again:
			errs = append(errs, fmt.Errorf("%s:%d: case %q is also on line %d", name, c.line, c.Name, first))
		case given != 1:
			errs = append(errs, fmt.Errorf("%s:%d: case %q needs one of message, body and file", name, c.line, c.Name))
		case c.Expect == policyExpect{}:
			errs = append(errs, fmt.Errorf("%s:%d: case %q expects nothing", name, c.line, c.Name))
		}
		seen[c.Name] = c.line
	}
	return errors.Join(errs...)
}

// read gives the one message of the case. Files lie beside the table.
func (c policyCase) read(dir string) (broker.Message, error) {
	if c.Body != nil {
		return broker.Message{Body: bodyOf(c.Body)}, nil
	}
	in := io.Reader(bytes.NewReader(c.Message))
	if c.File != "" {
		path := c.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return broker.Message{}, fmt.Errorf("read message: %w", err)
		}
		in = bytes.NewReader(data)
	}
	var ms []broker.Message
	err := dump.Read(in, func(m broker.Message) error {
		ms = append(ms, m)
		return nil
	})
	if err == nil && len(ms) != 1 {
		err = fmt.Errorf("%d messages, a case is about one", len(ms))
	}
	if err != nil {
		return broker.Message{}, err
	}
	return ms[0], nil
}

// bodyOf is the body that a case gives: a text as it is, anything else as JSON.
func bodyOf(value []byte) []byte {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return []byte(s)
	}
	return value
}

// difference is one word of a job that is not as the case expects.
type difference struct {
	Field string `json:"field"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// compare lists what of the job is not as expected.
func (e policyExpect) compare(v jobView) []difference {
	ds := []difference{}
	for _, f := range []struct {
		name string
		want *string
		got  string
	}{
		{"class", e.Class, v.Class},
		{"rule", e.Rule, v.Rule},
		{"effect", e.Effect, v.Effect},
		{"disposition", e.Disposition, v.Disposition},
		{"action", e.Action, v.Action},
	} {
		if f.want != nil && *f.want != f.got {
			ds = append(ds, difference{f.name, *f.want, f.got})
		}
	}
	if e.Redrivable != nil && *e.Redrivable != v.Redrivable {
		ds = append(ds, difference{"redrivable", strconv.FormatBool(*e.Redrivable), strconv.FormatBool(v.Redrivable)})
	}
	return ds
}

func (d difference) String() string { return d.Field + " is " + d.Got + ", want " + d.Want }

// differencesText words what is not as expected, and why the job is as it is.
func differencesText(ds []difference, v gotView) string {
	words := make([]string, len(ds))
	for i, d := range ds {
		words[i] = d.String()
	}
	return strings.Join(words, "; ") + " (by rule " + v.Rule + ": " + v.Why + ")"
}
