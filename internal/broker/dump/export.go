package dump

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// exportVersion marks the last line of an export.
const exportVersion = "redrivectl/export/v1"

// ErrCut says that an export has no last line: it was cut, or is still being
// written.
var ErrCut = errors.New("the export is cut")

// ErrDamaged says that an export does not hold what was exported.
var ErrDamaged = errors.New("the export was changed or damaged")

// Trailer is the last line of an export. It tells what was exported, and that
// nothing of it is missing.
type Trailer struct {
	Record    string `json:"record"`
	Queue     string `json:"queue"`     // the dead-letter queue, as its broker names it
	Selection string `json:"selection"` // what was asked for; empty: everything
	Count     int64  `json:"count"`     // of the records before
	Complete  bool   `json:"complete"`  // the whole queue was looked at
	Why       string `json:"why"`       // why not
	SHA256    string `json:"sha256"`    // of the lines before, lower-case hex
}

// Exporter writes an export: one record a line, and the trailer.
type Exporter struct {
	w     *bufio.Writer
	hash  hash.Hash
	count int64
	bytes int64
}

// NewExporter begins an export on w. Finish must be called, else what is on w is
// a cut export.
func NewExporter(w io.Writer) *Exporter {
	return &Exporter{w: bufio.NewWriterSize(w, 64<<10), hash: sha256.New()}
}

// Add appends one message.
func (e *Exporter) Add(m broker.Message) error {
	line, err := encode(m)
	if err != nil {
		return err
	}
	if err := e.write(line); err != nil {
		return err
	}
	e.hash.Write(line) // never fails
	e.count++
	return nil
}

func (e *Exporter) write(line []byte) error {
	e.bytes += int64(len(line))
	if _, err := e.w.Write(line); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// Count is how many messages were added.
func (e *Exporter) Count() int64 { return e.count }

// Bytes is the length of what was written, the trailer included once it is.
func (e *Exporter) Bytes() int64 { return e.bytes }

// SHA256 is the digest of the records so far, as the trailer will name it.
func (e *Exporter) SHA256() string { return hex.EncodeToString(e.hash.Sum(nil)) }

// Flush hands everything so far to the writer below.
func (e *Exporter) Flush() error {
	if err := e.w.Flush(); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}

// Finish writes the trailer, whose count and digest it fills in.
func (e *Exporter) Finish(t Trailer) error {
	t.Record, t.Count, t.SHA256 = exportVersion, e.count, e.SHA256()
	line, err := json.Marshal(t)
	if err == nil {
		err = e.write(append(line, '\n'))
	}
	if err != nil {
		return err
	}
	return e.Flush()
}

// checkText refuses what JSON text cannot keep, instead of losing it.
func checkText(m broker.Message) error {
	texts := []string{m.Copy.Entity, m.Copy.ID, m.MessageID, m.Origin, m.OrderKey, m.RawFormat}
	for _, as := range [][]broker.Attribute{m.Attributes, m.System} {
		for _, a := range as {
			texts = append(texts, a.Name, a.Type)
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return fmt.Errorf("a name of the message is no UTF-8: %q", s)
		}
	}
	return nil
}

// ReadExport calls each for every message of an export, in order, and returns
// its trailer. It is ErrCut where the trailer is missing and ErrDamaged where it
// does not fit; each has then seen messages all the same, so that who must not
// act on such a file reads it twice.
func ReadExport(r io.Reader, each func(broker.Message) error) (Trailer, error) {
	in, sum, count := bufio.NewReaderSize(r, 64<<10), sha256.New(), int64(0)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return Trailer{}, fmt.Errorf("%w: it ends after %d messages, without its last line", ErrCut, count)
		}
		if err != nil {
			return Trailer{}, fmt.Errorf("read export, line %d: %w", count+1, err)
		}
		t, last, err := asTrailer(line)
		if err != nil {
			return Trailer{}, fmt.Errorf("read export, line %d: %w", count+1, err)
		}
		if last {
			return t, t.check(in, count, hex.EncodeToString(sum.Sum(nil)))
		}
		m, err := fromRecord(line)
		if err != nil {
			return Trailer{}, fmt.Errorf("read export, line %d: %w", count+1, err)
		}
		if err := each(m); err != nil {
			return Trailer{}, err
		}
		sum.Write(line)
		count++
	}
}

// readLine is one line with its end. A last line without one was cut.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxRecord {
			return nil, fmt.Errorf("longer than %d bytes", MaxRecord)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// asTrailer reads a line if it is the trailer.
func asTrailer(line []byte) (t Trailer, is bool, err error) {
	var kind struct {
		Record string `json:"record"`
	}
	if !bytes.Contains(line[:min(len(line), 100)], []byte(exportVersion)) {
		return t, false, nil
	}
	if err := json.Unmarshal(line, &kind); err != nil || kind.Record != exportVersion {
		return t, false, err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return t, true, d.Decode(&t)
}

func (t Trailer) check(in *bufio.Reader, count int64, sum string) error {
	switch {
	case t.Count != count:
		return fmt.Errorf("%w: it holds %d messages, its last line says %d", ErrDamaged, count, t.Count)
	case t.SHA256 != sum:
		return fmt.Errorf("%w: its messages do not hash to what its last line says", ErrDamaged)
	}
	if _, err := in.Peek(1); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its last line", ErrDamaged)
	}
	return nil
}
