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

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/config"
	"github.com/redrivectl/redrivectl/internal/metrics"
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

// TestMetricsListen: figures are served until the command is interrupted, which
// is no failure.
func TestMetricsListen(t *testing.T) {
	t.Parallel()
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
	path := filepath.Join(dir, "redrivectl.yaml")
	if err := os.WriteFile(path, []byte("queues: {digests: {source: digests}}\nstore: {path: store.db}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	told, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, Env{
			Args: []string{"metrics", "--config", path, "--listen", ":0"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr,
			Now: time.Now, Getenv: func(name string) string { return map[string]string{"HOME": dir}[name] },
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
	if _, err := http.Get(url); err == nil { //nolint:noctx // It is refused at once.
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
