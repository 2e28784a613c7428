package httpcontract_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redrivectl/redrivectl/internal/provider"
	"github.com/redrivectl/redrivectl/internal/provider/httpcontract"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// clock moves only when somebody sleeps.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.slept = c.now.Add(d), c.slept+d
	return ctx.Err()
}

func contract(c *clock, url string) httpcontract.Config {
	return httpcontract.Config{
		Name: "mail", BaseURL: url, Credential: "s3cret", Now: c.Now, Sleep: c.Sleep,
		Lookup: &httpcontract.Lookup{
			Path: "/messages?op_id={job_key}", Found: "size(body.items) > 0", NotFound: "size(body.items) == 0",
			Accepted: `item.status != "rejected"`, Bind: "item.op_id", Delay: time.Minute, LookBack: time.Hour,
			Page: &httpcontract.Page{Cursor: "next", Limit: 2},
		},
		Proves: []provider.Proof{provider.ProvesAccepted, provider.ProvesNotAccepted},
	}
}

func client(t *testing.T, cfg httpcontract.Config) *httpcontract.Client {
	t.Helper()
	c, err := httpcontract.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func fake(t *testing.T, cfg providertest.Config) (*providertest.Server, string) {
	t.Helper()
	s, err := providertest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, serve(t, s)
}

func post(t *testing.T, url, opID string) {
	t.Helper()
	res, err := http.Post(url+"/messages", "application/json", strings.NewReader(`{"op_id":"`+opID+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

func ask(c *httpcontract.Client, key string) provider.Answer {
	return c.Lookup(context.Background(), []provider.Send{{JobKey: key, From: noon.Add(-time.Hour), To: noon.Add(time.Hour)}})[0]
}

func TestLookupReadsEveryPage(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	_, url := fake(t, providertest.Config{Now: c.Now, PageLimit: 2})
	for range 5 {
		post(t, url, "k&1")
	}
	got := ask(client(t, contract(c, url)), "k&1")
	want := provider.Answer{Complete: true, Evidence: provider.Evidence{
		Endpoint: url, Query: "/messages?op_id=" + provider.Hashed("k&1"),
		From: noon.Add(-time.Hour), To: noon.Add(time.Hour), AskedAt: noon, HTTPStatus: 200, Pages: 3, Rows: 5,
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(provider.Answer{}, "Hits"), cmpopts.IgnoreFields(provider.Evidence{}, "AnswerSHA256")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	hit := provider.Hit{JobKey: "k&1", RequestID: "msg-000005", Status: provider.Accepted, Detail: "delivered"}
	if len(got.Hits) != 5 || got.Hits[4] != hit || len(got.Evidence.AnswerSHA256) != 64 {
		t.Errorf("hits %+v, hash %q", got.Hits, got.Evidence.AnswerSHA256)
	}
}

// TestFaultsAreNeverNotFound is the one promise of this package: no fault of a
// look-up reads as the absence of a record.
func TestFaultsAreNeverNotFound(t *testing.T) {
	t.Parallel()
	for _, kind := range []providertest.FaultKind{
		providertest.HangUp, providertest.Throttle, providertest.Unavailable, providertest.Forbidden,
		providertest.Malformed, providertest.Redirect, providertest.Slow,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := &clock{now: noon}
			s, url := fake(t, providertest.Config{Now: c.Now})
			s.Set(providertest.Fault{On: providertest.OnLookup, Kind: kind, For: 30 * time.Second})
			cfg := contract(c, url)
			cfg.Timeout = 200 * time.Millisecond
			cfg.Lookup.NotFound = "status != 200 || size(body.items) == 0" // as careless as can be
			got := ask(client(t, cfg), "k1")
			if got.Err == nil || got.NotFound || got.Complete {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAnswersThatProveNothing(t *testing.T) {
	t.Parallel()
	big := `{"items":[],"pad":"` + strings.Repeat("x", 4096) + `"}`
	tests := []struct {
		name   string
		status int
		body   string
		change func(*httpcontract.Config)
		err    string // empty: no error, but nothing is said either
	}{
		{"404 that no condition speaks of", 404, `{"items":[]}`, nil, "status 404"},
		{"404 as a web page", 404, `<html>`, func(c *httpcontract.Config) { c.Lookup.NotFound = "status == 404" }, "not JSON"},
		{"body too large", 200, big, func(c *httpcontract.Config) { c.MaxBody = 1024 }, "larger than 1024"},
		{"two values", 200, `{"items":[]}{}`, nil, "not JSON"},
		{"another shape", 200, `{"results":[]}`, nil, "cannot be told"},
		{
			"found and not found", 200, `{"items":[{"op_id":"k1"}]}`,
			func(c *httpcontract.Config) { c.Lookup.NotFound = "true" }, "both found and not found",
		},
		{
			"found without a record", 200, `{"items":[]}`,
			func(c *httpcontract.Config) { c.Lookup.Found, c.Lookup.NotFound = "true", "" }, "holds no record",
		},
		{"no not-found condition", 200, `{"items":[]}`, func(c *httpcontract.Config) { c.Lookup.NotFound = "" }, ""},
		{"pages in a circle", 200, `{"items":[],"next":"a"}`, nil, "in a circle"},
		{"status of another kind", 451, `{"items":[]}`, nil, "status 451"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			cfg := contract(&clock{now: noon}, url)
			if tt.change != nil {
				tt.change(&cfg)
			}
			got := ask(client(t, cfg), "k1")
			if got.NotFound || len(got.Hits) > 0 {
				t.Errorf("got %+v", got)
			}
			if tt.err == "" != (got.Err == nil) || got.Err != nil && !strings.Contains(got.Err.Error(), tt.err) {
				t.Errorf("error %v, want %q", got.Err, tt.err)
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	_, url := fake(t, providertest.Config{Now: c.Now})
	got := ask(client(t, contract(c, url)), "k1")
	if got.Err != nil || !got.NotFound || !got.Complete {
		t.Errorf("got %+v", got)
	}
	cfg := contract(c, url)
	cfg.Lookup.Path, cfg.Lookup.Bind = "/messages/{request_id}", ""
	cfg.Lookup.Found, cfg.Lookup.NotFound, cfg.Lookup.Accepted = "status == 200", "status == 404", ""
	got = client(t, cfg).Lookup(t.Context(), []provider.Send{{JobKey: "k1", RequestID: "msg-000001"}})[0]
	if got.Err != nil || !got.NotFound {
		t.Errorf("by request ID: %+v", got)
	}
	post(t, url, "k1")
	got = client(t, cfg).Lookup(t.Context(), []provider.Send{{JobKey: "k1", RequestID: "msg-000001"}})[0]
	want := []provider.Hit{{JobKey: "k1", RequestID: "msg-000001", Status: provider.Accepted, Detail: "delivered"}}
	if diff := cmp.Diff(want, got.Hits); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := ask(client(t, cfg), "k1"); got.Err == nil || !strings.Contains(got.Err.Error(), "request_id") {
		t.Errorf("without a request ID: %+v", got)
	}
}

// TestKeysThatAreNoNames: a server takes such a path for the one above it.
func TestKeysThatAreNoNames(t *testing.T) {
	t.Parallel()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"items":[]}`) }))
	cfg := contract(&clock{now: noon}, url)
	cfg.Lookup.Path, cfg.Lookup.Page = "/messages/{job_key}", nil
	for _, key := range []string{".", ".."} {
		if got := ask(client(t, cfg), key); got.Err == nil {
			t.Errorf("key %q: %+v", key, got)
		}
	}
}

func TestCutAnswers(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	s, url := fake(t, providertest.Config{Now: c.Now, PageLimit: 2})
	for range 4 {
		post(t, url, "k1")
		_ = c.Sleep(t.Context(), time.Minute)
	}
	s.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.Cut})
	cfg := contract(c, url)
	if got := ask(client(t, cfg), "k1"); got.Complete || got.Err != nil {
		t.Errorf("a page at its limit passes for complete: %+v", got)
	}
	cfg.Lookup.Path += "&from={from}&to={to}"
	got := ask(client(t, cfg), "k1")
	ids := map[string]bool{}
	for _, h := range got.Hits {
		ids[h.RequestID] = true
	}
	if !got.Complete || len(ids) != 4 {
		t.Errorf("halves: complete %v, %d records in %d pages", got.Complete, len(ids), got.Evidence.Pages)
	}
}

func TestRecordsOfOthersAreTold(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	s, url := fake(t, providertest.Config{Now: c.Now})
	post(t, url, "k2")
	s.Set(providertest.Fault{On: providertest.OnLookup, Kind: providertest.Everything})
	cfg := contract(c, url)
	cfg.Lookup.Items = "body.items.filter(i, true)"
	got := ask(client(t, cfg), "k1")
	if len(got.Hits) != 1 || got.Hits[0].JobKey != "k2" {
		t.Errorf("got %+v", got)
	}
}

func TestThrottlingIsRespected(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	var asked int
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	cl := client(t, contract(c, url))
	for range 2 {
		var throttled *provider.ThrottledError
		if got := ask(cl, "k1"); !errors.As(got.Err, &throttled) || !throttled.Until.Equal(noon.Add(time.Minute)) {
			t.Errorf("got %v", got.Err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times during the pause", asked)
	}
}

func TestBudgetSpacesRequests(t *testing.T) {
	t.Parallel()
	c := &clock{now: noon}
	_, url := fake(t, providertest.Config{Now: c.Now})
	cfg := contract(c, url)
	cfg.Interval = 200 * time.Millisecond
	client(t, cfg).Lookup(t.Context(), make([]provider.Send, 0))
	sends := []provider.Send{{JobKey: "a"}, {JobKey: "b"}, {JobKey: "c"}}
	client(t, cfg).Lookup(t.Context(), sends)
	if c.slept != 400*time.Millisecond {
		t.Errorf("slept %s", c.slept)
	}
}

func TestClockOffset(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{0, 90 * time.Second, -90 * time.Second} {
		c := &clock{now: noon}
		_, url := fake(t, providertest.Config{Now: c.Now, ClockOffset: offset})
		got := ask(client(t, contract(c, url)), "k1").ClockOffset
		if diff := (got - offset).Abs(); diff > time.Second {
			t.Errorf("offset %s measured as %s", offset, got)
		}
	}
}

func TestOnlyGetsAreSentAndSecretsStayInside(t *testing.T) {
	t.Parallel()
	var methods, auth []string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods, auth = append(methods, r.Method), append(auth, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"items":[]}`)
	}))
	cfg := contract(&clock{now: noon}, url)
	cfg.Lookup.Path += "&api_key=hidden"
	got := ask(client(t, cfg), "k1")
	if diff := cmp.Diff([]string{"GET", "Bearer s3cret"}, append(methods, auth...)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if strings.Contains(got.Evidence.Query, "hidden") {
		t.Errorf("evidence: %s", got.Evidence.Query)
	}
	cfg.BaseURL = "http://127.0.0.1:1"
	for _, path := range []string{"/x?op_id={job_key}", "/x?op_id={job_key}&token=s3cret"} {
		cfg.Lookup.Path = path
		if err := ask(client(t, cfg), "k1").Err; err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "k1") {
			t.Errorf("error %v", err)
		}
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*httpcontract.Config)
		want   string
	}{
		{"syntax", func(c *httpcontract.Config) { c.Lookup.Found = "status ==\n  & 1" }, "lookup.found, line 2 column 3"},
		{"unknown name", func(c *httpcontract.Config) { c.Lookup.NotFound = "size(bdy) == 0" }, "lookup.not_found, line 1 column 6"},
		{"no condition", func(c *httpcontract.Config) { c.Lookup.Accepted = `"yes"` }, "lookup.accepted, line 1 column 1"},
		{"placeholder", func(c *httpcontract.Config) { c.Lookup.Path = "/m?x={op_id}" }, "lookup.path, line 1 column 6"},
		{"secret in the URL", func(c *httpcontract.Config) { c.BaseURL = "https://u:p@example.com" }, "credential"},
		{"no scheme", func(c *httpcontract.Config) { c.BaseURL = "example.com" }, "http://"},
		{"proof", func(c *httpcontract.Config) { c.Proves = []provider.Proof{"all"} }, "proves"},
		{"unbound", func(c *httpcontract.Config) { c.Lookup.Path, c.Lookup.Bind = "/all", "" }, "lookup.bind"},
		{"key life", func(c *httpcontract.Config) { c.Idempotency = &httpcontract.Idempotency{Header: "X"} }, "idempotency.life"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := contract(&clock{now: noon}, "https://example.com")
			tt.change(&cfg)
			_, err := httpcontract.New(cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "u:p") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	cfg := contract(&clock{now: noon}, "https://example.com")
	cfg.Idempotency = &httpcontract.Idempotency{Header: "Idempotency-Key", MaxBytes: 255, Life: 22 * time.Hour, Scope: "account"}
	cfg.Billing = true
	want := provider.Capabilities{
		Name: "mail", KeyLife: 22 * time.Hour, KeyMaxBytes: 255, Binds: true, Delay: time.Minute, LookBack: time.Hour,
		PageLimit: 2, Proves: cfg.Proves, Billing: true,
	}
	if diff := cmp.Diff(want, client(t, cfg).Capabilities()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cfg.Lookup.NotFound = ""
	if client(t, cfg).Capabilities().Can(provider.ProvesNotAccepted) {
		t.Error("without a not-found condition no absence is proven")
	}
	cfg.Lookup.Path = "/messages/{request_id}"
	if !client(t, cfg).Capabilities().ByRequest {
		t.Error("a look-up by request ID passes for one by job")
	}
	cfg.Lookup = nil
	if got := client(t, cfg); len(got.Capabilities().Proves) != 0 || ask(got, "k1").Err == nil {
		t.Error("without a look-up nothing is proven")
	}
}
