package cmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
	"github.com/redrivectl/redrivectl/internal/worker"
)

func TestDemoAmountsAddUp(t *testing.T) {
	t.Parallel()
	ss := demoScenarios()
	for _, n := range []int{len(ss), len(ss) + 1, 40, 240, 5000, 100000} {
		sum := 0
		for i, amount := range demoAmounts(n, ss) {
			if amount < 1 || ss[i].most > 0 && amount > ss[i].most {
				t.Errorf("%d jobs: scenario %d gets %d", n, i, amount)
			}
			sum += amount
		}
		if sum != n {
			t.Errorf("%d jobs: %d are dealt", n, sum)
		}
	}
}

func TestDemoDeal(t *testing.T) {
	t.Parallel()
	all := cmp.AllowUnexported(demoJob{})
	first := dealDemo(240, 7)
	if diff := cmp.Diff(first, dealDemo(240, 7), all); diff != "" {
		t.Errorf("the same seed deals otherwise:\n%s", diff)
	}
	if cmp.Equal(first, dealDemo(240, 8), all) {
		t.Error("another seed deals the same")
	}
	keys := map[string]bool{}
	failing := 0
	regions := map[demoPhase]map[string]int{}
	for phase, js := range first {
		regions[phase] = map[string]int{}
		for _, j := range js {
			if keys[j.key] {
				t.Errorf("job key %s occurs twice", j.key)
			}
			keys[j.key] = true
			regions[phase][j.region]++
		}
		if phase != demoBefore && phase != demoAfter {
			failing += len(js)
		}
	}
	if failing != 240 {
		t.Errorf("%d jobs are to fail, want 240", failing)
	}
	for phase, n := range regions {
		if len(n) != 2 {
			t.Errorf("phase %d touches %d regions: %v", phase, len(n), n)
		}
	}
}

// What the demo's application writes into its ledger is what a reader of its
// messages finds.
func TestDemoMessages(t *testing.T) {
	t.Parallel()
	for _, js := range dealDemo(240, 1) {
		for _, j := range js {
			m, err := j.message()
			if err != nil {
				t.Fatal(err)
			}
			row, read := j.row(m), job.Decode(m, demoQueue)
			if row.PayloadSHA256 != read.PayloadSHA256 || read.Malformed != j.broken || j.nameless != (read.JobKey == "") {
				t.Errorf("job %+v reads as %+v", j, read)
			}
			if !j.broken && (read.JobKey != j.key || read.Version != j.version || read.Region != j.region || read.DecodeError != "") {
				t.Errorf("job %+v reads as %+v", j, read)
			}
		}
	}
}

func TestDemoPolicy(t *testing.T) {
	t.Parallel()
	text, err := demoPolicy(classify.DefaultYAML())
	if err != nil {
		t.Fatal(err)
	}
	p, err := classify.Load("policy.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Retry()
	if r.Budget != 3 || r.Cap.Milliseconds() != 100 || r.Base.Milliseconds() != 20 {
		t.Errorf("retry policy %+v", r)
	}
	if got := p.Of(classify.Throttled, "").MaxAge; got != demoMaxAge {
		t.Errorf("maximum age %s, want %s", got, demoMaxAge)
	}
	if _, err := demoPolicy([]byte("policy: redrivectl/v1\n")); err == nil {
		t.Error("a policy without the lines to change is taken")
	}
}

// untouchable is a sender that nothing may reach.
type untouchable struct{ t *testing.T }

func (u untouchable) Send(context.Context, worker.Request) (string, error) {
	u.t.Error("a job that the worker cannot read was sent")
	return "", nil
}

func TestDemoHandlerRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		content string
		want    classify.Class
	}{
		{`{"kind":"weekly_digest","schema_version":"9","text":{}}`, classify.SchemaMismatch},
		{`{"kind":"price_alert","schema_version":"2","text":{}}`, classify.NotSupported},
		{`{"kind":`, classify.Malformed},
	} {
		_, err := demoHandler{next: untouchable{t}}.Send(t.Context(), worker.Request{Content: []byte(c.content)})
		var f *worker.Failure
		if !errors.As(err, &f) || f.Class != c.want || f.Effect != classify.EffectNone {
			t.Errorf("%s: %v, want %s and no effect", c.content, err, c.want)
		}
	}
}

func TestDemoDecodeRefusesWhatHasNoKey(t *testing.T) {
	t.Parallel()
	decode := demoDecode(demoConsumer)
	for _, body := range []string{`{"format":"redrivectl/v1","job_`, `{"hello":"world"}`} {
		if w, err := decode(broker.Message{Body: []byte(body)}); err == nil {
			t.Errorf("%s is read as %+v", body, w)
		}
	}
}

func TestReadOutage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outage.json")
	if err := os.WriteFile(path, []byte(`[{"op_id":"a","on":"send","kind":"throttle"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := readOutage(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []providertest.FaultKind{
		plan(providertest.OnSend, "a", 1).Kind, plan(providertest.OnSend, "a", 2).Kind,
		plan(providertest.OnLookup, "a", 1).Kind, plan(providertest.OnSend, "b", 1).Kind,
	}
	want := []providertest.FaultKind{providertest.Throttle, providertest.Throttle, "", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if plan, err := readOutage(""); plan != nil || err != nil {
		t.Errorf("no file: %v", err)
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"plain-1/x,y:z": "plain-1/x,y:z", "": `""`, "two words": `"two words"`,
		"it's": `"it's"`, `say "$x"`: `'say "$x"'`, "it's $x": `'it'\''s $x'`,
	} {
		if got := shellQuote(arg); got != want {
			t.Errorf("%q is quoted as %s, want %s", arg, got, want)
		}
	}
}
