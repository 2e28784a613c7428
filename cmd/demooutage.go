package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/provider/providertest"
)

const (
	demoCrews     = 2 // worker processes at once
	demoKillCrew  = 4 // workers of a process that is going to be killed
	demoKillLease = demoClaimLife + time.Second
)

// outage lets workers fail until every planned job is quarantined, and ends
// with everything in order again: a later send in each region has succeeded.
func (w *demoWorld) outage(ctx context.Context) error {
	w.chapter("An outage")
	well := func(phase demoPhase) int { return len(w.jobs[phase]) }
	for _, step := range []struct {
		tell string
		do   func(context.Context) error
	}{
		{fmt.Sprintf("The provider starts, and at first workers send %d jobs without trouble.", well(demoBefore)), w.beforeOutage},
		{"Then it misbehaves: it throttles, refuses, hangs, and answers 500 to what it has accepted.", w.misbehave},
		{"Workers are killed with SIGKILL: some after the provider has accepted, some before they sent.", w.killWorkers},
		{"The provider goes down. The workers try on.", w.goDown},
		{fmt.Sprintf("It is up again and well. The workers send %d more jobs.", well(demoAfter)), w.recoverProvider},
	} {
		w.say("%s", step.tell)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *demoWorld) beforeOutage(ctx context.Context) error {
	if err := w.startProvider(ctx, "--faults", demoOutageFile); err != nil {
		return err
	}
	return w.enqueueAndWork(ctx, demoBefore)
}

func (w *demoWorld) misbehave(ctx context.Context) error {
	return w.enqueueAndWork(ctx, demoMisbehaving)
}

func (w *demoWorld) startProvider(ctx context.Context, args ...string) error {
	var err error
	if w.provider, err = w.start(append([]string{"demo", "provider", "--dir", w.dir, "--until-eof"}, args...)...); err != nil {
		return err
	}
	err = w.provider.await(ctx, 1, demoListening)
	return err
}

func (w *demoWorld) enqueueAndWork(ctx context.Context, phase demoPhase) error {
	if err := w.enqueue(ctx, w.jobs[phase]); err != nil {
		return err
	}
	return w.work(ctx, func() (bool, string, error) { return w.drained(ctx) })
}

// work has worker processes work until look is done.
func (w *demoWorld) work(ctx context.Context, look func() (bool, string, error)) error {
	ps := []*demoProcess{w.provider}
	for range demoCrews {
		p, err := w.start("demo", "worker", "--dir", w.dir, "--until-eof")
		if err != nil {
			return err
		}
		ps = append(ps, p)
	}
	if w.provider == nil {
		ps = ps[1:]
	}
	if err := awaitStill(ctx, "the workers", ps, look); err != nil {
		return err
	}
	var errs []error
	for _, p := range ps {
		if p != w.provider {
			errs = append(errs, p.stop())
		}
	}
	return errors.Join(errs...)
}

// drained reports whether no copy is left in the source queue, not even one
// that a worker holds.
func (w *demoWorld) drained(ctx context.Context) (bool, string, error) {
	source, err := w.source.Describe(ctx)
	if err != nil {
		return false, "", err
	}
	dead, err := w.dead.Describe(ctx)
	n, m := source.Depth.Total(), dead.Depth.Total()
	return n == 0, fmt.Sprintf("%d waiting, %d quarantined", n, m), err
}

// killWorkers has small crews of workers claim a job each, and kills them.
func (w *demoWorld) killWorkers(ctx context.Context) error {
	for crew := range slices.Chunk(w.jobs[demoKilledAfter], demoKillCrew) {
		if err := w.killCrew(ctx, crew, w.accepted); err != nil {
			return err
		}
	}
	claimed := func(ctx context.Context, p *demoProcess, crew []demoJob) error {
		err := p.await(ctx, len(crew), demoClaimed)
		return err
	}
	for crew := range slices.Chunk(w.jobs[demoKilledBefore], demoKillCrew) {
		if err := w.killCrew(ctx, crew, claimed, "--stall"); err != nil {
			return err
		}
	}
	return nil
}

func (w *demoWorld) killCrew(ctx context.Context, crew []demoJob, ripe func(context.Context, *demoProcess, []demoJob) error, args ...string) error {
	if err := w.enqueue(ctx, crew); err != nil {
		return err
	}
	p, err := w.start(append([]string{
		"demo", "worker", "--dir", w.dir, "--until-eof", "--workers", strconv.Itoa(len(crew)), "--batch", "1", "--lease", demoKillLease.String(),
	}, args...)...)
	if err != nil {
		return err
	}
	return errors.Join(ripe(ctx, p, crew), p.kill())
}

// accepted waits until the provider's own log shows that it has accepted all of
// a crew's jobs.
func (w *demoWorld) accepted(ctx context.Context, p *demoProcess, crew []demoJob) error {
	return awaitStill(ctx, "the provider to accept", []*demoProcess{w.provider, p}, func() (bool, string, error) {
		es, err := w.log.read()
		seen := map[string]bool{}
		for _, e := range es {
			seen[e.OpID] = seen[e.OpID] || e.Accepted
		}
		n := 0
		for _, j := range crew {
			if seen[j.key] {
				n++
			}
		}
		return n == len(crew), fmt.Sprintf("%d of %d", n, len(crew)), err
	})
}

// goDown ends the provider, so that connections are refused, until every job
// that was planned to fail has failed.
func (w *demoWorld) goDown(ctx context.Context) error {
	if err := w.provider.stop(); err != nil {
		return err
	}
	w.provider = nil
	if err := w.enqueue(ctx, w.jobs[demoDown]); err != nil {
		return err
	}
	return w.work(ctx, func() (bool, string, error) { return w.drained(ctx) })
}

// recoverProvider sends again only when no lost claim can send any more: an
// acceptance after that is a positive control for all that failed.
func (w *demoWorld) recoverProvider(ctx context.Context) error {
	if err := w.startProvider(ctx); err != nil {
		return err
	}
	err := awaitStill(ctx, "the last claim to end", []*demoProcess{w.provider}, func() (bool, string, error) {
		now, err := w.ledger.Now(ctx)
		if err != nil {
			return false, "", err
		}
		last := time.Time{}
		err = w.ledger.Scan(ctx, ledger.Window{States: []ledger.State{ledger.Sending}}, func(r ledger.Row) error {
			if r.SendDeadline.After(last) {
				last = r.SendDeadline
			}
			return nil
		})
		return last.Before(now), last.String(), err
	})
	if err != nil {
		return err
	}
	return w.enqueueAndWork(ctx, demoAfter)
}

// demoLog reads the provider's own log while it grows.
type demoLog struct {
	path    string
	offset  int64
	entries []providertest.Entry
}

// read returns all whole lines so far.
func (l *demoLog) read() ([]providertest.Entry, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("read the provider's log: %w", err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the provider's log: %w", err)
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return l.entries, nil
		}
		var e providertest.Entry
		if err == nil {
			err = json.Unmarshal(bytes.TrimSpace(line), &e)
		}
		if err != nil {
			return nil, fmt.Errorf("read the provider's log: %w", err)
		}
		l.entries, l.offset = append(l.entries, e), l.offset+int64(len(line))
	}
}
