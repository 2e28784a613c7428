// Package dump reads messages from a file: what brokers' own tools print for a
// queue, and the lossless records that redrivectl exports. It is read as a
// stream; no more than one message is held at a time.
package dump

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// MaxRecord is the longest single message that is read, in bytes of JSON: the
// largest message of a known broker (100 MB) in base64 does not fit, all that
// can be shown does.
const MaxRecord = 64 << 20

// maxNesting bounds the levels of JSON in one message.
const maxNesting = 1000

// Unreadable is an entry of a dump that is no message of a known form, or a
// broken one.
type Unreadable struct {
	Index  int   // from 0
	Offset int64 // in bytes, where the entry ends
	Err    error
}

func (u *Unreadable) Error() string {
	return fmt.Sprintf("dump, message %d (before byte %d): %v", u.Index, u.Offset, u.Err)
}

func (u *Unreadable) Unwrap() error { return u.Err }

// Read calls each for every message of r, in order. It takes one JSON value or
// several after another (JSON lines); each is a message, a list of messages, or
// an object with a list under "Messages" or the like. A message is recognised in
// the form in which the tools of SQS, Pub/Sub, Service Bus, RabbitMQ, Kafka,
// Redis queues, SQL tables and NATS print it, in that of the export, and in that
// of a wrapper that has it under "message"; docs/envelope.md lists them. The
// first entry that is none of these is an error (*Unreadable), since leaving it
// out would lose it. An error of each ends the reading and is returned as it is.
func Read(r io.Reader, each func(broker.Message) error) error { return newReader(r, each).run() }

// Look is Read for who only looks: an entry that cannot be read hides none of
// the others. It is a message too, whose body is the entry as it stands and
// whose system attribute broker.SystemUnreadable says why. Where no entry can be
// read the file is no dump, and the first one's error is returned. A dump that
// ends in the middle of a message is io.ErrUnexpectedEOF, after all that came
// before.
func Look(r io.Reader, each func(broker.Message) error) error {
	d := newReader(r, each)
	d.lenient = true
	err := d.run()
	if err == nil && len(d.waiting) > 0 {
		return d.waiting[0].err
	}
	return err
}

func newReader(r io.Reader, each func(broker.Message) error) *reader {
	d := &reader{src: &counter{r: skipBOM(r)}, each: each}
	d.scan = bufio.NewReaderSize(d.src, 64<<10)
	return d
}

// counter counts the bytes taken from a reader.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// skipBOM drops the byte order mark that some shells put before redirected
// output.
func skipBOM(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if head, err := b.Peek(3); err == nil && bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, err := b.Discard(3)
		if err != nil {
			return io.MultiReader(errReader{err}, b)
		}
	}
	return b
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// reader splits the stream into messages.
type reader struct {
	src   *counter
	scan  *bufio.Reader
	each  func(broker.Message) error
	index int
	// lenient: an entry that cannot be read is handed on as a message. It waits
	// until the file is known to be a dump.
	lenient bool
	known   bool
	waiting []refused
	held    int // bytes that wait
}

// offset is where in the stream the reader stands, in bytes.
func (d *reader) offset() int64 { return d.src.n - int64(d.scan.Buffered()) }

func (d *reader) run() error {
	for {
		c, err := d.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the dump: %w", err)
		}
		if err := d.value(c); err != nil {
			return err
		}
	}
}

// value reads one value of the top level.
func (d *reader) value(c byte) error {
	switch c {
	case '[':
		return d.list()
	case '{':
		return d.object()
	case ',': // JSON lines with a comma left at the end
		return d.skip()
	}
	err := fmt.Errorf("neither an object nor a list: it begins with %q", c)
	if !d.lenient {
		return fmt.Errorf("dump at byte %d: %w", d.offset(), err)
	}
	line, readErr := d.line()
	if readErr != nil {
		return readErr
	}
	return d.refuse(line, "", nil, err)
}

// object reads one object of the top level. One with a list of messages is read
// entry by entry when the list comes first, as the tools print it; otherwise
// the object is taken whole.
func (d *reader) object() error {
	if head, _ := d.scan.Peek(256); listFirst(head) {
		for {
			c, err := d.scan.ReadByte()
			if err != nil {
				return d.broken(err)
			}
			if c == '[' {
				break
			}
		}
		if err := d.entries(); err != nil {
			return err
		}
		return d.closeObject()
	}
	return d.entry()
}

// listFirst reports whether an object begins with a list of messages.
func listFirst(head []byte) bool {
	rest := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("{")), " \t\r\n")
	for _, key := range listKeys {
		if after, ok := bytes.CutPrefix(rest, []byte(`"`+key+`"`)); ok {
			after = bytes.TrimLeft(after, " \t\r\n")
			return len(after) > 0 && after[0] == ':' && bytes.HasPrefix(bytes.TrimLeft(after[1:], " \t\r\n"), []byte("["))
		}
	}
	return false
}

// closeObject reads to the end of an object whose list was read, and past what
// else it holds (a page token, metadata).
func (d *reader) closeObject() error {
	for {
		c, err := d.peek()
		if err != nil {
			return d.broken(err)
		}
		switch c {
		case '}':
			return d.skip()
		case ',', ':':
			err = d.skip()
		default:
			_, err = d.raw()
		}
		if err != nil {
			return err
		}
	}
}

func (d *reader) list() error {
	if err := d.skip(); err != nil {
		return err
	}
	return d.entries()
}

// entries reads the messages of a list up to its end; the opening bracket was
// read.
func (d *reader) entries() error {
	for {
		c, err := d.peek()
		if err != nil {
			return d.broken(err)
		}
		switch c {
		case ']':
			return d.skip()
		case ',':
			err = d.skip()
		default:
			err = d.entry()
		}
		if err != nil {
			return err
		}
	}
}

func (d *reader) entry() error {
	raw, err := d.raw()
	var bad *brokenEntry
	switch {
	case errors.As(err, &bad) && d.lenient:
		return d.refuse(bad.raw, "", nil, err)
	case err != nil:
		return err
	}
	return d.take(raw, "", maxLevels)
}

func (d *reader) skip() error {
	_, err := d.scan.ReadByte()
	return err
}

// peek is the next byte that is no white space.
func (d *reader) peek() (byte, error) {
	for {
		c, err := d.scan.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, d.scan.UnreadByte()
		}
	}
}

// broken says where the input ends in the middle of a value.
func (d *reader) broken(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("dump at byte %d (message %d): %w", d.offset(), d.index, err)
}

// brokenEntry is an entry that is no JSON, with its bytes.
type brokenEntry struct {
	raw []byte
	err error
}

func (b *brokenEntry) Error() string { return b.err.Error() }

func (b *brokenEntry) Unwrap() error { return b.err }

// raw reads one JSON value as its bytes and checks it.
func (d *reader) raw() (json.RawMessage, error) {
	start := d.offset()
	raw, err := d.cut()
	if err != nil {
		return nil, err
	}
	var value json.RawMessage
	if err := json.Unmarshal(raw, &value); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			start += syntax.Offset
		}
		return nil, &brokenEntry{raw, fmt.Errorf("dump at byte %d (message %d): %w", start, d.index, err)}
	}
	return value, nil
}

// nesting is where in a JSON text a byte stands.
type nesting struct {
	depth           int
	quoted, escaped bool
}

// top says that no bracket and no quote is open.
func (n *nesting) top() bool { return n.depth == 0 && !n.quoted }

// take reads one byte, and reports whether it closed the value.
func (n *nesting) take(c byte) bool {
	switch {
	case n.escaped:
		n.escaped = false
		return false
	case n.quoted && c == '\\':
		n.escaped = true
		return false
	case c == '"':
		n.quoted = !n.quoted
	case n.quoted:
		return false
	case c == '{' || c == '[':
		n.depth++
	case c == '}' || c == ']':
		n.depth--
	default:
		return false
	}
	return n.depth <= 0 && !n.quoted
}

// ends reports whether a byte ends a bare word of the top level.
func ends(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}
