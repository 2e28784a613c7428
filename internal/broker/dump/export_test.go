package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
)

func exported(t *testing.T, ms []broker.Message) string {
	t.Helper()
	var out bytes.Buffer
	e := dump.NewExporter(&out)
	for _, m := range ms {
		if err := e.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Finish(dump.Trailer{Queue: "dlq", Selection: "--class timeout", Why: "stopped"}); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != e.Bytes() || e.Count() != int64(len(ms)) {
		t.Errorf("%d bytes are told to be %d, %d messages %d", out.Len(), e.Bytes(), len(ms), e.Count())
	}
	return out.String()
}

func exportable() []broker.Message {
	var ms []broker.Message
	for i := range 3 {
		ms = append(ms, broker.Message{
			Copy: broker.CopyID{Entity: "dlq", ID: fmt.Sprint(i + 1)}, MessageID: fmt.Sprintf("m-%d", i), Origin: "jobs",
			OrderKey: "redrivectl/export/v1", Body: []byte("\xff\x00\n{\"record\":\"redrivectl/export/v1\"}"), Raw: []byte{},
			Attributes: []broker.Attribute{{Name: "b", Type: "Binary.gzip", Value: []byte{0, 0xff}}, {Name: "a", Type: "Number", Value: []byte{}}},
			System:     []broker.Attribute{{Name: broker.SystemReasonType, Type: "String", Value: []byte("x")}},
			Receives:   i, SentAt: time.Date(2026, 5, 1, 2, 3, 4, 5, time.UTC),
		})
	}
	ms[0].Body = []byte{}
	return ms
}

func TestExport(t *testing.T) {
	t.Parallel()
	for _, ms := range [][]broker.Message{nil, exportable()} {
		text := exported(t, ms)
		var got []broker.Message
		keep := func(m broker.Message) error { got = append(got, m); return nil }
		trailer, err := dump.ReadExport(strings.NewReader(text), keep)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ms, got); d != "" {
			t.Error(d)
		}
		want := dump.Trailer{
			Record: "redrivectl/export/v1", Queue: "dlq", Selection: "--class timeout", Count: int64(len(ms)), Why: "stopped", SHA256: trailer.SHA256,
		}
		if d := cmp.Diff(want, trailer); d != "" || len(trailer.SHA256) != 64 {
			t.Errorf("%s %q", d, trailer.SHA256)
		}
		got = nil
		if err := dump.Read(strings.NewReader(text), keep); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ms, got); d != "" {
			t.Errorf("read as a dump: %s", d)
		}
	}
}

// TestExportCut: an export that was cut anywhere is no export.
func TestExportCut(t *testing.T) {
	t.Parallel()
	text := exported(t, exportable())
	for n := range len(text) {
		_, err := dump.ReadExport(strings.NewReader(text[:n]), func(broker.Message) error { return nil })
		if !errors.Is(err, dump.ErrCut) {
			t.Fatalf("cut at %d of %d: %v", n, len(text), err)
		}
	}
}

func TestExportDamaged(t *testing.T) {
	t.Parallel()
	text := exported(t, exportable())
	lines := strings.SplitAfter(text, "\n")
	tests := map[string]string{
		"a record is gone":     strings.Join(lines[1:], ""),
		"a record twice":       lines[0] + text,
		"records swapped":      lines[1] + lines[0] + strings.Join(lines[2:], ""),
		"a record was changed": strings.Replace(text, `"receives":1`, `"receives":7`, 1),
		"another count":        strings.Replace(text, `"count":3`, `"count":4`, 1),
		"two exports":          text + text,
	}
	for name, damaged := range tests {
		_, err := dump.ReadExport(strings.NewReader(damaged), func(broker.Message) error { return nil })
		if !errors.Is(err, dump.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, other := range map[string]string{
		"no JSON":        "hello\n",
		"another dump":   `{"Messages":[]}` + "\n",
		"a newer record": strings.Replace(text, "message/v1", "message/v2", 1),
		"a newer field":  strings.Replace(text, `"receives":1`, `"receives":1,"new":true`, 1),
	} {
		_, err := dump.ReadExport(strings.NewReader(other), func(broker.Message) error { return nil })
		if err == nil || errors.Is(err, dump.ErrCut) || errors.Is(err, dump.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExportRefuses: what a record would lose something of is not written.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]broker.Message{
		"message ID":     {MessageID: "\xff"},
		"attribute name": {Attributes: []broker.Attribute{{Name: "\xff"}}},
		"system type":    {System: []broker.Attribute{{Name: "a", Type: "\xc3\x28"}}},
	} {
		var out bytes.Buffer
		if err := dump.NewExporter(&out).Add(m); err == nil {
			t.Errorf("%s: exported", name)
		}
	}
	if err := dump.NewExporter(&bytes.Buffer{}).Add(broker.Message{Body: make([]byte, dump.MaxRecord*3/4+1)}); err == nil {
		t.Error("a record that cannot be read back was written")
	}
}
