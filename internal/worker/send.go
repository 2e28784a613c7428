package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/classify"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

// Request is one send. Content is the stored rendering.
type Request struct {
	Key     ledger.Key
	Attempt int
	Account string
	Region  string
	Content []byte
}

// Sender causes the effect. It never retries: a second request is a second
// effect. An error that is no *Failure says nothing about what happened.
type Sender interface {
	Send(ctx context.Context, r Request) (requestID string, err error)
}

// Failure is a send that went wrong in a way that is known. Only EffectNone is
// proof; with EffectUnknown the class says what was seen, and the outcome is as
// open as with any other error.
type Failure struct {
	Class     classify.Class
	Effect    classify.Effect
	Code      string // the provider's own, such as an HTTP status
	RequestID string
	// Retryable: the same send may succeed later. Otherwise it is refused for
	// good, and no retry is spent on it.
	Retryable  bool
	RetryAfter time.Duration // as the provider asked; 0: it did not
	Err        error
}

// Error is the class, the code and the cause.
func (f *Failure) Error() string { return fmt.Sprintf("%s %s: %v", f.Class, f.Code, f.Err) }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failure is what an error of a send proves: nothing, unless it says so itself.
func failure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	class := classify.Unknown
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		class = classify.Timeout
	}
	return &Failure{Class: class, Effect: classify.EffectUnknown, Err: err}
}
