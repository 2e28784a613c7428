package redrive

import (
	"errors"
	"fmt"
	"time"
)

// Kinds of gates. A plan without a canary has none.
const (
	GateNone    = "none"
	GateLedger  = "ledger"   // outcomes are read from the ledger, and from the dead-letter queue
	GateDLQOnly = "dlq-only" // nothing but the dead-letter queue tells
)

// Thresholds are what a gate asks of a canary, and a circuit breaker of the rest.
// Shares are of the redrives that were looked at, 0 to 1.
type Thresholds struct {
	ObserveSeconds int64   `json:"observe_seconds"` // how long outcomes are waited for, from the last publish
	MinSuccess     float64 `json:"min_success"`     // least that must reach sent
	MaxReturned    float64 `json:"max_returned"`    // most that may come back to the dead-letter queue
	MaxThrottled   float64 `json:"max_throttled"`   // most that the provider may throttle
	MaxP95Seconds  float64 `json:"max_p95_seconds"` // of publish to sent; 0: not asked for
}

// Observe is how long outcomes are waited for.
func (t Thresholds) Observe() time.Duration { return time.Duration(t.ObserveSeconds) * time.Second }

// Validate refuses what no gate can judge by.
func (t Thresholds) Validate() error {
	var errs []error
	for name, v := range map[string]float64{"success": t.MinSuccess, "returned": t.MaxReturned, "throttled": t.MaxThrottled} {
		if !(v >= 0 && v <= 1) {
			errs = append(errs, fmt.Errorf("share %s of %v is not between 0 and 1", name, v))
		}
	}
	if t.ObserveSeconds <= 0 {
		errs = append(errs, fmt.Errorf("observation of %d seconds", t.ObserveSeconds))
	}
	if !(t.MaxP95Seconds >= 0) {
		errs = append(errs, fmt.Errorf("95th percentile of %v seconds", t.MaxP95Seconds))
	}
	return errors.Join(errs...)
}

// weaker reports that t lets something through that the other would not.
func (t Thresholds) weaker(than Thresholds) bool {
	return t.ObserveSeconds < than.ObserveSeconds || t.MinSuccess < than.MinSuccess || t.MaxReturned > than.MaxReturned ||
		t.MaxThrottled > than.MaxThrottled || than.MaxP95Seconds > 0 && (t.MaxP95Seconds == 0 || t.MaxP95Seconds > than.MaxP95Seconds)
}

// checkGate refuses a plan whose gate this runner cannot hold.
func (r *Runner) checkGate(p Terms) error {
	if p.Thresholds != nil {
		if err := p.Thresholds.Validate(); err != nil {
			return fmt.Errorf("thresholds: %w", err)
		}
	}
	switch {
	case p.Canary == 0 && p.Gate == GateNone:
		return nil
	case p.Canary <= 0 || p.Thresholds == nil || p.Gate != GateLedger && p.Gate != GateDLQOnly:
		return fmt.Errorf("a canary of %d under the gate %q", p.Canary, p.Gate)
	case p.Gate == GateLedger && r.Ledger == nil:
		return errors.New("its gate reads a ledger, and the queue has none")
	default:
		return nil
	}
}
