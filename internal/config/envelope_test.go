package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

// TestEnvelopeHasEveryField holds the keys of the file to the fields of a job.
func TestEnvelopeHasEveryField(t *testing.T) {
	t.Parallel()
	filled := Envelope{
		JobKey: "x", Subject: "x", Version: "x", Kind: "x", Channel: "x", CustomerID: "x", CustomerStatus: "x", Period: "x", Region: "x",
		SchemaVersion: "x", DeploymentID: "x", TraceContext: "x", Attempt: "x", QuarantinedBy: "x", Payload: "x",
		Failure: EnvelopeFailure{Type: "x", Code: "x", Message: "x", At: "x"},
	}
	var got []string
	for name := range filled.expressions() {
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(job.MappedFields(), got); diff != "" {
		t.Errorf("fields (-job +config):\n%s", diff)
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "queues:\n  q: {envelope: {job_key: body.id}}\n  r: {}\n")
	m := broker.Message{Body: []byte(`{"id":7}`)}
	if j := c.Mapping("q").Decode(m, "q"); j.JobKey != "7" {
		t.Errorf("mapped: %q", j.JobKey)
	}
	if j := c.Mapping("r").Decode(m, "r"); j.JobKey != "" {
		t.Errorf("not mapped: %q", j.JobKey)
	}
}
