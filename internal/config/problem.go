package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Position is a place in a file. Line and column count from 1; both are 0 where
// the problem has no place.
type Position struct {
	File         string
	Line, Column int
}

// String is the position as compilers print it.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong, and where.
type Problem struct {
	Position
	Message string
}

// Error is "file:line:column: message".
func (p Problem) Error() string { return p.Position.String() + ": " + p.Message }

// Problems is everything that is wrong with a file, in the order of the file.
type Problems []Problem

// Error has one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return ps
}

// spot is where a key and its value stand.
type spot struct {
	key, value Position
	node       ast.Node
}

// At is the place of a value by its path ("queues.shipments.ledger"). A value
// that the file does not give is placed at the nearest key around it.
func (c *Config) At(path string) Position {
	if s, ok := c.spots[path]; ok {
		return s.value
	}
	return c.keyAt(path)
}

func (c *Config) keyAt(path string) Position {
	for path != "" {
		if s, ok := c.spots[path]; ok {
			return s.key
		}
		i := strings.LastIndexByte(path, '.')
		path = path[:max(i, 0)]
	}
	return Position{File: c.File}
}

// Errorf is a Problem at the place of a value, for whoever finds out later that
// it cannot be used (a CEL expression, a column name).
func (c *Config) Errorf(path, format string, args ...any) error {
	return Problem{Position: c.At(path), Message: fmt.Sprintf(format, args...)}
}

func (c *Config) given(path string) bool {
	_, ok := c.spots[path]
	return ok
}
