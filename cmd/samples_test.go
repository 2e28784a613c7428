package cmd

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// runCLI runs one command line in this process, in an empty home, and returns
// its exit code and what it wrote.
func runCLI(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	home := t.TempDir()
	var out, errs bytes.Buffer
	code = Run(t.Context(), Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
		Getenv: func(name string) string {
			if v, ok := env[name]; ok {
				return v
			}
			return map[string]string{"HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}[name]
		},
	})
	return code, out.String(), errs.String()
}

// TestListSamples: list FILE --jobs -o json says of every sample what its
// "expect" says.
func TestListSamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../internal/job/testdata/samples/*.json")
	if err != nil || len(paths) < 37 {
		t.Fatalf("%d samples, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			want := sampleExpects(t, path)
			code, stdout, stderr := runCLI(t, nil, "list", path, "--jobs", "-o", "json")
			if code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var got struct {
				Total int       `json:"total"`
				Jobs  []jobView `json:"jobs"`
			}
			if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Jobs) != 1 || got.Total != 1 {
				t.Fatalf("%v in %s", err, stdout)
			}
			j := got.Jobs[0]
			if j.Class != want.Class || j.Redrivable != want.Redrivable || or(j.Reason.Type) != or(want.ReasonType) {
				t.Errorf("class %s, reason %s, redrivable %v; want %s, %s, %v",
					j.Class, or(j.Reason.Type), j.Redrivable, want.Class, or(want.ReasonType), want.Redrivable)
			}
			if want.JobKey != "" && or(j.JobKey) != want.JobKey {
				t.Errorf("job key %s, want %s", or(j.JobKey), want.JobKey)
			}
			want.fields(t, j)
		})
	}
}

type sampleExpect struct {
	Class         string  `json:"class"`
	ReasonType    *string `json:"reason_type"`
	Redrivable    bool    `json:"redrivable"`
	JobKey        string  `json:"job_key"`
	PayloadPath   string  `json:"payload_path"`
	AttemptsField string  `json:"attempts_field"`
	OriginField   string  `json:"origin_field"`
	DetailField   string  `json:"detail_field"`
	GroupField    string  `json:"group_by_field"`

	message json.RawMessage
}

// fields compares what the sample says where to find: the payload, how often it
// was tried, where it came from, the reason's text, what to group by.
func (want sampleExpect) fields(t *testing.T, j jobView) {
	t.Helper()
	if want.PayloadPath != "" {
		sum := sha256.Sum256(want.at(t, strings.TrimSuffix(want.PayloadPath, "|json")))
		if got := hex.EncodeToString(sum[:]); got != j.PayloadSHA256 {
			t.Errorf("payload %s, want that of %s, %s", j.PayloadSHA256, want.PayloadPath, got)
		}
	}
	if want.AttemptsField != "" {
		tried := string(want.at(t, want.AttemptsField))
		if strconv.Itoa(j.Receives) != tried && (j.AttemptOnCopy == nil || strconv.Itoa(*j.AttemptOnCopy) != tried) {
			t.Errorf("%d receives and attempt %v, want %s of one", j.Receives, j.AttemptOnCopy, tried)
		}
	}
	if want.OriginField != "" && !strings.Contains(want.OriginField, " + ") {
		if origin := string(want.at(t, want.OriginField)); or(j.Origin) != origin {
			t.Errorf("origin %s, want %s", or(j.Origin), origin)
		}
	}
	if want.DetailField != "" {
		if detail := string(want.at(t, want.DetailField)); or(j.Reason.Message) != detail {
			t.Errorf("reason's text %q, want %q", or(j.Reason.Message), detail)
		}
	}
	if want.GroupField != "" {
		if kind := string(want.at(t, want.GroupField)); or(j.Kind) != kind {
			t.Errorf("kind %s, want %s", or(j.Kind), kind)
		}
	}
}

// at follows a path of the samples through the message: names with dots between
// them, and decoders after a bar.
func (want sampleExpect) at(t *testing.T, path string) []byte {
	t.Helper()
	value := []byte(want.message)
	for step := range strings.SplitSeq(path, "|") {
		decoder, names, _ := strings.Cut(step, ".")
		switch decoder {
		case "json":
		case "base64":
			b, err := base64.StdEncoding.DecodeString(string(value))
			if err != nil {
				t.Fatal(path, err)
			}
			value = b
		case "gunzip":
			r, err := gzip.NewReader(bytes.NewReader(value))
			if err != nil {
				t.Fatal(path, err)
			}
			if value, err = io.ReadAll(r); err != nil {
				t.Fatal(path, err)
			}
		default:
			names = step
		}
		value = member(t, value, names)
	}
	return value
}

// member follows names into a JSON value. A name of the samples may itself have
// dots in it, so the longest that is there is taken.
func member(t *testing.T, value []byte, names string) []byte {
	t.Helper()
	for names != "" {
		var o map[string]json.RawMessage
		var inner string
		if json.Unmarshal(value, &inner) == nil {
			value = []byte(inner)
		}
		if value[0] == '[' {
			value = asHeaders(t, value)
		}
		if err := json.Unmarshal(value, &o); err != nil {
			t.Fatalf("%s: %v in %s", names, err, value)
		}
		name, index, rest := longest(o, names)
		if name == "" {
			t.Fatalf("no %s in %s", names, value)
		}
		value, names = o[name], rest
		if index {
			var list []json.RawMessage
			if err := json.Unmarshal(value, &list); err != nil {
				t.Fatal(err)
			}
			value = list[0]
		}
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text)
	}
	return value
}

func longest(o map[string]json.RawMessage, names string) (name string, index bool, rest string) {
	for k := range o {
		after, ok := strings.CutPrefix(names, k)
		if !ok || len(k) <= len(name) {
			continue
		}
		after, first := strings.CutPrefix(after, "[0]")
		if after == "" || after[0] == '.' {
			name, index, rest = k, first, strings.TrimPrefix(after, ".")
		}
	}
	return name, index, rest
}

// asHeaders makes an object of Kafka's list of headers.
func asHeaders(t *testing.T, list []byte) []byte {
	t.Helper()
	var hs []struct {
		Key   string `json:"key"`
		Value []byte `json:"value_base64"`
	}
	if err := json.Unmarshal(list, &hs); err != nil {
		t.Fatal(err)
	}
	o := map[string]string{}
	for _, h := range hs {
		o[h.Key] = string(h.Value)
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sampleExpects(t *testing.T, path string) sampleExpect {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Message json.RawMessage `json:"message"`
		Expect  sampleExpect    `json:"expect"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	s.Expect.message = s.Message
	return s.Expect
}
