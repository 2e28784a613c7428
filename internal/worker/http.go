package worker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/classify"
)

// maxAnswer bounds what is read of the provider's answer.
const maxAnswer = 64 << 10

// HTTP sends to a provider with the generic HTTP contract: one POST to
// BaseURL/messages that carries the job key as op_id.
type HTTP struct {
	BaseURL string
	Token   string // sent as a bearer token; empty: none
	// IdempotencyHeader carries the job key where the provider honours it as an
	// idempotency key. It stays empty elsewhere: Go's transport sends a POST with
	// such a header a second time by itself, which only an honoured key makes
	// harmless.
	IdempotencyHeader string
	Client            *http.Client // from NewClient
}

// NewClient makes a client that sends a request at most once: no connection is
// used twice, so there is no stale one to send again on, and no redirect is
// followed.
func NewClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: false},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// message is the body of the POST.
type message struct {
	OpID    string `json:"op_id"`
	Account string `json:"account,omitempty"`
	Region  string `json:"region,omitempty"`
	Attempt int    `json:"attempt"`
	Content string `json:"content"` // the rendering, base64 where it is no UTF-8
	Base64  bool   `json:"base64,omitempty"`
}

// Send makes the one request. The caller's context bounds it.
func (h *HTTP) Send(ctx context.Context, r Request) (string, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := h.request(ctx, r)
	if err != nil {
		return "", &Failure{Class: classify.RejectedPayload, Effect: classify.EffectNone, Code: "no_request", Err: err}
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return "", unanswered(err, connected.Load())
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up; nothing is lost
	// The status line alone decides: a cut body does not undo an acceptance.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	id := requestID(resp, body)
	return id, refused(resp, id)
}

func (h *HTTP) request(ctx context.Context, r Request) (*http.Request, error) {
	body, err := json.Marshal(messageOf(r))
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(h.BaseURL, "/")+"/messages", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.GetBody = nil // without it the transport cannot send the body again
	req.Header.Set("Content-Type", "application/json")
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	if h.IdempotencyHeader != "" {
		req.Header.Set(h.IdempotencyHeader, r.Key.JobKey)
	}
	return req, nil
}

// unanswered is a request without a status. Without a connection nothing can
// have been sent; with one, anything can.
func unanswered(err error, connected bool) *Failure {
	if !connected {
		return &Failure{Class: classify.Unavailable, Effect: classify.EffectNone, Code: "not_connected", Retryable: true, Err: err}
	}
	f := &Failure{Class: classify.Timeout, Effect: classify.EffectUnknown, Code: "reset", Err: err}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		f.Code = "timeout"
	}
	return f
}

// refused is what a status proves; nil when the provider accepted. Answers from
// 500 on prove nothing but for 501, and neither do those that may speak of
// another request in flight (409) or of no answer in time (408).
func refused(resp *http.Response, id string) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := &Failure{Effect: classify.EffectNone, Code: strconv.Itoa(code), RequestID: id, Err: fmt.Errorf("provider answered %d", code)}
	switch {
	case code == http.StatusTooManyRequests:
		f.Class, f.Retryable, f.RetryAfter = classify.Throttled, true, retryAfter(resp)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		f.Class = classify.Auth
	case code == http.StatusNotFound || code == http.StatusGone:
		f.Class = classify.InvalidDestination
	case code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented:
		f.Class = classify.NotSupported
	case code == http.StatusRequestTimeout:
		f.Class, f.Effect = classify.Timeout, classify.EffectUnknown
	case code >= 400 && code < 500 && code != http.StatusConflict:
		f.Class = classify.RejectedPayload
	case code >= 500:
		f.Class, f.Effect = classify.ServerError, classify.EffectUnknown
	default:
		f.Class, f.Effect = classify.Unknown, classify.EffectUnknown
	}
	return f
}

// retryAfter reads seconds or a date; what it cannot read is no wish.
func retryAfter(resp *http.Response) time.Duration {
	v := resp.Header.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	now, errNow := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || errNow != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}

// requestID is the provider's name for the request: a header, or a member of
// the answer.
func requestID(resp *http.Response, body []byte) string {
	var a struct {
		ID        string `json:"id"`
		MessageID string `json:"message_id"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &a) != nil {
		a.ID, a.MessageID, a.RequestID = "", "", ""
	}
	for _, id := range []string{a.ID, a.MessageID, a.RequestID, resp.Header.Get("X-Message-Id"), resp.Header.Get("X-Request-Id")} {
		if id != "" {
			return id
		}
	}
	return ""
}

func messageOf(r Request) message {
	m := message{OpID: r.Key.JobKey, Account: r.Account, Region: r.Region, Attempt: r.Attempt, Content: string(r.Content)}
	if !utf8.Valid(r.Content) {
		m.Content, m.Base64 = base64.StdEncoding.EncodeToString(r.Content), true
	}
	return m
}
