// Package metrics holds figures until they are written in the text exposition
// format of Prometheus. It knows no figure by name: whoever defines them says
// what each is called, and which labels it has.
package metrics

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Kind is what a figure may do from one scrape to the next.
type Kind string

// A gauge goes up and down, a counter only up, and so do a histogram's counts.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// Definition is one figure as the help and the documentation name it.
type Definition struct {
	Name   string
	Kind   Kind
	Labels []string // in the order in which Add and Distribution take their values
	Help   string
}

// Set is the figures of one collection. It is for one goroutine.
type Set struct {
	defs     map[string]Definition
	families map[string]map[string]*dto.Metric // name → label values → series
}

// NewSet makes an empty set of these figures. What is never added is not written.
func NewSet(defs []Definition) *Set {
	s := &Set{defs: map[string]Definition{}, families: map[string]map[string]*dto.Metric{}}
	for _, d := range defs {
		s.defs[d.Name] = d
	}
	return s
}

// Add adds v to one series, which begins at 0: so 0 makes it known. A figure that
// is not defined, and labels that it does not have, are mistakes of the program
// and panic.
func (s *Set) Add(name string, v float64, labels ...string) {
	m := s.series(name, labels)
	if s.defs[name].Kind == Counter {
		if m.Counter == nil {
			m.Counter = &dto.Counter{Value: new(float64)}
		}
		*m.Counter.Value += v
		return
	}
	if m.Gauge == nil {
		m.Gauge = &dto.Gauge{Value: new(float64)}
	}
	*m.Gauge.Value += v
}

// Distribution sets one series of a histogram.
func (s *Set) Distribution(name string, d *Buckets, labels ...string) {
	s.series(name, labels).Histogram = d.written()
}

func (s *Set) series(name string, labels []string) *dto.Metric {
	d, ok := s.defs[name]
	if !ok || len(labels) != len(d.Labels) {
		panic(fmt.Sprintf("metric %s with %d labels is not defined", name, len(labels)))
	}
	family := s.families[name]
	if family == nil {
		family = map[string]*dto.Metric{}
		s.families[name] = family
	}
	key := strings.Join(labels, "\x00")
	m := family[key]
	if m == nil {
		m = &dto.Metric{}
		for i, value := range labels {
			m.Label = append(m.Label, &dto.LabelPair{Name: &d.Labels[i], Value: &value})
		}
		family[key] = m
	}
	return m
}

// Write writes the figures in the text format, version 0.0.4, sorted by name and
// labels, so that the same figures are the same bytes.
func (s *Set) Write(w io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		d := s.defs[name]
		f := &dto.MetricFamily{Name: &d.Name, Help: &d.Help, Type: typeOf(d.Kind)}
		for _, key := range slices.Sorted(maps.Keys(s.families[name])) {
			f.Metric = append(f.Metric, s.families[name][key])
		}
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return fmt.Errorf("write metric %s: %w", name, err)
		}
	}
	return nil
}

// ContentType is what Write writes, as HTTP names it.
func ContentType() string { return string(expfmt.NewFormat(expfmt.TypeTextPlain)) }

func typeOf(k Kind) *dto.MetricType {
	switch k {
	case Counter:
		return dto.MetricType_COUNTER.Enum()
	case Histogram:
		return dto.MetricType_HISTOGRAM.Enum()
	default:
		return dto.MetricType_GAUGE.Enum()
	}
}

// Buckets counts observations up to each of some bounds.
type Buckets struct {
	bounds []float64
	counts []uint64
	n      uint64
	sum    float64
}

// NewBuckets has the given upper bounds, in ascending order; there is always one
// more that takes all.
func NewBuckets(bounds ...float64) *Buckets {
	return &Buckets{bounds: bounds, counts: make([]uint64, len(bounds))}
}

// Observe counts v.
func (b *Buckets) Observe(v float64) {
	b.n++
	b.sum += v
	for i, bound := range b.bounds {
		if v <= bound {
			b.counts[i]++
		}
	}
}

func (b *Buckets) written() *dto.Histogram {
	n, sum := b.n, b.sum
	h := &dto.Histogram{SampleCount: &n, SampleSum: &sum}
	for i := range b.bounds {
		bound, count := b.bounds[i], b.counts[i]
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: &bound, CumulativeCount: &count})
	}
	return h
}

// Quantile is the value that a part q (0 to 1) of the values does not exceed, by
// the nearest rank; NaN of none. It sorts values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	rank := int(math.Ceil(q * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}
