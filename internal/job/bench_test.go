package job_test

import (
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
