package cmd

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redrivectl/redrivectl/redrive"
)

// TestPlanWait: where a plan stands at each look, and how the wait ends.
func TestPlanWait(t *testing.T) {
	t.Parallel()
	const id = "3f9a"
	at := func(s redrive.PlanState, approved bool) redrive.Tally {
		return redrive.Tally{Plan: redrive.StoredPlan{ID: id, State: s}, Approved: approved}
	}
	waiting, ready := at(redrive.PlanWaiting, false), at(redrive.PlanApproved, true)
	lapsed, running, finished := at(redrive.PlanApproved, false), at(redrive.PlanRunning, true), at(redrive.PlanFinished, false)
	broken := errors.New("broken store")
	type looks []redrive.Tally
	tests := []struct {
		name  string
		goal  string
		limit time.Duration
		looks looks
		err   error // of the look after them
		code  int
		slept []time.Duration
	}{
		{"approved already", forApproved, 0, looks{ready}, nil, exitDone, nil},
		{"approved, its state to follow", forApproved, 0, looks{at(redrive.PlanWaiting, true)}, nil, exitDone, nil},
		{"running", forApproved, 0, looks{running}, nil, exitDone, nil},
		{"finished", forApproved, 0, looks{finished}, nil, exitDone, nil},
		{"approved later", forApproved, 0, looks{waiting, waiting, ready}, nil, exitDone, []time.Duration{pollEvery, pollEvery}},
		{"approvals that are over do not count", forApproved, 0, looks{lapsed, at(redrive.PlanExpired, false)}, nil, exitRefused, []time.Duration{pollEvery}},
		{"expired with its approvals in force", forApproved, 0, looks{at(redrive.PlanExpired, true)}, nil, exitRefused, nil},
		{"in time", forApproved, time.Minute, looks{waiting, ready}, nil, exitDone, []time.Duration{pollEvery}},
		{"not in time", forApproved, 5 * time.Second, looks{waiting, waiting, waiting, waiting}, nil, exitPartly, []time.Duration{pollEvery, pollEvery, time.Second}},
		{"in time at the last look", forApproved, 3 * time.Second, looks{waiting, waiting, ready}, nil, exitDone, []time.Duration{pollEvery, time.Second}},
		{"rejected", forApproved, 0, looks{waiting, at(redrive.PlanRejected, false)}, nil, exitRefused, []time.Duration{pollEvery}},
		{"revoked", forApproved, 0, looks{at(redrive.PlanRevoked, false)}, nil, exitRefused, nil},
		{"dropped", forFinished, 0, looks{ready, at(redrive.PlanDropped, true)}, nil, exitRefused, []time.Duration{pollEvery}},
		{"has run", forFinished, 0, looks{ready, running, finished}, nil, exitDone, []time.Duration{pollEvery, pollEvery}},
		{"runs for long", forFinished, pollEvery, looks{running, running}, nil, exitPartly, []time.Duration{pollEvery}},
		{"store broken", forApproved, 0, looks{waiting}, broken, exitFailed, []time.Duration{pollEvery}},
		{"interrupted", forApproved, 0, looks{waiting}, context.Canceled, exitInterrupted, []time.Duration{pollEvery}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, left := time.Unix(1000, 0), slices.Clone(tt.looks)
			var slept []time.Duration
			told := 0
			w := planWait{
				goal: tt.goal, limit: tt.limit, now: func() time.Time { return now },
				look: func(context.Context) (redrive.Tally, error) {
					if len(left) == 0 {
						return redrive.Tally{}, tt.err
					}
					s := left[0]
					left = left[1:]
					return s, nil
				},
				sleep: func(_ context.Context, d time.Duration) error {
					now, slept = now.Add(d), append(slept, d)
					return nil
				},
				tell: func(redrive.Tally) { told++ },
			}
			s, err := w.wait(t.Context())
			if got := exitCode(err); got != tt.code {
				t.Errorf("exit %d, want %d: %v", got, tt.code, err)
			}
			if d := cmp.Diff(tt.slept, slept); d != "" || told != len(slept) || len(left) > 0 {
				t.Errorf("it told %d times, %d looks were left: %s", told, len(left), d)
			}
			if last := tt.looks[len(tt.looks)-1]; tt.err == nil && s.Plan.State != last.Plan.State {
				t.Errorf("the plan was last seen as %s", s.Plan.State)
			}
		})
	}
}
