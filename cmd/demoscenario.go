package cmd

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

// demoPhase is the part of the outage that a job meets.
type demoPhase int

const (
	demoBefore       demoPhase = iota // sent before anything was wrong
	demoMisbehaving                   // the provider answers, but not well
	demoKilledAfter                   // the worker is killed after the provider accepted
	demoKilledBefore                  // the worker is killed between claim and send
	demoDown                          // nothing listens where the provider was
	demoAfter                         // sent when all was well again
)

// demoKind is what a job is about.
type demoKind string

const (
	demoDigest   demoKind = "weekly_digest"
	demoShipment demoKind = "shipment_update"
)

const demoSchema = "2" // what the demo's workers can read

// demoJob is one job as the application enqueues it.
type demoJob struct {
	kind                      demoKind
	key, subject, version     string
	customer, region, schema  string
	broken, nameless, ancient bool
	fault                     providertest.Fault // what the provider will do to it
}

// demoScenario is one way to fail, and how many of the jobs meet it.
type demoScenario struct {
	share int // relative to the other scenarios
	most  int // 0: no bound
	phase demoPhase
	// faults are dealt in turn; without any the provider would accept.
	faults []providertest.Fault
	// shape changes what is wrong with the i-th job itself.
	shape func(i int, j *demoJob)
	// superseded: a newer version of the job's subject is sent, for every other
	// job before it was tried, else after it failed.
	superseded bool
}

// demoHang is longer than any claim.
const demoHang = time.Minute

// demoScenarios lists every way to fail; the first takes what is left over.
// Nothing here is told to a worker.
func demoScenarios() []demoScenario {
	return []demoScenario{
		{share: 34, phase: demoMisbehaving, faults: faults(providertest.Throttle)},
		{share: 26, phase: demoDown},
		{share: 24, phase: demoMisbehaving, faults: faults(providertest.AcceptThen500)},
		{share: 20, phase: demoMisbehaving, faults: append(refusals(500, 502), faults(providertest.Unavailable)...)},
		{share: 24, phase: demoMisbehaving, faults: faults(providertest.AcceptThenHangUp)},
		{share: 20, phase: demoMisbehaving, faults: faults(providertest.HangUp)},
		{share: 3, most: 4, phase: demoMisbehaving, faults: []providertest.Fault{{Kind: providertest.Slow, For: demoHang}}},
		{share: 6, most: 8, phase: demoKilledAfter, faults: []providertest.Fault{{Kind: providertest.Slow, For: demoHang}}},
		{share: 5, most: 8, phase: demoKilledBefore},
		{share: 20, phase: demoMisbehaving, faults: refusals(http.StatusUnauthorized, http.StatusForbidden)},
		{share: 12, phase: demoMisbehaving, faults: refusals(http.StatusNotFound, http.StatusGone)},
		{share: 14, phase: demoMisbehaving, faults: refusals(http.StatusBadRequest, http.StatusUnprocessableEntity)},
		{share: 10, phase: demoMisbehaving, shape: func(_ int, j *demoJob) { j.schema = "9" }},
		{share: 6, phase: demoMisbehaving, shape: func(i int, j *demoJob) { j.broken, j.nameless = true, i%2 == 1 }},
		{share: 8, phase: demoMisbehaving, faults: refusals(http.StatusNotImplemented, http.StatusMethodNotAllowed)},
		{share: 8, phase: demoMisbehaving, faults: faults(providertest.Throttle), superseded: true},
		{share: 8, phase: demoMisbehaving, faults: faults(providertest.Throttle), shape: func(_ int, j *demoJob) { j.ancient = true }},
		{share: 6, phase: demoMisbehaving, faults: refusals(http.StatusConflict)},
	}
}

func faults(kinds ...providertest.FaultKind) []providertest.Fault {
	fs := make([]providertest.Fault, len(kinds))
	for i, k := range kinds {
		fs[i].Kind = k
	}
	return fs
}

func refusals(statuses ...int) []providertest.Fault {
	fs := make([]providertest.Fault, len(statuses))
	for i, s := range statuses {
		fs[i] = providertest.Fault{Kind: providertest.Refuse, Status: s}
	}
	return fs
}

// demoAmounts shares n jobs out: one to each scenario, the rest by share.
func demoAmounts(n int, ss []demoScenario) []int {
	total, left := 0, n
	for _, s := range ss {
		total += s.share
	}
	amounts := make([]int, len(ss))
	for i, s := range ss {
		amounts[i] = 1 + (n-len(ss))*s.share/total
		if s.most > 0 {
			amounts[i] = min(amounts[i], s.most)
		}
		left -= amounts[i]
	}
	amounts[0] += left
	return amounts
}

// demoDeal is who meets what: the same for the same number and seed.
type demoDeal struct {
	rnd     *rand.Rand
	numbers []int // the customers' numbers that are not taken yet
	jobs    map[demoPhase][]demoJob
}

func dealDemo(n int, seed uint64) map[demoPhase][]demoJob {
	d := &demoDeal{rnd: rand.New(rand.NewPCG(seed, 0)), jobs: map[demoPhase][]demoJob{}} //nolint:gosec // A seeded source is the point.
	well := max(12, n/20)
	d.numbers = d.rnd.Perm(n + well)
	ss := demoScenarios()
	for i := range ss {
		ss[i].share += d.rnd.IntN(1 + ss[i].share/2)
	}
	for i, amount := range demoAmounts(n, ss) {
		d.deal(ss[i], amount)
	}
	for i := range well {
		phase := demoBefore
		if i >= well/2 {
			phase = demoAfter
		}
		d.jobs[phase] = append(d.jobs[phase], d.job(i))
	}
	for _, phase := range []demoPhase{demoMisbehaving, demoDown} {
		js := d.jobs[phase]
		d.rnd.Shuffle(len(js), func(i, k int) { js[i], js[k] = js[k], js[i] })
	}
	return d.jobs
}

func (d *demoDeal) deal(s demoScenario, amount int) {
	for i := range amount {
		j := d.job(i)
		if s.shape != nil {
			s.shape(i, &j)
		}
		if len(s.faults) > 0 {
			j.fault = s.faults[i%len(s.faults)]
			j.fault.OpID, j.fault.On = j.key, providertest.OnSend
		}
		d.jobs[s.phase] = append(d.jobs[s.phase], j)
		if s.superseded {
			phase := demoAfter
			if i%2 == 0 {
				phase = demoBefore
			}
			d.jobs[phase] = append(d.jobs[phase], j.newer())
		}
	}
}

// job makes the i-th job of its sort. Regions take turns, so that each sort
// touches both.
func (d *demoDeal) job(i int) demoJob {
	number := d.numbers[0] + 1
	d.numbers = d.numbers[1:]
	j := demoJob{customer: fmt.Sprintf("customer-%04d", number), version: "1", schema: demoSchema}
	j.region = []string{"eu-west", "us-east"}[i%2]
	if d.rnd.IntN(2) == 0 {
		j.kind, j.subject = demoDigest, fmt.Sprintf("digest:%s:%s", demoPeriod, j.customer)
	} else {
		j.kind, j.subject = demoShipment, fmt.Sprintf("shipment:%06d", 100000+number)
	}
	j.key = j.subject + ":v" + j.version
	return j
}

// newer is the next version of the job's subject, with which nothing is wrong.
func (j demoJob) newer() demoJob {
	j.version, j.fault = "2", providertest.Fault{}
	j.key = j.subject + ":v" + j.version
	return j
}
