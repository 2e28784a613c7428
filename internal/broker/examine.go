package broker

import (
	"context"
	"time"
)

// Severity says how grave a finding is.
type Severity string

// Good is as it should be or good to know, Doubtful may be meant, Bad breaks a
// redrive.
const (
	Good     Severity = "ok"
	Doubtful Severity = "warning"
	Bad      Severity = "error"
)

// Finding is one thing that an examination found. Detail names no payload and no
// secret.
type Finding struct {
	Severity Severity
	What     string
	Detail   string
}

// Worker is what a queue's worker is configured to promise.
type Worker struct {
	ClaimLife time.Duration // from its claim to its send deadline; 0: not known
	MaxPause  time.Duration // how long it may stall past the deadline
}

// Examiner is a Broker that can tell whether its queues are set up for a
// redrive. An error says that the examination itself failed.
type Examiner interface {
	Examine(ctx context.Context, w Worker) ([]Finding, error)
}
