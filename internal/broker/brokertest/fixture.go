// Package brokertest is the conformance suite for every broker, and Rough, a
// wrapper that makes a good broker behave like a difficult one. The suite asks
// Capabilities what to expect, never which broker it is.
package brokertest

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Fixture is one broker with an empty dead-letter queue and an empty
// destination, fresh for each check. Whatever it opens it closes with t.Cleanup.
type Fixture struct {
	// Broker is the dead-letter queue under test, without deduplication of equal
	// bodies and without a dead-letter policy of its own.
	Broker broker.Broker
	// Destination is where Publish sends.
	Destination string
	// Seed puts messages into the dead-letter queue as dead letters, at most
	// MaxBatch of them.
	Seed func(t *testing.T, ms []broker.Outgoing)
	// Read is the oracle: all that the destination holds, visible or not, without
	// touching it and not by way of the broker under test.
	Read func(t *testing.T, destination string) []broker.Message

	// Source is the queue that dead-letters into the one under test, to check
	// Quarantine with; nil leaves that out. Publish to SourceName fills it.
	Source     broker.Broker
	SourceName string
	// Ordered says that the dead-letter queue delivers a group in order; it
	// needs Capabilities.Ordered.
	Ordered bool
	// Advance moves the broker's clock; nil leaves out what needs it.
	Advance func(d time.Duration)
	// LoseReply makes the next call of op be applied, or not, and in either case
	// answer Unknown; nil leaves that out.
	LoseReply func(op Op, applied bool)
	// Text says that the broker takes only text bodies, and ordering keys of
	// printable ASCII without spaces (SQS).
	Text bool
	// TameBody and TameValue take out of a body, or of an attribute's value, what
	// the server behind the broker gets wrong; nil: nothing.
	TameBody, TameValue func(string) string
	// Room is with how many attributes Quarantine still finds room for the reason;
	// 0: with any number.
	Room int
	// Types are the attribute types that the broker keeps; nil is String,
	// Number, Binary and two with a suffix.
	Types []string
	// System names system attributes that a sender may set; nil leaves that out.
	System []string
}

// Op names a method of broker.Broker.
type Op string

// The operations that change something.
const (
	OpReceive    Op = "receive"
	OpExtend     Op = "extend"
	OpAck        Op = "ack"
	OpRelease    Op = "release"
	OpPublish    Op = "publish"
	OpQuarantine Op = "quarantine"
)

// Run checks a broker. open makes a fresh Fixture for each check. Do not call
// it from a parallel test: one check watches the process's goroutines.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	RunBut(t, nil, open)
}

// RunBut is Run without the checks that leaveOut names, each with what is wrong
// in the server behind the broker. A name that no check has fails: the list says
// nothing that is not so.
func RunBut(t *testing.T, leaveOut map[string]string, open func(t *testing.T) Fixture) {
	t.Helper()
	unknown := maps.Clone(leaveOut)
	for _, group := range [][]check{
		fidelityChecks, leaseChecks, batchChecks, browseChecks, orderChecks, unknownChecks, quarantineChecks, restoreChecks, lifeChecks,
	} {
		for _, c := range group {
			delete(unknown, c.name)
			t.Run(c.name, func(t *testing.T) {
				if why, out := leaveOut[c.name]; out {
					t.Skip("left out: " + why)
				}
				c.run(newSuite(t, open(t)))
			})
		}
	}
	t.Run("no goroutine is left behind", func(t *testing.T) { checkGoroutines(t, open) })
	for name := range unknown {
		t.Errorf("%q is left out, and is no check", name)
	}
}

type check struct {
	name string
	run  func(*suite)
}

// suite is one check at work.
type suite struct {
	*testing.T
	Fixture
	seen map[delivery]bool // every lease that the check was given
}

func newSuite(t *testing.T, f Fixture) *suite {
	same := func(s string) string { return s }
	if f.TameBody == nil {
		f.TameBody = same
	}
	if f.TameValue == nil {
		f.TameValue = same
	}
	return &suite{T: t, Fixture: f, seen: map[delivery]bool{}}
}

func (s *suite) can() broker.Capabilities { return s.Broker.Capabilities() }

func (s *suite) ctx() context.Context { return s.T.Context() }
