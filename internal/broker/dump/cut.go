package dump

import (
	"errors"
	"fmt"
	"io"
)

// cut reads up to the end of one value by its brackets and quotes alone. A value
// that is too long or too deep is read to its end and not kept. One that is
// broken off in the middle of a line is given up at the line's end, so that the
// next line can be read.
func (d *reader) cut() ([]byte, error) {
	var c cutting
	for {
		b, err := d.scan.ReadByte()
		if errors.Is(err, io.EOF) && c.at.top() && len(c.raw) > 0 {
			return c.raw, c.over
		}
		switch {
		case err != nil && c.over != nil:
			return nil, c.over
		case err != nil:
			return nil, d.broken(err)
		case c.at.top() && c.began && ends(b):
			return c.raw, errors.Join(c.over, d.scan.UnreadByte())
		case c.lost(b):
			return nil, d.lost(&c, b)
		}
		if c.add(b); c.over == nil {
			c.over = d.tooMuch(&c)
		}
		if c.at.take(b) {
			return c.raw, c.over
		}
	}
}

// cutting is one value while it is read.
type cutting struct {
	raw   []byte
	began bool
	at    nesting
	over  error // too long or too deep: what follows is not kept
	last  byte  // the last byte outside a text that is no white space
	line  bool  // a line ended since
}

func (c *cutting) add(b byte) {
	c.began = true
	if c.over == nil {
		c.raw = append(c.raw, b)
	}
	switch {
	case c.at.quoted:
	case b == '\n':
		c.line = true
	case b != ' ' && b != '\t' && b != '\r':
		c.last, c.line = b, false
	}
}

// lost reports whether the value was broken off: a line ends inside a text, or
// the next line begins an object where none can be.
func (c *cutting) lost(b byte) bool {
	if c.at.quoted {
		return b == '\n'
	}
	return b == '{' && c.line && c.at.depth > 0 && c.last != ',' && c.last != ':' && c.last != '[' && c.last != '{'
}

// lost gives up a value that was broken off, and leaves the reader at the line
// after it.
func (d *reader) lost(c *cutting, b byte) error {
	err := fmt.Errorf("dump at byte %d (message %d): broken off at the end of a line", d.offset(), d.index)
	if b != '\n' {
		if err := d.scan.UnreadByte(); err != nil {
			return err
		}
	}
	return &brokenEntry{c.raw, err}
}

func (d *reader) tooMuch(c *cutting) error {
	var err error
	switch {
	case len(c.raw) > MaxRecord:
		err = fmt.Errorf("dump at byte %d: message %d is longer than %d bytes", d.offset(), d.index, MaxRecord)
	case c.at.depth > maxNesting:
		err = fmt.Errorf("dump at byte %d: message %d is nested deeper than %d levels", d.offset(), d.index, maxNesting)
	default:
		return nil
	}
	return &brokenEntry{c.raw, err}
}

// line reads the rest of a line that is no JSON.
func (d *reader) line() ([]byte, error) {
	var line []byte
	for {
		b, err := d.scan.ReadByte()
		switch {
		case errors.Is(err, io.EOF), err == nil && b == '\n':
			return line, nil
		case err != nil:
			return nil, fmt.Errorf("reading the dump: %w", err)
		case len(line) < MaxRecord:
			line = append(line, b)
		}
	}
}
