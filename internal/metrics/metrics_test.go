package metrics

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	s := NewSet([]Definition{
		{"b_jobs", Gauge, []string{"queue", "class"}, "Jobs."},
		{"a_sent_total", Counter, nil, "Sent \\ so far."},
		{"c_seconds", Histogram, []string{"queue"}, "Time."},
		{"d_never", Gauge, nil, "Not known."},
	})
	s.Add("b_jobs", 2, "q", "timeout")
	s.Add("b_jobs", 0, "q", "auth")
	s.Add("b_jobs", 1, "q", "timeout")
	s.Add("a_sent_total", 4)
	h := NewBuckets(1, 5)
	for _, v := range []float64{1, 2, 9} {
		h.Observe(v)
	}
	s.Distribution("c_seconds", h, `a"b`)
	var got strings.Builder
	if err := s.Write(&got); err != nil {
		t.Fatal(err)
	}
	want := `# HELP a_sent_total Sent \\ so far.
# TYPE a_sent_total counter
a_sent_total 4
# HELP b_jobs Jobs.
# TYPE b_jobs gauge
b_jobs{queue="q",class="auth"} 0
b_jobs{queue="q",class="timeout"} 3
# HELP c_seconds Time.
# TYPE c_seconds histogram
c_seconds_bucket{queue="a\"b",le="1"} 1
c_seconds_bucket{queue="a\"b",le="5"} 2
c_seconds_bucket{queue="a\"b",le="+Inf"} 3
c_seconds_sum{queue="a\"b"} 12
c_seconds_count{queue="a\"b"} 3
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

func TestUndefinedPanics(t *testing.T) {
	t.Parallel()
	for _, labels := range [][]string{nil, {"a", "b"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d labels were taken", len(labels))
				}
			}()
			NewSet([]Definition{{"a", Gauge, []string{"queue"}, "A."}}).Add("a", 1, labels...)
		}()
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for q, want := range map[float64]float64{0: 1, 0.5: 2, 0.51: 3, 0.95: 4, 1: 4} {
		if got := Quantile([]float64{4, 1, 3, 2}, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing is %v", got)
	}
}
