package job_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/dump"
	"github.com/redrivectl/redrivectl/internal/job"
)

type sample struct {
	Broker string `json:"broker"`
	Queue  string `json:"queue"`
	Expect struct {
		ReasonType  *string `json:"reason_type"`
		ReasonField *string `json:"reason_field"`
		Redrive     string  `json:"redrive"`
		Redrivable  bool    `json:"redrivable"`
		JobKey      string  `json:"job_key"`
		Version     any     `json:"version"`
		Attempt     *int    `json:"attempt"`
	} `json:"expect"`
}

func readSample(t *testing.T, path string) (sample, job.Job) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	var ms []broker.Message
	if err := dump.Read(strings.NewReader(string(raw)), func(m broker.Message) error { ms = append(ms, m); return nil }); err != nil || len(ms) != 1 {
		t.Fatalf("dump.Read: %d messages, %v", len(ms), err)
	}
	return s, job.Decode(ms[0], s.Queue)
}

func TestSamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/samples/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s, j := readSample(t, path)
			want := s.Expect
			if got := j.Failure.Type; got != deref(want.ReasonType) {
				t.Errorf("reason type %q, want %q", got, deref(want.ReasonType))
			}
			if got := j.Failure.Field; strings.HasPrefix(s.Broker, "sqs") && got != deref(want.ReasonField) {
				t.Errorf("reason field %q, want %q", got, deref(want.ReasonField))
			}
			if j.Redrivable != want.Redrivable {
				t.Errorf("redrivable %v, want %v", j.Redrivable, want.Redrivable)
			}
			if wrapped := strings.HasPrefix(want.Redrive, "unwrap:"); wrapped != (j.Original != nil) {
				t.Errorf("original %+v, redrive is %q", j.Original, want.Redrive)
			}
			if want.JobKey != j.JobKey {
				t.Errorf("job key %q, want %q", j.JobKey, want.JobKey)
			}
			if want.Attempt != nil && (j.AttemptOnCopy == nil || *j.AttemptOnCopy != *want.Attempt || j.Version != "8" || j.Subject != "ship-881" || j.CustomerID != "sub-17") {
				t.Errorf("identity of the retry envelope: %+v", j)
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
