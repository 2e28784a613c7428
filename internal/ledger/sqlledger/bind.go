package sqlledger

import (
	"fmt"
	"slices"
	"strings"
)

// bind turns ":name" into the dialect's placeholders, so that a statement reads
// the same for every database. Quoted text, comments and "::" casts are left
// alone. A name without a value is an error, never NULL.
func (d dialect) bind(query string, p params) (string, []any, error) {
	b := d.bound(query)
	args, err := b.args(p)
	return b.query, args, err
}

// bound is a statement with placeholders, and the names of its parameters in
// their order.
type bound struct {
	query string
	names []string
}

func (b bound) args(p params) ([]any, error) {
	args := make([]any, len(b.names))
	for i, name := range b.names {
		v, ok := p.value(name)
		if !ok {
			return nil, fmt.Errorf("statement has no parameter :%s", name)
		}
		args[i] = v
	}
	return args, nil
}

// bound remembers what was read of a statement: there are few, and every change
// of a row uses the same ones.
func (d dialect) bound(query string) bound {
	if b, ok := d.bounds.Load(query); ok {
		return b.(bound)
	}
	b := d.read(query)
	d.bounds.Store(query, b)
	return b
}

func (d dialect) read(query string) bound {
	var out strings.Builder
	var names []string
	for i := 0; i < len(query); {
		if n := skip(query[i:]); n > 0 {
			out.WriteString(query[i : i+n])
			i += n
			continue
		}
		name := parameter(query[i:])
		if name == "" {
			out.WriteByte(query[i])
			i++
			continue
		}
		n := slices.Index(names, name)
		if n < 0 {
			n = len(names)
			names = append(names, name)
		}
		out.WriteString(d.placeholder(n + 1))
		i += 1 + len(name)
	}
	return bound{out.String(), names}
}

// skip is the length of the quoted text, comment or cast that s starts with.
func skip(s string) int {
	for _, q := range [][2]string{{"'", "'"}, {`"`, `"`}, {"`", "`"}, {"--", "\n"}, {"/*", "*/"}} {
		if !strings.HasPrefix(s, q[0]) {
			continue
		}
		end := strings.Index(s[len(q[0]):], q[1])
		if end < 0 {
			return len(s)
		}
		return len(q[0]) + end + len(q[1])
	}
	if strings.HasPrefix(s, "::") {
		return 2
	}
	return 0
}

// parameter is the name after the colon that s starts with, or empty.
func parameter(s string) string {
	if s[0] != ':' {
		return ""
	}
	n := 1
	for n < len(s) && (s[n] == '_' || 'a' <= s[n] && s[n] <= 'z' || n > 1 && '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return s[1:n]
}
