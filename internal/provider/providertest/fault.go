package providertest

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// FaultKind names one way to misbehave.
type FaultKind string

// Faults of a send.
const (
	AcceptThen500    FaultKind = "accept_then_500"
	AcceptThenHangUp FaultKind = "accept_then_hang_up"
	Late             FaultKind = "late"        // accepted, visible only after For
	Refuse           FaultKind = "refuse"      // Status (default 400), and nothing is sent
	Unavailable      FaultKind = "unavailable" // 503 before accepting
	HangUp           FaultKind = "hang_up"     // nothing is accepted, or told
	Throttle         FaultKind = "throttle"    // 429 with Retry-After For
	Slow             FaultKind = "slow"        // answers after For
)

// Faults of a look-up; HangUp, Throttle, Slow and Unavailable are such too.
const (
	Forbidden  FaultKind = "forbidden"  // 403, an add-on is missing
	Empty      FaultKind = "empty"      // 200 and nothing, as from a wrong region
	Cut        FaultKind = "cut"        // a page at its limit, and no cursor
	Duplicates FaultKind = "duplicates" // every row twice
	Malformed  FaultKind = "malformed"  // no JSON
	Everything FaultKind = "everything" // the filter is ignored
	Redirect   FaultKind = "redirect"   // 302 to another place
)

// On says what a fault applies to.
type On string

// Sends and look-ups have faults of their own.
const (
	OnSend   On = "send"
	OnLookup On = "lookup"
)

// Fault is one fault and how often it strikes.
type Fault struct {
	OpID  string        `json:"op_id"` // empty: every operation
	On    On            `json:"on"`
	Kind  FaultKind     `json:"kind"`
	Times int           `json:"times,omitempty"` // 0: always
	For   time.Duration `json:"for,omitempty"`   // nanoseconds
	// Status of Refuse. Recorded keeps a record of the refusal that look-ups
	// show as rejected.
	Status   int  `json:"status,omitempty"`
	Recorded bool `json:"recorded,omitempty"`
}

// Plan decides the fault of a request; a Fault without a Kind is none. nth
// counts the requests of that kind for the operation from 1.
type Plan func(on On, opID string, nth int) Fault

// faults is what is planned and set, and what has struck.
type faults struct {
	plan Plan
	set  []Fault
	nth  map[string]int
}

// Set adds faults. The first that matches a request strikes.
func (s *Server) Set(fs ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.set = append(s.faults.set, fs...)
}

// Clear takes all faults back that were set.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.set = nil
}

func (s *Server) faultOf(opID string, on On) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.next(opID, on)
}

func (f *faults) next(opID string, on On) Fault {
	for i := range f.set {
		x := f.set[i]
		if x.On != on || x.OpID != "" && x.OpID != opID || x.Times < 0 {
			continue
		}
		if x.Times == 1 {
			f.set[i].Times = -1
		} else if x.Times > 1 {
			f.set[i].Times--
		}
		return x
	}
	if f.plan == nil {
		return Fault{}
	}
	if f.nth == nil {
		f.nth = map[string]int{}
	}
	f.nth[string(on)+"/"+opID]++
	return f.plan(on, opID, f.nth[string(on)+"/"+opID])
}

// setFaults replaces the faults by the JSON array in the body.
func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	var fs []Fault
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&fs); err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.Clear()
	s.Set(fs...)
	answer(w, http.StatusOK, map[string]int{"faults": len(fs)})
}

// onSend is the status to answer with (0: hang up) and whether the message
// takes effect.
func (f Fault) onSend() (status int, accepted bool) {
	switch f.Kind {
	case AcceptThen500:
		return http.StatusInternalServerError, true
	case AcceptThenHangUp:
		return 0, true
	case HangUp:
		return 0, false
	case Unavailable:
		return http.StatusServiceUnavailable, false
	case Throttle:
		return http.StatusTooManyRequests, false
	case Forbidden:
		return http.StatusForbidden, false
	case Refuse:
		if f.Status != 0 {
			return f.Status, false
		}
		return http.StatusBadRequest, false
	default:
		return http.StatusAccepted, true
	}
}

func (f Fault) visibleAfter() time.Duration {
	if f.Kind == Late {
		return f.For
	}
	return 0
}

// headers adds Retry-After where the fault has one to tell.
func (f Fault) headers(w http.ResponseWriter) {
	if (f.Kind == Throttle || f.Kind == Unavailable) && f.For > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((f.For+time.Second-1)/time.Second)))
	}
}

// pause waits when the fault is of that kind. It is false when the client went
// away meanwhile.
func (f Fault) pause(ctx context.Context, kind FaultKind) bool {
	if f.Kind != kind {
		return true
	}
	t := time.NewTimer(f.For)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
