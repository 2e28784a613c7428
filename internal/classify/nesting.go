package classify

import (
	"bytes"
	"fmt"
)

// maxNesting bounds the levels of a YAML file that is read at all. The parser's
// memory grows with their square: 20,000 take more than half a gigabyte.
const maxNesting = 1000

// CheckNesting refuses a policy or a configuration that is nested deeper than
// any is, before a parser sees it. It counts brackets outside quotes, and
// indentation, without understanding more of YAML; the error names the line.
func CheckNesting(text []byte) error {
	depth, n := 0, 0
	for line := range bytes.Lines(text) {
		n++
		depth = max(0, depth+openBrackets(line))
		if depth > maxNesting || indicators(line) > maxNesting {
			return fmt.Errorf("line %d: nested deeper than %d levels", n, maxNesting)
		}
	}
	return nil
}

// openBrackets is how many more brackets a line opens than it closes.
func openBrackets(line []byte) int {
	open := 0
	var quote byte
	for _, c := range line {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			open++
		case c == ']' || c == '}':
			open--
		}
	}
	return open
}

// indicators counts what a line begins with that can open a level: spaces, and
// the signs of a list item and of a complex key.
func indicators(line []byte) int {
	return len(line) - len(bytes.TrimLeft(line, " -?:\t"))
}
