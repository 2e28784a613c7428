package classify

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Defaults of a gate where the policy says nothing.
const (
	DefaultObserve      = 5 * time.Minute
	DefaultMinSuccess   = 0.95
	DefaultMaxReturned  = 0.05
	DefaultMaxThrottled = 0.10
)

// CanaryAuto asks for a canary of the smaller of 10 and 5 % of the redrives.
const CanaryAuto = -1

// Gate is what the policy asks of a plan's first sample. Shares are 0 to 1.
type Gate struct {
	// Stated: the file has the section. Without it a plan has no gate unless it
	// asks for one itself.
	Stated       bool
	Canary       int           // jobs of the sample; 0: none; CanaryAuto
	Observe      time.Duration // how long outcomes are waited for
	MinSuccess   float64       // sent, of the sample
	MaxReturned  float64       // dead again, of the sample
	MaxThrottled float64       // throttled by the provider, of the sample
	MaxP95       time.Duration // from publish to sent; 0: not asked for
}

// Gate is what the policy asks of a plan's first sample, as the file gives it,
// else the default.
func (p *Policy) Gate() Gate { return p.gate }

// fileGate is the section as it is written. What it leaves out is the default.
type fileGate struct {
	Canary       *canary  `yaml:"canary"`
	Observe      duration `yaml:"observe"`
	MinSuccess   *share   `yaml:"min_success"`
	MaxReturned  *share   `yaml:"max_returned"`
	MaxThrottled *share   `yaml:"max_throttled"`
	MaxP95       duration `yaml:"max_p95"`
}

func newGate(f *fileGate) Gate {
	g := Gate{Observe: DefaultObserve, MinSuccess: DefaultMinSuccess, MaxReturned: DefaultMaxReturned, MaxThrottled: DefaultMaxThrottled}
	if f == nil {
		return g
	}
	g.Stated, g.MaxP95 = true, time.Duration(f.MaxP95)
	if f.Canary != nil {
		g.Canary = int(*f.Canary)
	}
	if f.Observe > 0 {
		g.Observe = time.Duration(f.Observe)
	}
	for to, from := range map[*float64]*share{&g.MinSuccess: f.MinSuccess, &g.MaxReturned: f.MaxReturned, &g.MaxThrottled: f.MaxThrottled} {
		if from != nil {
			*to = float64(*from)
		}
	}
	return g
}

// share is a part of a whole, 0 to 1, written "95%" or 0.95.
type share float64

// UnmarshalYAML reads "95%" or 0.95.
func (s *share) UnmarshalYAML(node ast.Node) error {
	v, err := ParseShare(node.GetToken().Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	*s = share(v)
	return nil
}

// ParseShare reads a part of a whole, "95%" or "0.95", as 0 to 1.
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is no share: write it as 95%% or 0.95", s)
	}
	return v, nil
}

// FormatShare is a share as ParseShare reads it.
func FormatShare(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + "%" }

// canary is the size of a sample, or CanaryAuto.
type canary int

// UnmarshalYAML reads a count or "auto".
func (c *canary) UnmarshalYAML(node ast.Node) error {
	n, err := ParseCanary(node.GetToken().Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	*c = canary(n)
	return nil
}

// ParseCanary reads the size of a sample: a count from 0 on, or "auto" for
// CanaryAuto.
func ParseCanary(s string) (int, error) {
	if s == "auto" {
		return CanaryAuto, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, errors.New("write the number of jobs of the first sample, 0 for none, or auto")
	}
	return n, nil
}
