package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

func request() Request {
	return Request{Key: ledger.Key{JobKey: "job-1"}, Attempt: 2, Account: "a", Region: "eu", Content: []byte("hello")}
}

// proof is what is compared of a failure.
type proof struct {
	Class      classify.Class
	Effect     classify.Effect
	Code       string
	Retryable  bool
	RetryAfter time.Duration
}

func proofOf(err error) proof {
	if err == nil {
		return proof{}
	}
	f := failure(err)
	return proof{f.Class, f.Effect, f.Code, f.Retryable, f.RetryAfter}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	none, unknown := classify.EffectNone, classify.EffectUnknown
	for code, want := range map[int]proof{
		200: {}, 202: {},
		302: {classify.Unknown, unknown, "302", false, 0},
		400: {classify.RejectedPayload, none, "400", false, 0},
		401: {classify.Auth, none, "401", false, 0},
		403: {classify.Auth, none, "403", false, 0},
		404: {classify.InvalidDestination, none, "404", false, 0},
		405: {classify.NotSupported, none, "405", false, 0},
		408: {classify.Timeout, unknown, "408", false, 0},
		409: {classify.Unknown, unknown, "409", false, 0},
		410: {classify.InvalidDestination, none, "410", false, 0},
		413: {classify.RejectedPayload, none, "413", false, 0},
		422: {classify.RejectedPayload, none, "422", false, 0},
		429: {classify.Throttled, none, "429", true, 7 * time.Second},
		500: {classify.ServerError, unknown, "500", false, 0},
		501: {classify.NotSupported, none, "501", false, 0},
		503: {classify.ServerError, unknown, "503", false, 0},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		}))
		_, err := (&HTTP{BaseURL: srv.URL, Client: NewClient()}).Send(t.Context(), request())
		srv.Close()
		if d := cmp.Diff(want, proofOf(err)); d != "" {
			t.Errorf("%d:\n%s", code, d)
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var got, auth, idem string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, auth, idem = r.Method+" "+r.URL.Path+" "+string(b), r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key")
		_, _ = io.WriteString(w, `{"id":"m-1"}`)
	}))
	defer srv.Close()
	h := &HTTP{BaseURL: srv.URL + "/", Token: "t", Client: NewClient()}
	id, err := h.Send(t.Context(), request())
	if err != nil || id != "m-1" {
		t.Errorf("id %q, %v", id, err)
	}
	want := `POST /messages {"op_id":"job-1","account":"a","region":"eu","attempt":2,"content":"hello"}`
	if got != want || auth != "Bearer t" || idem != "" {
		t.Errorf("got %s, authorization %q, idempotency %q", got, auth, idem)
	}
	h.IdempotencyHeader = "Idempotency-Key"
	if _, err := h.Send(t.Context(), request()); err != nil || idem != "job-1" {
		t.Errorf("idempotency key %q, %v", idem, err)
	}
}

func TestNoConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url := "http://" + l.Addr().String()
	must(t, l.Close())
	_, err = (&HTTP{BaseURL: url, Client: NewClient()}).Send(t.Context(), request())
	want := proof{classify.Unavailable, classify.EffectNone, "not_connected", true, 0}
	if d := cmp.Diff(want, proofOf(err)); d != "" {
		t.Error(d)
	}
}

// TestCutConnection: whatever header the request carries, a connection that is
// cut gives one request and an unknown outcome.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	var sends atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1); sends.Load() == 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer srv.Close()
	h := &HTTP{BaseURL: srv.URL, IdempotencyHeader: "Idempotency-Key", Client: NewClient()}
	if _, err := h.Send(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	_, err := h.Send(t.Context(), request())
	want := proof{classify.Timeout, classify.EffectUnknown, "reset", false, 0}
	if d := cmp.Diff(want, proofOf(err)); d != "" {
		t.Error(d)
	}
	if n := sends.Load(); n != 2 {
		t.Errorf("two sends made %d requests", n)
	}
}

func TestSendDeadline(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := (&HTTP{BaseURL: srv.URL, Client: NewClient()}).Send(ctx, request())
	if p := proofOf(err); p.Class != classify.Timeout || p.Effect != classify.EffectUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", p, err)
	}
}
