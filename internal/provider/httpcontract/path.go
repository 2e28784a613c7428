package httpcontract

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider"
)

// path is a template taken apart: literal text, then a placeholder, and so on.
type path struct {
	literals []string // one more than holes
	holes    []string
}

var placeholders = []string{"job_key", "request_id", "from", "to"}

func parsePath(template string) (path, error) {
	var p path
	rest := template
	for {
		literal, after, ok := strings.Cut(rest, "{")
		p.literals = append(p.literals, literal)
		if !ok {
			return p, nil
		}
		name, tail, closed := strings.Cut(after, "}")
		column := len(template) - len(after)
		if !closed || !slices.Contains(placeholders, name) {
			return path{}, fmt.Errorf("lookup.path, line 1 column %d: {%s is none of {job_key}, {request_id}, {from}, {to}", column, name)
		}
		p.holes = append(p.holes, name)
		rest = tail
	}
}

func (p path) has(name string) bool { return slices.Contains(p.holes, name) }

// windowed reports that the path asks for a span of time, so that a cut answer
// can be asked for again in halves.
func (p path) windowed() bool { return p.has("from") && p.has("to") }

// binds reports that whatever the path finds belongs to the job asked for.
func (p path) binds() bool { return p.has("job_key") || p.has("request_id") }

// fill puts the send's values in. A value that the path needs and the send
// lacks is an error: the question would be another one.
func (p path) fill(s provider.Send) (string, error) {
	return p.render(func(name string, inQuery bool) (string, error) {
		v := valueOf(s, name)
		switch {
		case v == "":
			return "", fmt.Errorf("look-up needs %s, which is not known", name)
		case inQuery:
			return url.QueryEscape(v), nil
		case v == "." || v == "..":
			return "", fmt.Errorf("%s %q would make another path of the look-up's", name, v)
		default:
			return url.PathEscape(v), nil
		}
	})
}

// evidence is the question as it is kept: keys hashed, secrets never in it.
func (p path) evidence(s provider.Send) string {
	text, err := p.render(func(name string, _ bool) (string, error) {
		if name == "job_key" || name == "request_id" {
			return provider.Hashed(valueOf(s, name)), nil
		}
		return valueOf(s, name), nil
	})
	if err != nil {
		return ""
	}
	return maskQuery(text)
}

func (p path) render(value func(name string, inQuery bool) (string, error)) (string, error) {
	var b strings.Builder
	for i, hole := range p.holes {
		b.WriteString(p.literals[i])
		v, err := value(hole, strings.Contains(b.String(), "?"))
		if err != nil {
			return "", err
		}
		b.WriteString(v)
	}
	b.WriteString(p.literals[len(p.holes)])
	return b.String(), nil
}

func valueOf(s provider.Send, name string) string {
	switch name {
	case "job_key":
		return s.JobKey
	case "request_id":
		return s.RequestID
	case "from":
		return stamp(s.From)
	default:
		return stamp(s.To)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// maskQuery hides the values of query parameters that are named like secrets.
func maskQuery(text string) string {
	head, query, ok := strings.Cut(text, "?")
	if !ok {
		return text
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		switch strings.ToLower(name) {
		case "key", "api_key", "apikey", "token", "access_token", "sig", "signature", "password", "secret":
			parts[i] = name + "=***"
		}
	}
	return head + "?" + strings.Join(parts, "&")
}
