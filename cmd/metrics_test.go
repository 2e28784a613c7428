package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/metrics"
	"github.com/redrivectl/redrivectl/internal/store"
	"github.com/redrivectl/redrivectl/redrive"
)

// metricRow is the row of docs/metrics.md for a figure.
func metricRow(d metrics.Definition) string {
	labels := make([]string, len(d.Labels))
	for i, l := range d.Labels {
		labels[i] = "`" + l + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", d.Name, d.Kind, strings.Join(labels, ", "), d.Help)
}

// TestMetricsPage: docs/metrics.md has a row for each figure, word for word, and
// none for another.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	page := readFile(t, "../docs/metrics.md")
	known := map[string]bool{}
	for _, d := range metricDefinitions() {
		known[metricRow(d)] = true
		if !strings.Contains(page, metricRow(d)+"\n") {
			t.Errorf("no row\n%s", metricRow(d))
		}
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "| `redrivectl_") && !known[line] {
			t.Errorf("no figure is\n%s", line)
		}
	}
}

// metricsWorld is a config with one empty queue; nothing is kept yet.
func metricsWorld(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	f, err := local.Open(filepath.Join(dir, "queue.db"), local.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []local.QueueConfig{{Name: "digests-dlq"}, {Name: "digests", DeadLetter: "digests-dlq"}} {
		if err := f.CreateQueue(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "redrivectl.yaml")
	if err := os.WriteFile(path, []byte("queues: {digests: {source: digests}}\nstore: {path: store.db}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMetricsListen: figures are served until the command is interrupted, which
// is no failure.
func TestMetricsListen(t *testing.T) {
	t.Parallel()
	path := metricsWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	told, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, Env{
			Args: []string{"metrics", "--config", path, "--listen", ":0"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr,
			Now: time.Now, Getenv: func(name string) string { return map[string]string{"HOME": filepath.Dir(path)}[name] },
		})
	}()
	line, err := bufio.NewReader(told).ReadString('\n')
	url := strings.TrimSpace(strings.TrimPrefix(line, "serving "))
	if err != nil || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("it says %q, %v", line, err)
	}
	status, kind, body := scrape(t, http.MethodGet, url)
	if status != http.StatusOK || kind != "text/plain; version=0.0.4; charset=utf-8" ||
		!strings.Contains(body, `redrivectl_quarantined_copies{queue="digests",state="visible"} 0`) ||
		!strings.Contains(body, `redrivectl_source_up{queue="digests",source="store"} 0`) {
		t.Errorf("%d, %s\n%s", status, kind, body)
	}
	for want, ask := range map[int][2]string{
		http.StatusOK:               {http.MethodHead, url},
		http.StatusMethodNotAllowed: {http.MethodPost, url},
		http.StatusNotFound:         {http.MethodGet, strings.TrimSuffix(url, "/metrics")},
	} {
		if got, _, _ := scrape(t, ask[0], ask[1]); got != want {
			t.Errorf("%v: %d, want %d", ask, got, want)
		}
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("interrupted, it ends with %d", code)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("it serves on")
	}
}

func scrape(t *testing.T, method, url string) (status int, kind, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// TestScrapeFloor: within the floor interval everybody gets the same figures, and
// the sources are asked once; a collection that failed is no answer.
func TestScrapeFloor(t *testing.T) {
	t.Parallel()
	now, asked, fault := time.Unix(1000, 0), 0, error(nil)
	var told []error
	h := &scrapes{
		ctx: t.Context(), now: func() time.Time { return now }, floor: 15 * time.Second,
		collect: func(context.Context) (*metrics.Set, error) {
			asked++
			s := metrics.NewSet(metricDefinitions())
			s.Add("redrivectl_audit_records_total", float64(asked))
			return s, fault
		},
		fault: func(err error) { told = append(told, err) },
	}
	for _, step := range []struct {
		after time.Duration
		fault error
		code  int
		total string // of the record counter; empty: not looked at
	}{
		{0, nil, 200, "_total 1\n"},
		{14 * time.Second, nil, 200, "_total 1\n"},
		{time.Second, nil, 200, "_total 2\n"},
		{15 * time.Second, errors.New("secret detail"), 500, ""},
		{0, nil, 200, "_total 4\n"},
		{-time.Hour, nil, 200, "_total 5\n"}, // a clock that was set back keeps nothing old
	} {
		now, fault = now.Add(step.after), step.fault
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if w.Code != step.code || !strings.Contains(w.Body.String(), step.total) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%+v: %d\n%s", step, w.Code, w.Body)
		}
	}
	if asked != 5 || len(told) != 1 {
		t.Errorf("asked %d times, told %v", asked, told)
	}
}

// TestMetricsCountALookOnce: a kept look is counted once, until a newer one is
// kept or its store is gone.
func TestMetricsCountALookOnce(t *testing.T) {
	t.Parallel()
	path := metricsWorld(t)
	a := newApp(Env{Now: time.Now, Stderr: io.Discard, Getenv: func(name string) string {
		return map[string]string{"HOME": filepath.Dir(path)}[name]
	}})
	a.configPath = path
	c, err := (&metricsOptions{app: a, window: time.Hour}).collector()
	if err != nil {
		t.Fatal(err)
	}
	collect := func() *lookSeen {
		t.Helper()
		if _, err := c.collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c.looks["digests"]
	}
	if seen := collect(); seen != nil {
		t.Errorf("%+v was counted", seen)
	}
	st, err := store.Open(t.Context(), filepath.Join(filepath.Dir(path), "store.db"), store.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(at time.Time, jobs ...job.Job) {
		t.Helper()
		w, err := st.NewCapture(t.Context(), "digests", at)
		if err == nil {
			err = errors.Join(w.Add(t.Context(), jobs...), w.Finish(t.Context(), redrive.Capture{Queue: "digests", CapturedAt: at, Complete: true}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	keep(time.Now().Add(-time.Minute), job.Job{JobKey: "a"}, job.Job{JobKey: "b"})
	first := collect()
	if first == nil || first.n != 2 || collect() != first {
		t.Errorf("%+v, then %+v", first, collect())
	}
	keep(time.Now(), job.Job{JobKey: "a"})
	if next := collect(); next == first || next.n != 1 {
		t.Errorf("%+v", next)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// costly is a broker whose looks count as receives, and must not be made.
type costly struct {
	broker.Broker
	t *testing.T
}

func (c costly) Capabilities() broker.Capabilities { return broker.Capabilities{FreePeek: false} }

func (c costly) Browse(context.Context, int, func(broker.Message) error) (broker.Completeness, error) {
	c.t.Error("a look was made that counts as a receive")
	return broker.Completeness{}, nil
}

// TestMetricsLookIsFree: --look makes no look that counts as a receive.
func TestMetricsLookIsFree(t *testing.T) {
	t.Parallel()
	a := newApp(Env{Now: time.Now})
	a.cfg = &config.Config{}
	m := &queueMetrics{
		collector: &collector{app: a, look: true}, set: metrics.NewSet(metricDefinitions()), name: "q",
		queue: &queue{name: "q", broker: costly{t: t}},
	}
	if _, err := m.lookFigures(t.Context(), broker.Description{LookCounts: true}); !errors.Is(err, errNoLook) {
		t.Errorf("%v", err)
	}
}

// TestAuditTally: a publish, a close and an approval are each counted for what
// they are, and a word that the program does not know is counted as other.
func TestAuditTally(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	tally := auditTally{approved: map[string]time.Time{}, queues: map[string]*queueTally{}}
	run := func(action, step, result, reason string) audit.Record {
		return audit.Record{
			Time: at.Add(90 * time.Second), Run: "r", Plan: "p", Queue: "q", CopyID: "c", Action: action, Step: step,
			Phase: audit.Outcome, Result: result, Reason: reason,
		}
	}
	intent := run("redrive", "", "", "")
	intent.Phase = audit.Intent
	for _, r := range []audit.Record{
		{Time: at.Add(-time.Hour), Action: "approve", Plan: "p", Queue: "q", Phase: audit.Outcome},
		{Time: at, Action: "approve", Plan: "p", Queue: "q", Phase: audit.Outcome}, // the last one counts
		intent,
		run("redrive", audit.StepPublish, audit.ResultDone, ""),
		run("redrive", audit.StepAck, audit.ResultUnknown, ""), // closes nothing
		run("redrive", audit.StepAck, audit.ResultDone, ""),
		run("settle", audit.StepAck, audit.ResultDone, ""),
		run("redrive", audit.StepClose, audit.ResultHeld, "row_sent"),
		run("redrive", audit.StepClose, audit.ResultSkipped, "changed_ledger"),
		run("redrive", audit.StepClose, "a word of a later version", "x"),
		{Time: at, Action: "reconcile", Queue: "q", Phase: audit.Outcome, Step: audit.StepLedger, Result: audit.ResultDone}, // no run's
	} {
		tally.add(r)
	}
	set := metrics.NewSet(metricDefinitions())
	tally.put(set, "q")
	var got strings.Builder
	if err := set.Write(&got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`closed_items_total{queue="q",result="redriven"} 1`, `closed_items_total{queue="q",result="settled"} 1`,
		`closed_items_total{queue="q",result="held"} 1`, `closed_items_total{queue="q",result="skipped"} 1`,
		`closed_items_total{queue="q",result="other"} 1`, `closed_items_total{queue="q",result="discarded"} 0`,
		`publishes_total{queue="q",result="done"} 1`, `publishes_total{queue="q",result="unknown"} 0`,
		`duplicates_prevented_total{queue="q"} 2`, `approval_to_close_seconds_sum{queue="q"} 450`,
		`approval_to_close_seconds_bucket{queue="q",le="60"} 0`, `approval_to_close_seconds_bucket{queue="q",le="300"} 5`,
	} {
		if !strings.Contains(got.String(), "redrivectl_"+want+"\n") {
			t.Errorf("no %s in\n%s", want, got.String())
		}
	}
}

// TestOrphaned: only a row that was past its deadline when a whole look was made,
// with no copy in it, is one that nobody will finish.
func TestOrphaned(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	look := &lookSeen{at: at, complete: true, keys: map[string]bool{"seen": true}}
	row := func(key string, state ledger.State, ago time.Duration) ledger.Row {
		return ledger.Row{
			Key: ledger.Key{JobKey: key}, State: state, ClaimedAt: at.Add(-ago), UpdatedAt: at.Add(-ago), SendDeadline: at.Add(30*time.Second - ago),
		}
	}
	late := row("late", ledger.Sending, time.Hour)
	late.LateAccept = true
	for name, c := range map[string]struct {
		look *lookSeen
		row  ledger.Row
		want bool
	}{
		"past its deadline":    {look, row("gone", ledger.Sending, time.Hour), true},
		"left fenced":          {look, row("gone", ledger.Fenced, time.Second), true},
		"before its deadline":  {look, row("gone", ledger.Sending, time.Second), false},
		"claimed after":        {look, row("gone", ledger.Sending, -time.Minute), false},
		"fenced after":         {look, row("gone", ledger.Fenced, -time.Minute), false},
		"has a copy":           {look, row("seen", ledger.Sending, time.Hour), false},
		"queued":               {look, row("gone", ledger.Queued, time.Hour), false},
		"sent after all":       {look, late, false},
		"no look":              {nil, row("gone", ledger.Sending, time.Hour), false},
		"a look that was part": {&lookSeen{at: at}, row("gone", ledger.Sending, time.Hour), false},
	} {
		if got := c.look.orphaned(c.row, time.Minute); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
