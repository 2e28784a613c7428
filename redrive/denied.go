package redrive

import (
	"errors"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// DeniedError says that a run ended because the broker, or the key of a queue,
// does not permit what the run needs. The next batch would not be permitted
// either, and a copy that was sent and may not be deleted is a job that waits to
// be done twice. What was not sent has left no queue.
type DeniedError struct {
	What string // "send to QUEUE", "delete from QUEUE"
	Err  error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("run stopped: it may not %s, and what was not sent is still where it was: %v", e.What, e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// deny ends the run before its next batch if a result says that the broker does
// not permit the step; it reports whether it does.
func (s *session) deny(what string, r broker.Result) bool {
	if !errors.Is(r.Err, broker.ErrDenied) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied == nil {
		s.denied = &DeniedError{What: what, Err: r.Err}
	}
	return true
}

// notDenied is the error of the first step that was not permitted, or nil.
func (s *session) notDenied() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied == nil {
		return nil
	}
	return s.denied
}
