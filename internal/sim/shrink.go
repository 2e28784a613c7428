package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Explain runs a schedule that breaks a promise again and again with ever fewer
// faults, as long as it breaks the same one, and gives the smallest with its
// trace. The same seed gives the same explanation.
func Explain(seed uint64) (Result, error) {
	best, err := Run(Options{Seed: seed})
	if err != nil || best.Broken == nil {
		return best, err
	}
	without := map[int]bool{}
	for n := len(best.struck); n > 0; n /= 2 {
		for part := range slices.Chunk(slices.Clone(best.struck), n) {
			fewer := withoutThese(without, part)
			r, err := Run(Options{Seed: seed, without: fewer})
			if err != nil {
				return r, err
			}
			if r.Broken != nil && r.Broken.Promise == best.Broken.Promise {
				best, without = r, fewer
			}
		}
	}
	r, err := Run(Options{Seed: seed, Trace: true, without: without})
	r.Trace = shortened(r)
	return r, err
}

func withoutThese(without map[int]bool, these []int) map[int]bool {
	all := map[int]bool{}
	for n := range without {
		all[n] = true
	}
	for _, n := range these {
		all[n] = true
	}
	return all
}

// shortened is the part of a trace that is about the job of the violation, with
// the faults and the processes' commands; all of it where no job is named.
func shortened(r Result) string {
	if r.Broken == nil {
		return r.Trace
	}
	lines := strings.Split(r.Trace, "\n")
	var names []string
	for w := range strings.FieldsSeq(r.Broken.What) {
		if w = strings.Trim(w, ",:"); strings.HasPrefix(w, "job-") || strings.HasPrefix(w, deadName+"/") {
			names = append(names, w)
		}
	}
	about := func(line string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(line, n) })
	}
	for _, line := range slices.Clone(lines) { // a copy is known by its job as well
		if _, after, ok := strings.Cut(line, " of job-"); ok && about(line) {
			names = append(names, "job-"+strings.TrimRight(strings.Fields(after)[0], ":,"))
		}
	}
	if len(names) == 0 {
		return r.Trace
	}
	var kept []string
	left := 0
	for _, line := range lines {
		if about(line) || strings.Contains(line, "!!") || strings.Contains(line, "##") || strings.Contains(line, " run") {
			kept = append(kept, line)
			continue
		}
		left++
	}
	return strings.Join(kept, "\n") + fmt.Sprintf("\n(%d lines about other jobs left out; %d faults)\n", left, len(r.struck))
}
