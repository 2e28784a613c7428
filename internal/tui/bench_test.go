package tui

import (
	"fmt"
	"testing"
	"time"
)

// manyJobs is a desk with one queue of n jobs.
func manyJobs(n int) *fakeDesk {
	d := newFakeDesk()
	l := Look{Queue: "digests", At: noon, Total: int64(n), Classes: []Class{{Name: "throttled", Count: n}}}
	for i := range n {
		l.Jobs = append(l.Jobs, Job{
			ID: fmt.Sprintf("c%07d", i), JobKey: fmt.Sprintf("digest:2026-W09:customer-%07d:v1", i), MessageID: fmt.Sprintf("m-%d", i),
			Class: "throttled", Effect: "none", Action: "redrive", Reason: "429: provider answered 429", Region: "eu-west", At: noon.Add(-time.Duration(i*7919%n) * time.Second),
		})
	}
	d.looks["digests"] = l
	return d
}

// walk is one round of keys in a list, with the screen drawn after each.
func (x *driver) walk() {
	for _, name := range []string{"down", "down", "pgdown", "pgdown", "end", "up", "pgup", "home", "down", "?", "?"} {
		x.s.update(keyNamed(name))
		_ = x.s.View()
	}
}

// BenchmarkLongList tells what keys and drawing cost with 100,000 jobs in place of
// 1,000, both measured in turns in one run.
func BenchmarkLongList(b *testing.B) {
	compare(b, drive(b, manyJobs(1_000), "digests").size(200, 60).press("enter"), drive(b, manyJobs(100_000), "digests").size(200, 60).press("enter"))
}

// BenchmarkManyVerdicts is the same for the verdicts of a reconciliation.
func BenchmarkManyVerdicts(b *testing.B) {
	compare(b, manyVerdicts(b, 1_000), manyVerdicts(b, 100_000))
}

// BenchmarkLongPlan is the same for the items of a plan.
func BenchmarkLongPlan(b *testing.B) {
	compare(b, longPlan(b, 1_000), longPlan(b, 100_000))
}

func manyVerdicts(b *testing.B, n int) *driver {
	b.Helper()
	d := newFakeDesk()
	d.verdicts = nil
	for i := range n {
		d.verdicts = append(d.verdicts, Verdict{fmt.Sprintf("digest:2026-W09:customer-%07d:v1", i), "not_accepted", "the provider has no record of it"})
	}
	return drive(b, d, "digests").size(200, 60).press("c", "y")
}

func longPlan(b *testing.B, n int) *driver {
	b.Helper()
	d := newFakeDesk()
	for i := range n {
		d.rows = append(d.rows, Row{"", fmt.Sprintf("digest:2026-W09:customer-%07d:v1  redrive  throttled", i)})
	}
	return drive(b, d, "digests").size(200, 60).press("a", "enter")
}

// compare walks on both screens in turns, and tells how much more the second costs.
func compare(b *testing.B, few, many *driver) {
	b.Helper()
	few.walk()
	many.walk()
	var spent [2]time.Duration
	for b.Loop() {
		for i, x := range []*driver{few, many} {
			began := time.Now()
			x.walk()
			spent[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "many/few")
	b.ReportMetric(float64(spent[1].Microseconds())/float64(b.N)/11, "µs/key")
}
