package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/redrivectl/redrivectl/internal/classify"
)

// maxBytes bounds a configuration file; a longer one is no configuration.
const maxBytes = 1 << 20

// Load reads the file at path. What is wrong with its contents is Problems, all
// of it at once where that is possible. getenv is asked for the user's state
// folder alone; no secret is read.
func Load(path string, getenv func(string) string) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find configuration %s: %w", path, err)
	}
	f, err := os.Open(abs)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close() //nolint:errcheck // Only read.
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("read configuration %s: it is larger than %d bytes", abs, maxBytes)
	}
	return parse(abs, filepath.Dir(abs), data, getenv)
}

// Default is the configuration of a start without a file: no queues, and a
// SQLite store in the user's state folder.
func Default(getenv func(string) string) (*Config, error) {
	return parse("", "", nil, getenv)
}

func parse(file, dir string, data []byte, getenv func(string) string) (*Config, error) {
	root, problem := syntax(file, data)
	if problem != nil {
		return nil, Problems{*problem}
	}
	d := &decoder{file: file, dir: dir, keys: keysByPath(), spots: map[string]spot{}}
	c := &Config{File: file, dir: dir, spots: d.spots}
	top := place{at: Position{file, 1, 1}}
	if root == nil {
		d.missing(reflect.ValueOf(c).Elem(), nil, top)
	} else {
		d.value(reflect.ValueOf(c).Elem(), "", root, top)
	}
	if c.Queues == nil {
		c.Queues = map[string]Queue{}
	}
	c.derive()
	if ps := append(d.problems, c.check()...); len(ps) > 0 {
		return nil, ps.sorted()
	}
	return c, c.nameStore(getenv)
}

// syntax parses one document. A nil node is an empty file.
func syntax(file string, data []byte) (root ast.Node, problem *Problem) {
	defer func() {
		// The parser is given whatever a person typed; that it gives up on some
		// of it is our error to report, not a reason to crash.
		if r := recover(); r != nil {
			problem = &Problem{Position{File: file}, fmt.Sprintf("the YAML cannot be read: %v", r)}
		}
	}()
	if err := classify.CheckNesting(data); err != nil {
		return nil, &Problem{Position{File: file}, err.Error()}
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxProblem(file, err)
	}
	for _, doc := range f.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			at := doc.Body.GetToken().Position
			return nil, &Problem{Position{file, at.Line, at.Column}, "a configuration is one YAML document: remove what follows ---"}
		}
		root = doc.Body
	}
	return root, nil
}

func syntaxProblem(file string, err error) *Problem {
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		at := y.GetToken().Position
		return &Problem{Position{file, at.Line, at.Column}, y.GetMessage()}
	}
	return &Problem{Position{File: file}, err.Error()}
}

// NewQueue is a queue with all defaults, for one that is named on the command
// line instead of in a file. Path is left to the caller.
func NewQueue(name string) Queue {
	var q Queue
	defaults(&q, "queues.*")
	q.Path = ""
	q.DeadLetter = name + deadLetterSuffix
	q.Worker.TransportRetries = true
	return q
}

// defaults fills the struct at v, whose keys are listed under pattern, as if
// the file gave none of them.
func defaults(v any, pattern string) {
	d := &decoder{keys: keysByPath()}
	d.missing(reflect.ValueOf(v).Elem(), nil, place{path: pattern, pattern: pattern})
}
