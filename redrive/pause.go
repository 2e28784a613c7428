package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/crash"
)

// wishEvery is how often a run that waits, for its pause to be lifted or for its
// share of a slow rate, asks what is wished of it.
const wishEvery = time.Second

// whyAborted is why a run stopped that was asked to.
const whyAborted = "aborted"

// pausedError stands between two batches of a run that is to be paused.
type pausedError struct{ wish Wish }

func (e *pausedError) Error() string { return "paused by " + e.wish.Person }

func isPaused(err error) bool { return errors.As(err, new(*pausedError)) }

// firstError keeps the first failure of several workers that neither a pause nor
// the end of their context is.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) note(err error) error {
	if err != nil && !isPaused(err) && !errors.Is(err, context.Canceled) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = cmp.Or(f.err, err)
	}
	return err
}

// wish is what is asked of this run now.
func (s *session) wish(ctx context.Context) (Wish, error) {
	w, err := s.Runs.Wish(ctx, s.run)
	if err != nil {
		return w, fmt.Errorf("what is asked of run %s: %w", s.run, err)
	}
	return w, nil
}

// aborted is a StoppedError when the run is to be aborted.
func (w Wish) aborted() error {
	if w.Kind != WishAbort {
		return nil
	}
	return &StoppedError{Why: whyAborted, At: w.At, By: w.Person, Reason: w.Reason}
}

// paused is a pausedError when the run is to be paused.
func (w Wish) paused() error {
	if w.Kind != WishPause {
		return nil
	}
	return &pausedError{w}
}

// mayAcknowledge is asked before every batch that sends nothing. An abort does
// not stop it, since it only completes what was done.
func (s *session) mayAcknowledge(ctx context.Context) error {
	if err := s.mayHold(ctx); err != nil {
		return err
	}
	w, err := s.wish(ctx)
	if err != nil {
		return err
	}
	return w.paused()
}

// pause holds the run between two batches until guard lets it go on. The lease
// and its heartbeat stay; what is held of the queue is given back, so that
// nothing is hidden meanwhile. Expiry, revocation, an abort and Ctrl-C end it as
// they end a run that goes on. Afterwards no more than the rate is sent in the
// first window.
func (s *session) pause(ctx context.Context, w Wish, guard func(context.Context) error) error {
	s.forgetAside(context.WithoutCancel(ctx))
	if err := s.notePause(ctx, w, stepPaused); err != nil {
		return err
	}
	crash.At("control.paused")
	if err := s.untilLifted(ctx, guard); err != nil {
		return err
	}
	if err := s.notePause(ctx, Wish{}, stepContinued); err != nil {
		return err
	}
	crash.At("control.continued")
	s.limiter.drain()
	return nil
}

// notePause records that the run is paused, or, with the zero wish, goes on.
func (s *session) notePause(ctx context.Context, w Wish, step string) error {
	rec := s.stepRecord(step, w.Reason)
	if w.Person != "" {
		rec.Details["asked_by"] = w.Person
	}
	state := RunRunning
	if w.Kind == WishPause {
		state = RunPaused
	}
	if err := s.setState(ctx, state, rec); err != nil {
		return err
	}
	if s.Notice != nil {
		s.Notice(w)
	}
	return nil
}

func (s *session) setState(ctx context.Context, state RunState, rec audit.Record) error {
	if err := s.Runs.SetState(context.WithoutCancel(ctx), s.lease.current(), state, rec); err != nil {
		return fmt.Errorf("record that run %s is %s: %w", s.run, state, err)
	}
	return nil
}

func (s *session) untilLifted(ctx context.Context, guard func(context.Context) error) error {
	for {
		if err := s.Sleep(ctx, wishEvery); err != nil {
			return err
		}
		if err := guard(ctx); !isPaused(err) {
			return err
		}
	}
}

// forgetAside gives back what is held aside, and forgets that it was ever met: it will
// be met again. No batch is under way.
func (s *session) forgetAside(ctx context.Context) {
	s.releaseAside(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.met)
}

// afterAbort settles what a run left open that was aborted or whose gate has failed,
// as a resume would: what only wants an acknowledgement gets it, and nothing is
// sent. Any other end passes.
func (s *session) afterAbort(ctx context.Context, err error) error {
	var stopped *StoppedError
	if !errors.As(err, &stopped) || !stopped.Aborted() && !stopped.Gate() {
		return err
	}
	s.forgetAside(context.WithoutCancel(ctx))
	crash.At("control.aborting")
	return s.resume(ctx)
}
