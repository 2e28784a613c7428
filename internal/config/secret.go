package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// mask stands for a secret in every printed form.
const mask = "***"

// Secret is a reference to a value that must not stand in the file: env:NAME or
// file:PATH. It holds the reference alone; the value exists only as the result
// of Resolve. Every printed form is masked.
type Secret struct {
	kind string // "env", "file", or empty for an unset secret
	name string // the variable, or the path as written
	dir  string // what a relative path resolves against
}

var errNotReference = errors.New("must be a reference, env:NAME or file:PATH: a secret does not stand in the file itself")

// ParseSecret reads a reference. Relative paths resolve against dir. The error
// never quotes the text, which may be the secret itself.
func ParseSecret(text, dir string) (Secret, error) {
	kind, name, ok := strings.Cut(text, ":")
	if !ok || name == "" || (kind != "env" && kind != "file") {
		return Secret{}, errNotReference
	}
	if kind == "env" && !isVariable(name) || strings.ContainsAny(name, "\x00\n") {
		return Secret{}, errNotReference
	}
	return Secret{kind: kind, name: name, dir: dir}, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return true
}

// Set reports whether a reference was given.
func (s Secret) Set() bool { return s.kind != "" }

// Reference is where the secret is, as written; empty when unset. It is not
// secret, and is what digests and errors name.
func (s Secret) Reference() string {
	if !s.Set() {
		return ""
	}
	return s.kind + ":" + s.name
}

// Resolve reads the value. One line end at the end of a file is cut. An unset
// secret, a variable that is unset or empty, and an empty file are errors,
// which name the reference.
func (s Secret) Resolve(getenv func(string) string) (string, error) {
	v, err := s.read(getenv)
	if err != nil {
		return "", fmt.Errorf("read secret %s: %w", s.Reference(), err)
	}
	if v == "" {
		return "", fmt.Errorf("read secret %s: it is empty or not set", s.Reference())
	}
	return v, nil
}

func (s Secret) read(getenv func(string) string) (string, error) {
	switch s.kind {
	case "env":
		return getenv(s.name), nil
	case "file":
		b, err := os.ReadFile(absolute(s.dir, s.name))
		return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), err
	default:
		return "", errors.New("no reference was configured")
	}
}

// String masks.
func (s Secret) String() string {
	if !s.Set() {
		return ""
	}
	return mask
}

// GoString masks.
func (s Secret) GoString() string { return s.String() }

// LogValue masks.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks, in JSON and every other encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Equal compares references, never values.
func (s Secret) Equal(o Secret) bool { return s == o }

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
