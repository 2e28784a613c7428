package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/redrive"
)

// scene is a named schedule: a calm world in which only what it says goes wrong.
type scene struct {
	*proc
	t *testing.T
}

// play runs a scene and then holds it to the promises. Its world's provider
// honours a key for an hour, and shows records after a minute.
func play(t *testing.T, script func(*scene)) {
	t.Helper()
	t.Parallel()
	w, err := newWorld(Options{Seed: 1, Trace: true})
	if err != nil {
		t.Fatal(err)
	}
	w.calm = true
	w.rows = newRows(func() time.Time { return w.now }, consumer)
	w.queues = newQueues(func() time.Time { return w.now }, broker.Capabilities{
		FreePeek: true, ExactCounts: true, NativeQuarantine: true, StableMessageID: true, MaxBatch: 10, MaxMessageBytes: 1 << 18,
	}, sourceName, deadName)
	w.queues.byApp = true
	w.queues.named[sourceName].deadLetter = deadName
	w.outside = outside{caps: w.outside.caps}
	w.outside.caps.KeyLife, w.outside.caps.Delay, w.outside.caps.Binds = time.Hour, time.Minute, true
	w.newProc("operator", 0, func(p *proc) { script(&scene{p, t}) })
	w.procs[0].skew = 0
	w.run()
	w.finish()
	if w.broken != nil {
		t.Errorf("breaks %s", w.broken)
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + w.trace())
	}
}

func (s *scene) ctx() context.Context { return context.Background() }

// holds: the queue's jobs cannot be planned now.
func (s *scene) holds(why string) {
	s.t.Helper()
	if id := s.planCalmly(nil); id != "" {
		s.t.Errorf("a plan was made: %s", why)
	}
}

func (s *scene) effect(key string, want int) {
	s.t.Helper()
	if got := s.effects(key); got != want {
		s.t.Errorf("the effect of %s happened %d times, want %d", key, got, want)
	}
}

func (s *scene) depth(queue string, want int) {
	s.t.Helper()
	if got := len(s.queues.named[queue].copies); got != want {
		s.t.Errorf("%s holds %d copies, want %d", queue, got, want)
	}
}

// unknown is that of an opening, with its row in fact fenced.
func (s *scene) unknown(how int) {
	s.t.Helper()
	s.proc.unknown(how)
	if got := s.first().State; got != ledger.Fenced {
		s.t.Errorf("job-1 is %s, want fenced", got)
	}
}

// A run dies after the row was queued under a key that the provider honours no
// more when somebody comes back to it.
func TestNamedDeadRunPastKeyLife(t *testing.T) {
	for _, dies := range []string{"publish", "ack " + deadName} {
		t.Run(dies, func(t *testing.T) {
			play(t, func(s *scene) {
				s.unknown(sendLostReply)
				s.dies(dies)
				s.planAndRunCalmly(nil)
				if got := s.first(); got.State != ledger.Queued || got.SendBefore.IsZero() {
					t.Errorf("job-1 is %s, to be sent before %s", got.State, got.SendBefore)
				}
				s.anew()
				s.wait(2 * time.Hour)
				s.works()
				s.holds("the key's life has passed, and the first attempt is not known")
				for _, id := range slices.Clone(s.memory.started) {
					s.resumeRun(s.ctx(), id)
				}
				s.works()
				s.effect("job-1", 1)
			})
		})
	}
}

// The bound on a new claim is counted from the earliest unresolved attempt, not
// from the last.
func TestNamedSendBeforeOfTheFirstAttempt(t *testing.T) {
	play(t, func(s *scene) {
		s.unknown(sendLostReply)
		claimed := s.first().Attempts[0].ClaimedAt
		s.wait(45 * time.Minute)
		s.outside.script = []int{sendTimeout}
		s.planAndRunCalmly(nil)
		if got, want := s.first().SendBefore, claimed.Add(time.Hour-s.settings.maxPause); !got.Equal(want) {
			t.Errorf("to be sent before %s, want %s", got, want)
		}
		s.works()
		s.wait(2 * time.Minute)
		s.reconcile(s.ctx(), true)
		s.wait(20 * time.Minute) // within the second attempt's hour, not within the first's
		s.holds("the first attempt's key is honoured no more")
		s.effect("job-1", 1)
	})
}

// A worker claims in the last moment before send_before, and stands still as long
// as its contract lets it.
func TestNamedClaimJustBeforeSendBefore(t *testing.T) {
	play(t, func(s *scene) {
		s.unknown(sendLostReply)
		s.planAndRunCalmly(nil)
		before := s.first().SendBefore
		s.wait(before.Sub(s.world.now) - time.Second)
		s.outside.delays = []time.Duration{time.Second/2 + s.settings.maxPause}
		s.works()
		if r := s.first(); r.State != ledger.Sent || r.SendDeadline.After(before) {
			t.Errorf("job-1 is %s, its deadline %s, and send_before %s", r.State, r.SendDeadline, before)
		}
		s.effect("job-1", 1)
	})
	t.Run("and after it", func(t *testing.T) {
		play(t, func(s *scene) {
			s.unknown(sendLostReply)
			s.planAndRunCalmly(nil)
			s.wait(s.first().SendBefore.Sub(s.world.now))
			s.works()
			s.depth(sourceName, 0)
			s.depth(deadName, 1)
			s.effect("job-1", 1)
		})
	})
}

// An attempt is unresolved under a row that is queued, or failed at a later
// attempt: it can be fenced all the same, and the job comes to its end.
func TestNamedUnresolvedUnderQueuedOrFailed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dies  string
		sends []int
		is    ledger.State
	}{
		{"queued", "publish", nil, ledger.Queued},
		{"failed", "", []int{sendRejected}, ledger.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.unknown(sendTimeout)
				s.outside.script = tt.sends
				s.dies(tt.dies)
				s.planAndRunCalmly(nil)
				s.anew()
				s.works()
				if got := s.first().State; got != tt.is {
					t.Errorf("job-1 is %s, want %s", got, tt.is)
				}
				s.wait(3 * time.Hour)
				s.holds("the first attempt is not known")
				s.outside.recover()
				if tt.dies != "" {
					s.resumeRun(s.ctx(), s.memory.started[0]) // its plan has expired; it lets the job go
				}
				s.enqueue(false) // a later send that succeeds
				s.works()
				s.wait(5 * time.Minute)
				s.reconcile(s.ctx(), true)
				s.planAndRunCalmly(nil)
				s.works()
				s.effect("job-1", 1)
				s.depth(deadName, 0)
			})
		})
	}
}

// An edit crashes when the original is replaced and the edited copy is not out.
func TestNamedEditDiesBeforeItsPublish(t *testing.T) {
	for _, how := range []string{"resumed", "planned again"} {
		t.Run(how, func(t *testing.T) {
			play(t, func(s *scene) {
				s.enqueued(sendRejected)
				s.dies("publish")
				s.planAndRunCalmly(s.edits[0])
				if got := s.first(); got.State != ledger.Replaced {
					t.Errorf("job-1 is %s, want replaced", got.State)
				}
				s.anew()
				s.works()
				if how == "resumed" {
					s.resumeRun(s.ctx(), s.memory.started[0])
				} else {
					s.wait(2 * time.Hour) // the dead run's plan holds the job for no longer than its expiry
					s.resumeRun(s.ctx(), s.memory.started[0])
					s.planAndRunCalmly(s.edits[0])
				}
				s.works()
				s.effect("job-1", 0)
				s.effect(s.first().ReplacedBy, 1)
				s.depth(deadName, 0)
			})
		})
	}
}

// A run stands still between its intent and its change of the ledger until
// somebody has rolled it back.
func TestNamedLateStepAfterRollback(t *testing.T) {
	play(t, func(s *scene) {
		s.enqueued(sendRejected)
		other := s.start("second operator", 0, 10*time.Minute, func(p *proc) {
			r, err := p.runner().Rollback(s.ctx(), string(p.memory.started[0]), "wrong")
			if err != nil || r.Counts[redrive.BackTaken] != 1 {
				t.Errorf("rollback: %v, %v", r.Counts, err)
			}
		})
		other.unrecorded = map[string]bool{}
		s.meanwhile("ledger apply", func(p *proc) { p.wait(30 * time.Minute) })
		s.planAndRunCalmly(nil)
		if r := s.first(); r.State != ledger.Failed || r.Attempt != 2 || r.Retryable {
			t.Errorf("job-1 is %s at attempt %d", r.State, r.Attempt)
		}
		s.works()
		s.effect("job-1", 0)
		s.depth(deadName, 1)
		s.depth(sourceName, 0)
	})
}

// What a run has published comes back, under the message ID that it had, before
// the run acknowledges the copy that it took.
func TestNamedReturnedCopyWithTheSameMessageID(t *testing.T) {
	play(t, func(s *scene) {
		s.enqueued(sendRejected)
		first := s.queues.named[deadName].copies[0].msg
		s.outside.script = []int{sendRejected}
		s.meanwhile("ack "+deadName, (*proc).works)
		s.planAndRunCalmly(nil)
		s.depth(deadName, 1)
		back := s.queues.named[deadName].copies[0].msg
		if back.Copy == first.Copy || back.MessageID != first.MessageID {
			t.Errorf("copy %s of message %s is left, the first was %s of %s", back.Copy, back.MessageID, first.Copy, first.MessageID)
		}
		s.planAndRunCalmly(nil)
		s.works()
		s.effect("job-1", 1)
		s.depth(deadName, 0)
	})
}

// Of two jobs with the same content one was sent, and the provider's records name
// no job: neither is settled by that.
func TestNamedTwoIdenticalMessages(t *testing.T) {
	play(t, func(s *scene) {
		s.outside.caps.Binds = false
		s.outside.caps.KeyLife = 0
		s.outside.script = []int{sendLostReply, sendTimeout}
		s.enqueueAs("job-1", secret, 1)
		s.enqueueAs("job-2", secret, 1)
		s.works()
		s.wait(10 * time.Minute)
		s.reconcile(s.ctx(), true)
		s.holds("which of the two was sent is not known")
		s.effect("job-1", 1)
		s.effect("job-2", 0)
		s.depth(deadName, 2)
	})
}

// A worker claims a row while a rollback that has seen it queued is about to take
// it back, and its send succeeds unseen.
func TestNamedClaimDuringARollback(t *testing.T) {
	play(t, func(s *scene) {
		s.enqueued(sendRejected)
		s.planAndRunCalmly(nil)
		s.outside.script = []int{sendLostReply}
		s.meanwhile("store append", (*proc).works) // its intents: it has looked, and not moved anything yet
		r, err := s.runner().Rollback(s.ctx(), string(s.memory.started[0]), "wrong")
		if err != nil || r.Counts[redrive.BackClaimed] != 1 {
			t.Errorf("rollback: %v, %v", r.Counts, err)
		}
		if got := s.first().State; got != ledger.Sending {
			t.Errorf("job-1 is %s, want sending", got)
		}
	})
}

// A worker claims a queued row between the look of a reconciliation at the ledger
// and its last question to the provider, and its send succeeds unseen.
func TestNamedClaimDuringAReconciliation(t *testing.T) {
	play(t, func(s *scene) {
		s.unknown(sendTimeout)
		s.dies("ack " + deadName) // queued again, and not claimed yet; the dead copy is there
		s.planAndRunCalmly(nil)
		s.anew()
		s.wait(5 * time.Minute)
		s.outside.recover()
		s.outside.caps.Delay, s.outside.lag = 4*time.Minute, 4*time.Minute
		s.aside(func() {
			s.enqueued(sendAccepted)
			s.wait(5 * time.Minute)
		})
		looks := 0
		s.outside.script = []int{sendLostReply}
		s.trap = func(op string) {
			if looks += bit(op == "look up"); looks == 2 { // the first question is asked, the fence long in place
				s.trap = nil
				s.works()
			}
		}
		s.reconcile(s.ctx(), true)
		s.trap = nil
		s.planAndRunCalmly(nil)
		s.works()
		if s.effects("job-1") > 1 {
			t.Error("the effect happened twice")
		}
	})
}
