package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// exportFormat names the form of an export in its first line.
const exportFormat = "redrivectl/audit-export/v1"

// ErrNotExport says that a file is not an export of an audit log.
var ErrNotExport = errors.New("not an export of an audit log")

// ExportHeader is the first line of an export.
type ExportHeader struct {
	Format string `json:"format"`
	Head   Head   `json:"head"` // of the whole log when it was exported; names the store
}

// Every further line is one record: linePrefix, its hash, lineMiddle, its
// canonical bytes, lineSuffix. The line is canonical JSON itself, and the bytes
// that were hashed can be cut out of it without parsing.
const (
	linePrefix = `{"hash":"`
	lineMiddle = `","record":`
	lineSuffix = `}`
)

// Export writes the rows as JSON lines under a header that names head. Rows are
// written as they are, sound or not, so that an export can prove a damage.
func Export(ctx context.Context, w io.Writer, head Head, rows iter.Seq2[Row, error]) error {
	out := bufio.NewWriter(w)
	header, err := json.Marshal(ExportHeader{exportFormat, head})
	if err == nil {
		_, err = out.Write(append(header, '\n'))
	}
	if err == nil {
		err = writeRows(ctx, out, rows)
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("export audit log: %w", err)
	}
	return nil
}

func writeRows(ctx context.Context, out *bufio.Writer, rows iter.Seq2[Row, error]) error {
	for r, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s%s%s%s\n", linePrefix, r.Hash, lineMiddle, r.Canonical, lineSuffix)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// VerifyExport verifies an export offline: its chain from the first record to
// the head that its header names, and that it extends the checkpoints that are
// given. A file of another kind is ErrNotExport.
func VerifyExport(ctx context.Context, r io.Reader, checkpoints ...Head) (Report, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	header, err := readHeader(in)
	if err != nil {
		return Report{}, err
	}
	v := NewVerifier(header.Head.Store, Head{}, checkpoints...)
	if err := v.Walk(ctx, exportRows(in)); err != nil {
		return Report{}, err
	}
	if v.last.Seq != header.Head.Seq || (header.Head.Seq > 0 && v.last.Hash != header.Head.Hash) {
		v.Problem(v.last.Seq, fmt.Sprintf("the export is not whole: its header says that it ends at record %d", header.Head.Seq))
	}
	return v.Report(), nil
}

func readHeader(in *bufio.Reader) (ExportHeader, error) {
	line, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return ExportHeader{}, fmt.Errorf("read export: %w", err)
	}
	var h ExportHeader
	if json.Unmarshal(line, &h) != nil || h.Format != exportFormat || h.Head.Store == "" {
		return ExportHeader{}, ErrNotExport
	}
	return h, nil
}

// exportRows yields the records of an export. A line that is not one is a row
// with a fault, in the place of the record that should stand there.
func exportRows(in *bufio.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for seq := int64(1); ; seq++ {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 {
				row := parseLine(bytes.TrimRight(line, "\r\n"), seq)
				seq = max(seq, row.Seq)
				if !yield(row, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
		}
	}
}

func parseLine(line []byte, seq int64) Row {
	rest, ok1 := bytes.CutPrefix(line, []byte(linePrefix))
	hash, rest, ok2 := bytes.Cut(rest, []byte(lineMiddle))
	canonical, ok3 := bytes.CutSuffix(rest, []byte(lineSuffix))
	if !ok1 || !ok2 || !ok3 {
		return Row{Seq: seq, Canonical: line, Hash: Hash(line), Fault: "line is not a record of an export"}
	}
	row := Row{Seq: seq, Canonical: canonical, Hash: string(hash)}
	if rec, err := Decode(canonical); err == nil {
		row.Seq, row.Decoded = rec.Seq, &rec
	}
	return row
}
