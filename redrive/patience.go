package redrive

import (
	"sync"
	"time"
)

// patience is how long the batches of a sweep wait, all together, for copies that
// do not come: if each waited by itself, what one of them asks for alone would be
// waited for as often as there are batches.
type patience struct {
	tries int           // receives without anything new before what is open counts as gone
	every time.Duration // two that count are that far apart, whoever made them
	now   func() time.Time

	mu     sync.Mutex
	misses int
	missed time.Time // the last receive that counted
	since  time.Time // when something new came, or the sweep began
}

func (s *session) newPatience() *patience {
	return &patience{tries: max(s.EmptyTries, 1), every: s.EmptyWait, now: s.Now, since: s.Now()}
}

// arrival is what a receive brought.
type arrival int

const (
	nothing arrival = iota
	// others: some copies that are not of the plan. They may be all that was behind
	// it, or have only just died.
	others
	// much: copies of the plan, or as many others as were asked for, behind which
	// there may be more.
	much
)

// renew says that there may be more where that came from.
func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.misses, p.since = 0, p.now()
}

// waited is how long nothing new has come.
func (p *patience) waited() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now().Sub(p.since)
}

// miss says that a receive did not bring what nobody else may have.
func (p *patience) miss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); p.misses == 0 || now.Sub(p.missed) >= p.every {
		p.misses, p.missed = p.misses+1, now
	}
}

// over reports that what has not come counts as gone.
func (p *patience) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.misses >= p.tries
}
