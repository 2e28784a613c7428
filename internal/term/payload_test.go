package term

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPayload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		o    PayloadOptions
		want Rendering
	}{
		"empty": {"", PayloadOptions{}, Rendering{Form: FormEmpty}},
		"JSON": {
			`{"b":1.50,"a":"x\u001b","password":"p"}`,
			PayloadOptions{},
			Rendering{Form: FormJSON, Text: "{\n  \"b\": 1.50,\n  \"a\": \"x\\u001b\",\n  \"password\": \"***\"\n}", Bytes: 39, Masked: true},
		},
		"JSON, revealed": {
			`{"password":"p"}`,
			PayloadOptions{Reveal: true},
			Rendering{Form: FormJSON, Text: "{\n  \"password\": \"p\"\n}", Bytes: 16},
		},
		"text": {
			"a\r\nb\x1b[2J\u202e",
			PayloadOptions{},
			Rendering{Form: FormText, Text: "a\nb\\x1b[2J\\u202e", Bytes: 11},
		},
		"text with a secret": {
			"token=abc",
			PayloadOptions{},
			Rendering{Form: FormText, Text: "token=***", Bytes: 9, Masked: true},
		},
		"not UTF-8": {
			"\xff\x00\x1b",
			PayloadOptions{},
			Rendering{Form: FormHex, Text: "ff001b", Bytes: 3},
		},
		"not UTF-8, with a secret": {
			"\xfftoken=abc",
			PayloadOptions{},
			Rendering{Form: FormHex, Text: "ff746f6b656e3d2a2a2a", Bytes: 10, Masked: true},
		},
		"cut at a character": {
			"aéé",
			PayloadOptions{Max: 4},
			Rendering{Form: FormText, Text: "aé", Bytes: 5, Cut: true},
		},
		"nested too deep": {
			strings.Repeat("[", maxJSONDepth+1) + strings.Repeat("]", maxJSONDepth+1),
			PayloadOptions{Max: 3},
			Rendering{Form: FormText, Text: "[[[", Bytes: 2*maxJSONDepth + 2, Cut: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Payload([]byte(c.in), c.o)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPayloadIsBounded(t *testing.T) {
	t.Parallel()
	line := Payload(bytes.Repeat([]byte("x"), 1<<20), PayloadOptions{})
	if len(line.Text) != DefaultPayloadMax || !line.Cut || line.Bytes != 1<<20 {
		t.Errorf("one line of 1 MiB: %d bytes of text, cut %v, of %d", len(line.Text), line.Cut, line.Bytes)
	}
	huge := Payload(make([]byte, maxPayloadRead+1), PayloadOptions{})
	want := Rendering{Form: FormText, Text: "(4.0 MiB, too large to be shown)", Bytes: maxPayloadRead + 1, Cut: true}
	if diff := cmp.Diff(want, huge); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte("\xff\x1b[2J"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		r := Payload(b, PayloadOptions{Max: 100})
		if i := strings.IndexFunc(strings.ReplaceAll(r.Text, "\n", ""), forbidden); i >= 0 {
			t.Errorf("Payload(%q) = %q lets a control character through", b, r.Text)
		}
		if len(r.Text) > 100 || r.Bytes != len(b) || !bytes.Equal(b, before) {
			t.Errorf("Payload(%q) = %+v", before, r)
		}
	})
}
