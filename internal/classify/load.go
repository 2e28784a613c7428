package classify

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// FileVersion is the value of "policy" in the files that this version reads.
const FileVersion = "redrivectl/v1"

// Limits that a policy can only tighten.
const (
	DefaultSelfMax    = 10  // redrives per queue in 24 hours that need no approver
	DefaultRedriveCap = 2   // redrives of one job that need no approver
	MostBreakGlass    = 100 // items that one person may run alone in an emergency, in 24 hours; none by default
)

//go:embed default-policy.yaml
var defaultYAML []byte

// DefaultYAML is the default policy as a file that users can copy and change.
func DefaultYAML() []byte { return append([]byte(nil), defaultYAML...) }

// DefaultName is the name under which errors and outputs show the default
// policy.
const DefaultName = "default-policy.yaml"

// Default is the default policy, compiled.
func Default() (*Policy, error) { return Load(DefaultName, DefaultYAML()) }

// file is a policy file as it is written.
type file struct {
	Policy     string          `yaml:"policy"`
	Classes    map[Class]class `yaml:"classes"`
	Rules      []fileRule      `yaml:"rules"`
	Retry      *fileRetry      `yaml:"retry"`
	MaxAge     duration        `yaml:"max_age"`
	SelfMax    *int            `yaml:"self_max"`
	RedriveCap *int            `yaml:"redrive_cap"`
	BreakGlass *int            `yaml:"break_glass"`
	Gate       *fileGate       `yaml:"gate"`
}

type class struct {
	Effect      Effect      `yaml:"effect"`
	Disposition Disposition `yaml:"disposition"`
	Owner       string      `yaml:"owner"`
	Runbook     string      `yaml:"runbook"`
	MaxAge      duration    `yaml:"max_age"`
	Evidence    string      `yaml:"evidence"`
}

type fileRule struct {
	Name  string `yaml:"name"`
	Class Class  `yaml:"class"`
	When  string `yaml:"when"`
}

type fileRetry struct {
	Base       duration `yaml:"base"`
	Cap        duration `yaml:"cap"`
	Budget     int      `yaml:"budget"`
	FullJitter bool     `yaml:"full_jitter"`
	Deadline   duration `yaml:"deadline"`
}

// duration is a Go duration that may also count days ("30d").
type duration time.Duration

// UnmarshalYAML reads "90s", "15m", "72h", "30d".
func (d *duration) UnmarshalYAML(node ast.Node) error {
	v, err := parseDuration(node.GetToken().Value)
	if err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	*d = duration(v)
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	var days int
	if n, err := fmt.Sscanf(s, "%dd", &days); n == 1 && err == nil && s == fmt.Sprintf("%dd", days) {
		if days < 0 || days > 36500 {
			return 0, fmt.Errorf("duration %q is out of range", s)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q: use forms like 90s, 15m, 72h, 30d", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q is negative", s)
	}
	return d, nil
}

// source is the file while it is checked: it turns a path into a position.
type source struct {
	name string
	tree *ast.File
}

// Load reads, checks and compiles a policy file. Name is how errors call it.
// Every error has the form "name:line:column: what"; several faults are joined.
func Load(name string, text []byte) (*Policy, error) {
	var f file
	if err := ReadYAML(name, text, &f); err != nil {
		return nil, err
	}
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, located(name, err)
	}
	src := source{name: name, tree: tree}
	if err := src.check(f); err != nil {
		return nil, err
	}
	p := newPolicy(f)
	sum := sha256.Sum256(text)
	p.name, p.sha256 = name, hex.EncodeToString(sum[:])
	return p, p.compile(src, f.Rules)
}

// ReadYAML decodes a file as strictly as Load does: a field that into does not
// have, and one that stands twice, is an error of the form
// "name:line:column: what".
func ReadYAML(name string, text []byte, into any) error {
	if err := CheckNesting(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := decodeYAML(text, into); err != nil {
		return located(name, err)
	}
	return nil
}

// decodeYAML makes an error of the library's panics, which broken files cause, such as
// one with a tag in the place of a list.
func decodeYAML(text []byte, into any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be read as YAML: %v", r)
		}
	}()
	return yaml.UnmarshalWithOptions(text, into, yaml.Strict())
}

// located gives a YAML error its position.
func located(name string, err error) error {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &at) && at.GetToken() != nil {
		p := at.GetToken().Position
		return fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, at.GetMessage())
	}
	return fmt.Errorf("%s:1:1: %w", name, err)
}

// fault is an error at a path of the file.
func (s source) fault(path, format string, args ...any) error {
	line, column := s.position(path)
	return fmt.Errorf("%s:%d:%d: %w", s.name, line, column, fmt.Errorf(format, args...))
}

// position is where the value at a path begins; where the file has no such path,
// where what it would stand in begins.
func (s source) position(path string) (line, column int) {
	node := s.node(path)
	for node == nil {
		cut := strings.LastIndexAny(path, ".[")
		if cut <= 0 {
			return 1, 1
		}
		path = path[:cut]
		node = s.node(path)
	}
	p := node.GetToken().Position
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		p = m.Values[0].Key.GetToken().Position
	}
	return p.Line, p.Column
}

func (s source) node(path string) ast.Node {
	yp, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	node, err := yp.FilterFile(s.tree)
	if err != nil {
		return nil
	}
	return node
}
