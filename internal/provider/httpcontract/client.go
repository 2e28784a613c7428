package httpcontract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// Client is a provider.Provider by contract.
type Client struct {
	cfg    Config
	base   *url.URL
	path   path
	rules  rules
	budget *provider.Budget
	http   *http.Client
}

var _ provider.Provider = (*Client)(nil)

// New checks the configuration whole and compiles its expressions. Errors name
// the key and, in an expression, line and column.
func New(cfg Config) (*Client, error) {
	cfg.setDefaults()
	base, err := cfg.check()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, base: base}
	if cfg.Lookup != nil {
		var pathErr, ruleErr error
		c.path, pathErr = parsePath(cfg.Lookup.Path)
		c.rules, ruleErr = compileRules(cfg.Lookup)
		if err := errors.Join(pathErr, ruleErr); err != nil {
			return nil, err
		}
		if !c.path.binds() && cfg.Lookup.Bind == "" {
			return nil, errors.New("lookup.bind is missing: a path without {job_key} or {request_id} finds records of other jobs")
		}
	}
	c.budget = &provider.Budget{Interval: cfg.Interval, Now: cfg.Now, Sleep: cfg.Sleep}
	c.http = &http.Client{
		Transport:     cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Capabilities is what the contract promises. Without a look-up nothing can be
// proven, and without a not-found condition no absence can.
func (c *Client) Capabilities() provider.Capabilities {
	caps := provider.Capabilities{Name: c.cfg.Name, Delay: -1, Billing: c.cfg.Billing}
	if i := c.cfg.Idempotency; i != nil {
		caps.KeyLife, caps.KeyMaxBytes = i.Life, i.MaxBytes
	}
	l := c.cfg.Lookup
	if l == nil {
		return caps
	}
	caps.Binds, caps.Delay, caps.LookBack = true, l.Delay, l.LookBack
	caps.ByRequest = c.path.has("request_id")
	caps.CanScan = c.path.windowed() && !c.path.binds()
	if l.Page != nil {
		caps.PageLimit = l.Page.Limit
	}
	for _, p := range c.cfg.Proves {
		if p != provider.ProvesNotAccepted || l.NotFound != "" {
			caps.Proves = append(caps.Proves, p)
		}
	}
	return caps
}

// Lookup asks about one send after the other, within the request budget.
func (c *Client) Lookup(ctx context.Context, sends []provider.Send) []provider.Answer {
	as := make([]provider.Answer, len(sends))
	for i, s := range sends {
		as[i] = c.lookup(ctx, s)
	}
	return as
}

func (c *Client) lookup(ctx context.Context, s provider.Send) provider.Answer {
	switch {
	case c.cfg.Lookup == nil:
		return provider.Answer{Err: errors.New("provider has no look-up in its contract")}
	case c.cfg.Region != "" && s.Region != "" && s.Region != c.cfg.Region:
		return provider.Answer{Err: fmt.Errorf("provider answers for region %s, not %s", c.cfg.Region, s.Region)}
	case c.cfg.Account != "" && s.Account != "" && s.Account != c.cfg.Account:
		return provider.Answer{Err: errors.New("provider answers for another account")}
	}
	r := newReading(c, s)
	r.window(ctx, s)
	return r.answer()
}

// Scan reads a whole window, where the path asks for one and nothing else.
func (c *Client) Scan(ctx context.Context, w provider.Window) provider.Answer {
	if !c.Capabilities().CanScan {
		return provider.Answer{Err: errors.New("provider's contract cannot read a window")}
	}
	return c.lookup(ctx, provider.Send{From: w.From, To: w.To, Region: w.Region, Account: w.Account})
}

// reading gathers the pages of one look-up.
type reading struct {
	client   *Client
	ev       provider.Evidence
	sum      hash.Hash
	hits     []provider.Hit
	bound    string // the job key that the question binds records to
	found    bool
	notFound bool // every page so far said so
	complete bool
	offset   time.Duration
	err      error
}

func newReading(c *Client, s provider.Send) *reading {
	r := &reading{client: c, sum: sha256.New(), notFound: true, complete: true}
	if c.path.binds() {
		r.bound = s.JobKey
	}
	r.ev = provider.Evidence{
		Endpoint: c.base.Scheme + "://" + c.base.Host + c.base.Path, Query: c.base.Path + c.path.evidence(s),
		From: s.From.UTC(), To: s.To.UTC(), AskedAt: c.cfg.Now().UTC(),
	}
	return r
}

func (r *reading) answer() provider.Answer {
	r.ev.AnswerSHA256 = hex.EncodeToString(r.sum.Sum(nil))
	a := provider.Answer{Hits: r.hits, Complete: r.complete, ClockOffset: r.offset, Evidence: r.ev, Err: r.err}
	a.NotFound = r.err == nil && r.ev.Pages > 0 && r.notFound && !r.found
	if r.err != nil {
		a.Complete = false
	}
	return a
}

// window reads one span of time whole. An answer that was cut is read again in
// halves where the path asks by time, down to a second.
func (r *reading) window(ctx context.Context, s provider.Send) {
	cut := r.pages(ctx, s)
	if !cut || r.err != nil {
		return
	}
	half := s.To.Sub(s.From) / 2
	if !r.client.path.windowed() || half < time.Second || r.ev.Pages >= maxPages {
		r.complete = false
		return
	}
	left, right := s, s
	left.To, right.From = s.From.Add(half), s.From.Add(half)
	r.window(ctx, left)
	if r.err == nil {
		r.window(ctx, right)
	}
}

// pages follows the cursor to the end. It reports whether the answer was cut.
func (r *reading) pages(ctx context.Context, s provider.Send) (cut bool) {
	target, err := r.client.path.fill(s)
	if err != nil {
		r.err = err
		return false
	}
	cursor, seen := "", map[string]bool{}
	for r.ev.Pages < maxPages {
		p, err := r.client.get(ctx, withCursor(target, r.client.param(), cursor), &r.ev)
		if err == nil {
			err = r.take(p)
		}
		if err != nil {
			r.err = err
			return false
		}
		next := r.client.cursor(p.scope.body)
		if next == "" {
			return r.atLimit(p)
		}
		if seen[next] {
			r.err = errors.New("provider's pages go in a circle")
			return false
		}
		seen[next], cursor = true, next
	}
	return true
}

// take adds one page. A page that is both found and not found says nothing, and
// then none of the answer does.
func (r *reading) take(p *page) error {
	r.ev.Pages++
	_, _ = r.sum.Write(p.raw) // a hash never fails
	if p.offset.Abs() > r.offset.Abs() {
		r.offset = p.offset
	}
	found, errFound := r.client.rules.found.holds(p.scope, nil)
	notFound, errNot := r.client.rules.notFound.holds(p.scope, nil)
	switch err := errors.Join(errFound, errNot); {
	case err != nil:
		return err
	case found && notFound:
		r.hits = nil
		return errors.New("answer is both found and not found by the contract")
	case !found && !notFound && !p.success():
		return fmt.Errorf("status %d is neither found nor not found by the contract", p.scope.status)
	}
	r.notFound = r.notFound && notFound
	r.found = r.found || found
	return r.addRecords(p, found)
}

// addRecords reads the page's records. They are counted even where the page is
// not found, since a full page may hide what is behind it.
func (r *reading) addRecords(p *page, found bool) error {
	if !found && !p.success() {
		return nil
	}
	var err error
	if p.records, err = r.client.rules.records(p.scope); err != nil {
		return err
	}
	switch {
	case !found:
		return nil
	case len(p.records) == 0:
		return errors.New("answer is found by the contract but holds no record")
	}
	for _, item := range p.records {
		h, err := r.client.rules.hit(p.scope, item, r.bound)
		if err != nil {
			return err
		}
		r.ev.Rows++
		r.hits = append(r.hits, h)
	}
	return nil
}

// atLimit reports a last page that is full: there may be more behind it.
func (r *reading) atLimit(p *page) bool {
	pg := r.client.cfg.Lookup.Page
	return pg != nil && pg.Limit > 0 && len(p.records) >= pg.Limit
}

func (c *Client) param() string {
	switch pg := c.cfg.Lookup.Page; {
	case pg == nil:
		return ""
	case pg.Param != "":
		return pg.Param
	default:
		return pg.Cursor
	}
}

// cursor is the next page's, empty at the end.
func (c *Client) cursor(body any) string {
	pg := c.cfg.Lookup.Page
	if pg == nil || pg.Cursor == "" {
		return ""
	}
	names := strings.Split(pg.Cursor, ".")
	for _, n := range names[:len(names)-1] {
		m, _ := body.(map[string]any)
		body = m[n]
	}
	return firstText(body, names[len(names)-1])
}

func withCursor(target, param, cursor string) string {
	if cursor == "" {
		return target
	}
	sep := "?"
	if strings.Contains(target, "?") {
		sep = "&"
	}
	return target + sep + url.QueryEscape(param) + "=" + url.QueryEscape(cursor)
}
