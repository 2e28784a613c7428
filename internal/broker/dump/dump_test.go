package dump_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
)

func read(t testing.TB, text string) ([]broker.Message, error) {
	t.Helper()
	var ms []broker.Message
	err := dump.Read(strings.NewReader(text), func(m broker.Message) error { ms = append(ms, m); return nil })
	return ms, err
}

const one = `{"MessageId":"m1","ReceiptHandle":"r","Attributes":{"SentTimestamp":"1790000000123","ApproximateFirstReceiveTimestamp":"1790000060456","ApproximateReceiveCount":"4","DeadLetterQueueSourceArn":"arn:aws:sqs:eu-west-1:1:orders","MessageGroupId":"g","AWSTraceHeader":"Root=1"},"MessageAttributes":{"n":{"DataType":"Number.int","StringValue":"7"},"b":{"DataType":"Binary","BinaryValue":"AP8="}},"Body":"{\"a\":1}"}`

var wantOne = broker.Message{
	Copy: broker.CopyID{ID: "m1"}, MessageID: "m1", Origin: "arn:aws:sqs:eu-west-1:1:orders", OrderKey: "g", Body: []byte(`{"a":1}`),
	Attributes: []broker.Attribute{{Name: "b", Type: "Binary", Value: []byte{0, 255}}, {Name: "n", Type: "Number.int", Value: []byte("7")}},
	System:     []broker.Attribute{{Name: "AWSTraceHeader", Type: "String", Value: []byte("Root=1")}},
	Receives:   4, SentAt: time.UnixMilli(1790000000123).UTC(), FirstReceivedAt: time.UnixMilli(1790000060456).UTC(),
}

func TestForms(t *testing.T) {
	t.Parallel()
	named := wantOne
	named.Copy.Entity = "orders-dlq"
	for name, c := range map[string]struct {
		text string
		want []broker.Message
	}{
		"nothing":            {"", nil},
		"white space":        {" \n", nil},
		"an object":          {one, []broker.Message{wantOne}},
		"a byte order mark":  {"\xef\xbb\xbf" + one, []broker.Message{wantOne}},
		"a list":             {"[" + one + ",\n" + one + "]", []broker.Message{wantOne, wantOne}},
		"an empty list":      {"[]", nil},
		"Messages":           {"{\n \"Messages\": [" + one + "," + one + "],\"NextToken\":{\"a\":[1,\"x]\"]},\"n\":12}", []broker.Message{wantOne, wantOne}},
		"Messages, last":     {`{"ResponseMetadata":{},"Messages":[` + one + `]}`, []broker.Message{wantOne}},
		"no Messages":        {`{"Messages":[]}`, nil},
		"lines":              {one + "\n" + one + "\r\n\n" + one, []broker.Message{wantOne, wantOne, wantOne}},
		"lines of Messages":  {`{"Messages":[` + one + "]}\n{\"Messages\":[" + one + "]}", []broker.Message{wantOne, wantOne}},
		"a sample's wrapper": {`{"sample":"x","broker":"sqs","queue":"orders-dlq","message":` + one + `,"expect":{}}`, []broker.Message{named}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(t, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"cut short":       {one[:50], "dump at byte 50 (message 0): unexpected EOF"},
		"second broken":   {one + "\n{\"a\":nope}", fmt.Sprintf("dump at byte %d (message 1): invalid character", len(one)+8)},
		"list cut short":  {"[" + one, "(message 1): unexpected EOF"},
		"no shape":        {`[` + one + `,{"a":1}]`, "dump, message 1 (before byte"},
		"a number":        {"12", "neither an object nor a list"},
		"number in list":  {"[12]", "message 0"},
		"garbage":         {"\x00\x01", "neither an object nor a list"},
		"half a message":  {`{"broker":"kafka","queue":"q","message":{"topic":"t"}}`, "not the form"},
		"a key twice":     {`{"MessageId":"a","Body":"x","Body":"y"}`, `key "Body" is given twice`},
		"bad base64":      {strings.Replace(one, "AP8=", "%%%", 1), `attribute "b": illegal base64`},
		"bad count":       {strings.Replace(one, `"4"`, `"four"`, 1), "ApproximateReceiveCount"},
		"deep":            {`{"Body":` + strings.Repeat("[", 20000), "nested deeper than 1000"},
		"record version":  {`{"record":"redrivectl/message/v9"}`, "unknown version"},
		"record field":    {`{"record":"redrivectl/message/v1","colour":"red"}`, "unknown field"},
		"wrapped forever": {strings.Repeat(`{"broker":"sqs","message":`, 9) + "{}" + strings.Repeat("}", 9), "not the form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestErrorOfEachEndsTheReading(t *testing.T) {
	t.Parallel()
	stop, n := errors.New("stop"), 0
	err := dump.Read(strings.NewReader(one+one), func(broker.Message) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("%v after %d", err, n)
	}
}

func TestRecordsAreLossless(t *testing.T) {
	t.Parallel()
	want := []broker.Message{
		wantOne,
		{},
		{
			Copy: broker.CopyID{Entity: "q", ID: "1"}, Body: []byte("\xff\x00\x1b]52;"), RawFormat: "amqp", Raw: []byte{1, 0, 255},
			Attributes: []broker.Attribute{{Name: "z", Type: "String", Value: []byte("1")}, {Name: "a", Type: "Binary.x", Value: []byte{255}}, {Name: "a", Type: "String", Value: []byte("2")}},
			System:     []broker.Attribute{{Name: broker.SystemReasonCode, Type: "String", Value: []byte("429")}},
			ExpiresAt:  time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
		},
	}
	got, err := read(t, exported(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.Transformer("empty", func(b []byte) string { return string(b) })); d != "" {
		t.Error(d)
	}
}

// lines yields n messages without holding them.
type lines struct {
	n    int
	rest []byte
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.n == 0 {
			return 0, io.EOF
		}
		l.n--
		l.rest = []byte(one + "\n")
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func TestManyLinesAreStreamed(t *testing.T) {
	t.Parallel()
	n := 0
	if err := dump.Read(&lines{n: 20_000}, func(broker.Message) error { n++; return nil }); err != nil || n != 20_000 {
		t.Errorf("%d messages, %v", n, err)
	}
}

func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("../../job/testdata/samples/*.json")
	if err != nil || len(paths) == 0 {
		f.Fatal("no samples", err)
	}
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"Messages":[` + one + `],"x":[}`))
	f.Add([]byte(`{"queue":"","message":{"MessageAttributes":{"0":{"DataType":"` + "\xf8" + `"}},"Body":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var ms []broker.Message
		if dump.Read(bytes.NewReader(text), func(m broker.Message) error { ms = append(ms, m); return nil }) != nil {
			return
		}
		ms = slices.DeleteFunc(ms, func(m broker.Message) bool { // an export refuses it, rather than losing it
			err := dump.NewExporter(io.Discard).Add(m)
			return err != nil && strings.Contains(err.Error(), "is no UTF-8")
		})
		if len(ms) == 0 {
			return
		}
		again, err := read(t, exported(t, ms))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ms, again, cmp.Transformer("empty", func(b []byte) string { return string(b) })); d != "" {
			t.Error(d)
		}
	})
}

// FuzzLook looks at any bytes: what Read takes, Look takes in the same way, and
// what it cannot read it says so of, and keeps.
func FuzzLook(f *testing.F) {
	f.Add([]byte(one + "\n{\"a\": \"b\n" + one))
	f.Add([]byte("[" + one + ", nope, " + one + "]"))
	f.Add([]byte(`{"receivedMessages":[{"message":{"data":"eA==","messageId":"1"},"ackId":"a"},{"topic":"t","partition":1,"offset":2,"headers":["a"]}]}`))
	f.Add([]byte(`{"payload":"\ud83d\ude00\ud800","routing_key":"","properties":{"headers":{"x-death":[{"count":-1}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var strict, lenient []broker.Message
		strictErr := dump.Read(bytes.NewReader(text), func(m broker.Message) error { strict = append(strict, m); return nil })
		err := dump.Look(bytes.NewReader(text), func(m broker.Message) error { lenient = append(lenient, m); return nil })
		if strictErr == nil {
			if d := cmp.Diff(strict, lenient); d != "" || err != nil {
				t.Fatal(err, d)
			}
		}
		if len(lenient) < len(strict) {
			t.Errorf("%d messages, where reading strictly gives %d", len(lenient), len(strict))
		}
		read := 0
		for _, m := range lenient {
			if why := unreadable(m); why == "" {
				read++
			} else if m.MessageID == "" || !bytes.Contains(text, m.Body) {
				t.Errorf("%q is not kept: %+v", why, m)
			}
		}
		if len(lenient) > 0 && read == 0 {
			t.Error("nothing could be read, and it is taken for a dump")
		}
	})
}

// unreadable is why an entry could not be read, empty for one that could.
func unreadable(m broker.Message) string {
	for _, a := range m.System {
		if a.Name == broker.SystemUnreadable {
			return string(a.Value)
		}
	}
	return ""
}
