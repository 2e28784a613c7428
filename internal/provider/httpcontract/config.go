// Package httpcontract asks a provider over HTTP by a contract written down in
// the configuration: where to look, and which answer means found, not found and
// accepted. It only ever sends GET. Whatever goes wrong is the error of a
// look-up or an incomplete answer, and never a "not found".
package httpcontract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// Config mirrors the keys of a provider in the configuration file, its secrets
// resolved. Zero durations and counts take the defaults named beside them.
type Config struct {
	Name    string
	BaseURL string // http or https, without user, query and fragment
	// Credential is sent as a bearer token, or as it is in CredentialHeader
	// where that is named. It never appears in an error or in evidence.
	Credential       string
	CredentialHeader string

	Idempotency *Idempotency // nil: no key of ours is honoured
	Lookup      *Lookup      // nil: nothing can be asked
	// Interval is the least time between two requests; 0: no limit.
	Interval time.Duration
	Proves   []provider.Proof
	Billing  bool
	// Region and Account are what this endpoint answers for; a send of another
	// is not asked about here. Empty: any.
	Region, Account string

	Timeout time.Duration // of one request; 0: 30 s
	MaxBody int64         // bytes of one answer; 0: 8 MiB

	// Transport sends the requests; nil: one that opens a connection for each,
	// since a reused one repeats a GET by itself.
	Transport http.RoundTripper
	Now       func() time.Time                                 // nil: time.Now
	Sleep     func(ctx context.Context, d time.Duration) error // nil: by the real clock
}

// Idempotency says how the provider honours the job key.
type Idempotency struct {
	Header   string
	MaxBytes int // 0: no limit
	Life     time.Duration
	Scope    string // "account" or empty
}

// Lookup is the contract of one look-up. Path holds the placeholders {job_key},
// {request_id}, {from} and {to} (RFC 3339 in UTC), each URL-escaped. Found,
// NotFound and Items are CEL over status, headers and body; Accepted, Bind and
// RequestID over item as well.
type Lookup struct {
	Path     string
	Found    string
	NotFound string // empty: a no is never said, so nothing is proven by one
	Accepted string // empty: every record found was accepted
	// Items is the list of records; empty: body.items where there is one, else
	// the body as one record.
	Items string
	// Bind is the job key that a record carries; empty: the records of an
	// answer to a path with {job_key} or {request_id} are bound by the question.
	Bind string
	// RequestID of a record; empty: its id, message_id or sid.
	RequestID string
	// Delay is how late a record may become visible; negative: not documented.
	Delay    time.Duration
	LookBack time.Duration // 0: not documented
	Page     *Page         // nil: the answer is whole
}

// Page says how a long answer goes on.
type Page struct {
	Cursor string // the field of the body with the next page's cursor, dots for depth
	Param  string // the query parameter it is sent in; empty: named as the field
	Limit  int    // rows in one page: one with so many and no cursor may be cut; 0: not known
}

const (
	defaultTimeout = 30 * time.Second
	defaultMaxBody = 8 << 20
	maxPages       = 1000
)

func (c *Config) setDefaults() {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = provider.Sleep
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{DisableKeepAlives: true}
	}
}

func (c *Config) check() (*url.URL, error) {
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return nil, errors.New("base_url is not a URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("base_url must begin with http:// or https:// and name a host")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("base_url must hold no user, query or fragment: secrets go in credential")
	}
	return base, errors.Join(c.checkNumbers(), c.Idempotency.check(), c.Lookup.check())
}

func (c *Config) checkNumbers() error {
	if c.Timeout < 0 || c.MaxBody < 0 || c.Interval < 0 {
		return errors.New("time-out, body limit and request budget must not be negative")
	}
	for _, p := range c.Proves {
		switch p {
		case provider.ProvesAccepted, provider.ProvesNotAccepted, provider.ProvesRejected:
		default:
			return fmt.Errorf("proves: %q is not accepted, not_accepted or rejected", p)
		}
	}
	return nil
}

func (i *Idempotency) check() error {
	switch {
	case i == nil:
		return nil
	case i.Header == "":
		return errors.New("idempotency.header is missing")
	case i.Life <= 0 || i.MaxBytes < 0:
		return errors.New("idempotency.life must be above zero, and max_bytes not below")
	case i.Scope != "" && i.Scope != "account":
		return fmt.Errorf("idempotency.scope: %q is not account", i.Scope)
	}
	return nil
}

func (l *Lookup) check() error {
	switch {
	case l == nil:
		return nil
	case !strings.HasPrefix(l.Path, "/"):
		return errors.New("lookup.path must begin with /")
	case l.Found == "":
		return errors.New("lookup.found is missing")
	case l.LookBack < 0:
		return errors.New("lookup.look_back must not be negative")
	case l.Page != nil && (l.Page.Limit < 0 || l.Page.Limit == 0 && l.Page.Cursor == ""):
		return errors.New("lookup.page needs a cursor, or a limit above zero")
	}
	return nil
}
