package cmd

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/reconcile"
	"github.com/redrivectl/redrivectl/redrive"
)

// exposition [-all] [WORD...] holds the last output against the definitions: it is
// in the text format, every figure is one of them, with its help, kind and labels,
// and every label's value is a word of this program, a class of the shipped
// policy, or one of the given words (queues, declared regions and versions). With
// -all every figure is there.
func scriptExposition(ts *testscript.TestScript, neg bool, args []string) {
	all := len(args) > 0 && args[0] == "-all"
	if all {
		args = args[1:]
	}
	if neg {
		ts.Fatalf("usage: exposition [-all] [WORD...]")
	}
	families := readExposition(ts)
	known := labelWords(ts, args)
	for _, d := range metricDefinitions() {
		f, ok := families[d.Name]
		if !ok {
			if all {
				ts.Fatalf("no %s", d.Name)
			}
			continue
		}
		delete(families, d.Name)
		if f.GetHelp() != d.Help || strings.ToLower(f.GetType().String()) != string(d.Kind) {
			ts.Fatalf("%s is a %s: %s", d.Name, f.GetType(), f.GetHelp())
		}
		checkSeries(ts, d, f, known)
	}
	for name := range families {
		ts.Fatalf("%s is not defined", name)
	}
}

func readExposition(ts *testscript.TestScript) map[string]*dto.MetricFamily {
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(ts.ReadFile("stdout")))
	ts.Check(err)
	if len(families) == 0 {
		ts.Fatalf("no figures")
	}
	return families
}

func checkSeries(ts *testscript.TestScript, d metrics.Definition, f *dto.MetricFamily, known map[string]bool) {
	for _, m := range f.GetMetric() {
		var names []string
		for _, l := range m.GetLabel() {
			names = append(names, l.GetName())
			if !known[l.GetValue()] {
				ts.Fatalf("%s: label %s has the value %q, which nobody declared", d.Name, l.GetName(), l.GetValue())
			}
		}
		if !slices.Equal(names, d.Labels) {
			ts.Fatalf("%s has the labels %v", d.Name, names)
		}
	}
}

// labelWords are all values that labels may have.
func labelWords(ts *testscript.TestScript, more []string) map[string]bool {
	policy, err := classify.Default()
	ts.Check(err)
	words := setOf(more)
	for _, c := range policy.Classes() {
		words[string(c)] = true
	}
	for _, list := range [][]string{
		closings, publishings,
		{"other", "none", "visible", "in_flight", "delayed", "redrive", "settle", "discard", "hold"},
		{sourceBroker, sourceCapture, sourceLedger, sourceStore},
		{"1xx", "2xx", "3xx", "4xx", "5xx", "50", "95", "100"},
		{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10+"},
	} {
		maps.Copy(words, setOf(list))
	}
	for _, s := range pendingStates {
		words[string(s)] = true
	}
	for _, s := range redrive.PlanStates() {
		words[string(s)] = true
	}
	for _, s := range append(redrive.RunStates(), runDead) {
		words[string(s)] = true
	}
	for _, v := range reconcile.AllVerdicts() {
		words[string(v)] = true
	}
	return words
}

// quiet QUEUE FILE... demands that no text of the JSON files (lines or documents)
// is in a label of the last output, nor a part of one, but for the words that a
// label may have.
func scriptQuiet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: quiet QUEUE FILE...")
	}
	values := strings.Join(labelValue.FindAllString(ts.ReadFile("stdout"), -1), "\n")
	texts := map[string]bool{}
	words := strings.Join(slices.Sorted(maps.Keys(labelWords(ts, args[:1]))), "\n")
	for _, name := range args[1:] {
		for d := json.NewDecoder(strings.NewReader(ts.ReadFile(name))); d.More(); {
			var v any
			ts.Check(d.Decode(&v))
			leaves(v, texts)
		}
	}
	if len(texts) < 20 {
		ts.Fatalf("only %d texts in %v", len(texts), args)
	}
	for secret := range texts {
		if !strings.Contains(words, secret) && strings.Contains(values, secret) {
			ts.Fatalf("%q is in the output", secret)
		}
	}
}

// labelValue is a label's value as the text format writes it.
var labelValue = regexp.MustCompile(`="(?:[^"\\]|\\.)*"`)

// wordy is a part of a text that would betray it: shorter ones occur by chance.
var wordy = regexp.MustCompile(`[\pL\pN_:.@-]{6,}`)

// leaves gathers the texts in a JSON value, whole and in their parts.
func leaves(v any, into map[string]bool) {
	switch v := v.(type) {
	case string:
		for _, part := range wordy.FindAllString(v, -1) {
			into[part] = true
		}
	case []any:
		for _, e := range v {
			leaves(e, into)
		}
	case map[string]any:
		for _, e := range v {
			leaves(e, into)
		}
	}
}
