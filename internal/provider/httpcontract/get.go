package httpcontract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// page is one answer, read and decoded.
type page struct {
	raw     []byte
	scope   scope
	offset  time.Duration
	records []any
}

func (p *page) success() bool { return p.scope.status >= 200 && p.scope.status <= 299 }

// get asks once. Every status that says that the question was not answered is
// an error, whatever the contract's conditions make of it.
func (c *Client) get(ctx context.Context, target string, ev *provider.Evidence) (*page, error) {
	if err := c.budget.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the provider's request budget: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.base.String(), "/")+target, nil)
	if err != nil {
		return nil, errors.New("look-up path does not make a URL")
	}
	c.authorize(req)
	sent := c.cfg.Now()
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.quiet("ask the provider", err)
	}
	defer res.Body.Close()
	ev.HTTPStatus = res.StatusCode
	p := &page{offset: offset(res, sent, c.cfg.Now())}
	if err := c.refused(res); err != nil {
		return nil, err
	}
	return p, c.read(p, res)
}

func (c *Client) authorize(req *http.Request) {
	req.Header.Set("Accept", "application/json")
	switch {
	case c.cfg.Credential == "":
	case c.cfg.CredentialHeader != "":
		req.Header.Set(c.cfg.CredentialHeader, c.cfg.Credential)
	default:
		req.Header.Set("Authorization", "Bearer "+c.cfg.Credential)
	}
}

// quiet drops what an error of net/http repeats of the request: URLs carry keys.
func (c *Client) quiet(what string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if c.cfg.Credential != "" && strings.Contains(err.Error(), c.cfg.Credential) {
		return fmt.Errorf("%s at %s: the error repeats the credential and is not shown", what, c.base.Host)
	}
	return fmt.Errorf("%s at %s: %w", what, c.base.Host, err)
}

func (c *Client) refused(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusTooManyRequests:
		until := retryAfter(res.Header.Get("Retry-After"), c.cfg.Now())
		c.budget.Pause(until)
		return fmt.Errorf("status 429: %w", &provider.ThrottledError{Until: until})
	case code >= 300 && code <= 399:
		return fmt.Errorf("status %d: a look-up follows no redirect", code)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusPaymentRequired,
		code == http.StatusProxyAuthRequired, code == http.StatusRequestTimeout, code >= 500, code < 200:
		return fmt.Errorf("status %d: the provider did not answer the question", code)
	default:
		return nil
	}
}

// retryAfter reads seconds or a date; zero when there is neither.
func retryAfter(value string, now time.Time) time.Time {
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return now.Add(time.Duration(n) * time.Second)
	}
	if t, err := http.ParseTime(value); err == nil {
		return t
	}
	return time.Time{}
}

func offset(res *http.Response, sent, received time.Time) time.Duration {
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return provider.OffsetFromDate(date, sent, received)
}

func (c *Client) read(p *page, res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBody+1))
	if err != nil {
		return c.quiet("read the answer", err)
	}
	if int64(len(raw)) > c.cfg.MaxBody {
		return fmt.Errorf("answer is larger than %d bytes", c.cfg.MaxBody)
	}
	p.raw = raw
	p.scope = scope{status: res.StatusCode, headers: map[string]string{}}
	for name, vs := range res.Header {
		p.scope.headers[strings.ToLower(name)] = vs[0]
	}
	if len(bytes.TrimSpace(raw)) == 0 && !p.success() {
		return nil
	}
	p.scope.body, err = decode(raw)
	return err
}

// decode reads one JSON value, whole numbers as int64 so that long identifiers
// stay what they are.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("answer is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("answer is not JSON: more follows its end")
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}
