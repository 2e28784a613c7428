package job_test

import (
	"strings"
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
)

func BenchmarkDecode(b *testing.B) {
	for name, m := range map[string]broker.Message{
		"bare":     {Body: []byte(`{"orderId":"o-1","lines":[{"sku":"A1","qty":2}]}`)},
		"envelope": {Body: []byte(fullEnvelope)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				job.Decode(m, "q")
			}
		})
	}
}

// BenchmarkMapped decodes a message of a kibibyte with a mapping, as each of a run
// is on a queue that has one.
func BenchmarkMapped(b *testing.B) {
	mapping, err := job.NewMapping(map[string]string{"job_key": "body.operation_id"})
	if err != nil {
		b.Fatal(err)
	}
	m := broker.Message{
		Body:       []byte(`{"type":"order.created","operation_id":"op-000001","note":"` + strings.Repeat("x", 964) + `"}`),
		Attributes: []broker.Attribute{{Name: "error.type", Type: "String", Value: []byte("TimeoutError")}},
	}
	b.ReportAllocs()
	for b.Loop() {
		mapping.Decode(m, "q")
	}
}
