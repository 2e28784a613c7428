package providertest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func start(t *testing.T, cfg providertest.Config) (*providertest.Server, string) {
	t.Helper()
	s, err := providertest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, srv.URL
}

// post returns the status, 0 when the provider hung up.
func post(t *testing.T, url, body, key string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header
}

func get(t *testing.T, url string) (p providertest.Page) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFaultsOfASend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault    providertest.Fault
		status   int
		accepted int
	}{
		{providertest.Fault{}, 202, 1},
		{providertest.Fault{Kind: providertest.AcceptThen500}, 500, 1},
		{providertest.Fault{Kind: providertest.AcceptThenHangUp}, 0, 1},
		{providertest.Fault{Kind: providertest.Late, For: time.Hour}, 202, 1},
		{providertest.Fault{Kind: providertest.HangUp}, 0, 0},
		{providertest.Fault{Kind: providertest.Unavailable, For: time.Minute}, 503, 0},
		{providertest.Fault{Kind: providertest.Throttle, For: time.Minute}, 429, 0},
		{providertest.Fault{Kind: providertest.Refuse}, 400, 0},
		{providertest.Fault{Kind: providertest.Refuse, Status: 422}, 422, 0},
		{providertest.Fault{Kind: providertest.Forbidden}, 403, 0},
		{providertest.Fault{Kind: providertest.Slow, For: time.Millisecond}, 202, 1},
	}
	for _, tt := range tests {
		t.Run(string(tt.fault.Kind), func(t *testing.T) {
			t.Parallel()
			plan := func(on providertest.On, _ string, nth int) providertest.Fault {
				if on == providertest.OnSend && nth == 1 {
					return tt.fault
				}
				return providertest.Fault{}
			}
			s, url := start(t, providertest.Config{Plan: plan})
			status, header := post(t, url+"/messages", `{"op_id":"a"}`, "")
			if status != tt.status || s.Accepted()["a"] != tt.accepted || len(s.Log()) != 1 {
				t.Errorf("status %d, log %+v", status, s.Log())
			}
			waits := tt.fault.Kind == providertest.Throttle || tt.fault.Kind == providertest.Unavailable
			if waits && header.Get("Retry-After") != "60" {
				t.Errorf("headers %v", header)
			}
		})
	}
}

func TestRecordsShowBetweenDelayAndRetention(t *testing.T) {
	t.Parallel()
	now := noon
	s, url := start(t, providertest.Config{
		Now: func() time.Time { return now }, Delay: time.Minute, Retention: time.Hour, Region: "eu", PageLimit: 1,
	})
	s.Set(providertest.Fault{OpID: "b", On: providertest.OnSend, Kind: providertest.Refuse, Recorded: true})
	post(t, url+"/messages", `{"op_id":"a","region":"eu"}`, "")
	post(t, url+"/messages", `{"op_id":"b","region":"eu"}`, "")
	if got := get(t, url+"/messages"); len(got.Items) != 0 {
		t.Errorf("inside the delay: %+v", got)
	}
	now = noon.Add(time.Minute)
	want := providertest.Page{Next: "1", Items: []providertest.Item{
		{ID: "msg-000001", OpID: "a", Region: "eu", Status: "delivered", At: noon},
	}}
	if diff := cmp.Diff(want, get(t, url+"/messages")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := get(t, url+"/messages?cursor=1"); len(got.Items) != 1 || got.Items[0].Status != "rejected" || got.Next != "" {
		t.Errorf("second page: %+v", got)
	}
	if got := get(t, url+"/messages?op_id=a&region=us"); len(got.Items) != 0 {
		t.Errorf("wrong region: %+v", got)
	}
	now = noon.Add(time.Hour + time.Second)
	if got := get(t, url+"/messages"); len(got.Items) != 0 {
		t.Errorf("beyond the retention: %+v", got)
	}
}

func TestKeysAreHonouredForTheirLife(t *testing.T) {
	t.Parallel()
	now := noon
	s, url := start(t, providertest.Config{Now: func() time.Time { return now }, HonourKeys: true, KeyLife: time.Hour})
	post(t, url+"/messages", `{"op_id":"a","body":"x"}`, "k")
	post(t, url+"/messages", `{"op_id":"a","body":"x"}`, "k")
	if got := s.Accepted()["a"]; got != 1 {
		t.Errorf("accepted %d times", got)
	}
	if status, _ := post(t, url+"/messages", `{"op_id":"a","body":"y"}`, "k"); status != http.StatusConflict {
		t.Errorf("another payload under the key: %d", status)
	}
	now = noon.Add(time.Hour)
	post(t, url+"/messages", `{"op_id":"a","body":"x"}`, "k")
	if got := s.Accepted()["a"]; got != 2 {
		t.Errorf("after the key's life accepted %d times", got)
	}
}

func TestTheLogOutlivesTheServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "provider.log")
	first, err := providertest.New(providertest.Config{Log: path, Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	first.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/messages", strings.NewReader(`{"op_id":"a"}`)))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":2,"op_id":"torn`); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	second, url := start(t, providertest.Config{Log: path, Now: func() time.Time { return noon }})
	if diff := cmp.Diff(first.Log(), second.Log()); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	post(t, url+"/messages", `{"op_id":"b"}`, "")
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Count(raw, []byte("\n")) != 2 || bytes.Contains(raw, []byte("torn")) {
		t.Errorf("log file: %s, %v", raw, err)
	}
}

func TestFaultsArePosted(t *testing.T) {
	t.Parallel()
	s, url := start(t, providertest.Config{})
	if status, _ := post(t, url+"/faults", `[{"op_id":"a","on":"send","kind":"accept_then_500","times":1}]`, ""); status != 200 {
		t.Fatalf("status %d", status)
	}
	for _, want := range []int{500, 202} {
		if status, _ := post(t, url+"/messages", `{"op_id":"a"}`, ""); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	if status, _ := post(t, url+"/messages", `{}`, ""); status != 400 || len(s.Log()) != 2 {
		t.Errorf("a message without op_id: %d, log %+v", status, s.Log())
	}
}
