package job

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// form reads a canonical form back, so that tests can prove that nothing is
// lost in it.
type form struct{ rest []byte }

func (f *form) text(t *testing.T) string {
	t.Helper()
	n := f.count(t)
	if n > uint64(len(f.rest)) {
		t.Fatal(errors.New("form is cut short"))
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}

func (f *form) count(t *testing.T) uint64 {
	t.Helper()
	n := binary.BigEndian.Uint64(f.rest)
	f.rest = f.rest[8:]
	return n
}

func (f *form) attributes(t *testing.T) []broker.Attribute {
	t.Helper()
	var as []broker.Attribute
	for range f.count(t) {
		as = append(as, broker.Attribute{Name: f.text(t), Type: f.text(t), Value: []byte(f.text(t))})
	}
	return as
}

func (f *form) message(t *testing.T) broker.Message {
	t.Helper()
	if v := f.text(t); v != hashVersion {
		t.Fatalf("version %q", v)
	}
	return broker.Message{OrderKey: f.text(t), Body: []byte(f.text(t)), Attributes: f.attributes(t), System: f.attributes(t), RawFormat: f.text(t), Raw: []byte(f.text(t))}
}

func FuzzCanonical(f *testing.F) {
	f.Add("g", []byte("body"), "a", "String", []byte("1"), "b", []byte("trace"), "amqp", []byte{0})
	f.Add("", []byte{}, "", "", []byte{}, "", []byte{}, "", []byte{})
	f.Fuzz(func(t *testing.T, key string, body []byte, name, typ string, value []byte, name2 string, trace []byte, rawFormat string, raw []byte) {
		if name > name2 {
			name, name2 = name2, name
		}
		want := broker.Message{
			OrderKey: key, Body: body, RawFormat: rawFormat, Raw: raw,
			Attributes: []broker.Attribute{{Name: name, Type: typ, Value: value}, {Name: name2, Type: typ, Value: body}},
			System:     []broker.Attribute{{Name: broker.SystemTraceHeader, Type: typ, Value: trace}},
		}
		b := &form{canonical(want)}
		got := b.message(t)
		if d := cmp.Diff(want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); d != "" || len(b.rest) != 0 {
			t.Errorf("%d bytes left\n%s", len(b.rest), d)
		}
	})
}

func TestMessageHash(t *testing.T) {
	t.Parallel()
	base := broker.Message{Body: []byte("b"), OrderKey: "g", Attributes: []broker.Attribute{{Name: "x", Type: "String", Value: []byte("1")}, {Name: "y", Type: "Number", Value: []byte("2")}}}
	same := base
	same.Attributes = []broker.Attribute{base.Attributes[1], base.Attributes[0]}
	same.Receives, same.MessageID, same.System = 9, "other", []broker.Attribute{{Name: broker.SystemReasonType, Value: []byte("x")}}
	if Decode(base, "q").MessageSHA256 != Decode(same, "q").MessageSHA256 {
		t.Error("the hash depends on what differs from copy to copy")
	}
	for name, change := range map[string]func(*broker.Message){
		"body":  func(m *broker.Message) { m.Body = []byte("c") },
		"group": func(m *broker.Message) { m.OrderKey = "h" },
		"type": func(m *broker.Message) {
			m.Attributes = []broker.Attribute{{Name: "x", Type: "Binary", Value: []byte("1")}, base.Attributes[1]}
		},
		"moved bytes": func(m *broker.Message) {
			m.Attributes = []broker.Attribute{{Name: "xS", Type: "tring", Value: []byte("1")}, base.Attributes[1]}
		},
		"trace": func(m *broker.Message) {
			m.System = []broker.Attribute{{Name: broker.SystemTraceHeader, Value: []byte("r")}}
		},
	} {
		other := base
		change(&other)
		if Decode(base, "q").MessageSHA256 == Decode(other, "q").MessageSHA256 {
			t.Errorf("%s: not in the hash", name)
		}
	}
	if h := Decode(base, "q").BodySHA256; !strings.HasPrefix(h, "3e23e816") {
		t.Errorf("body hash %s", h)
	}
}

// FuzzParseObject compares the cutting of objects with the standard library.
func FuzzParseObject(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[1,{"c":"}"}],"d":"\"\\"}`, ` { "a" : { } , "é\u0041" : "x" } `, `{}`, `{"a":}`, `[1]`, `{"a":1,"a":-2.5e3}`, ``, `"x"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want := map[string]json.RawMessage{}
		wantErr := json.Unmarshal(raw, &want)
		got, err := parseObject(raw)
		switch {
		case err != nil && !errors.Is(err, errDuplicate):
			if wantErr == nil && checkNesting(raw) == nil && string(bytes.TrimSpace(raw)) != "null" {
				t.Errorf("%q refused: %v", raw, err)
			}
		case wantErr != nil:
			t.Errorf("%q accepted: %v", raw, wantErr)
		default:
			if d := cmp.Diff(want, map[string]json.RawMessage(got)); d != "" {
				t.Error(d)
			}
		}
	})
}
