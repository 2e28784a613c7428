// Package sqsfake is an SQS-compatible server for tests and benchmarks: JSON 1.0
// over real HTTP, for the real client. It keeps the rules that bite (leases,
// receive counts, dead-letter policies, FIFO groups and deduplication, batch
// limits, partial failures), counts what it was asked, and fails on demand. It
// is ours, so what is built on it runs against independent servers as well.
package sqsfake

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The account and region of every queue here.
const (
	Account = "000000000000"
	Region  = "us-east-1"
)

// Options choose how the server behaves.
type Options struct {
	Now func() time.Time // nil: the machine's clock, and long polls wait
	// Latency is added to each request: half before it is applied, half after.
	Latency time.Duration
	// LongestWait cuts long polls short; 0: they wait as long as they ask.
	LongestWait time.Duration
	// MaxInFlight bounds the leased copies of a queue; 0: 120,000.
	MaxInFlight int
}

// Server is one fake. It is an http.Handler, for as many clients as there are.
type Server struct {
	o    Options
	mu   sync.Mutex
	byID map[string]*queue // by name
	url  string

	fault  func(action string, n int) Fault
	entry  func(action string, n int) string
	counts map[string]int // requests by action
	items  map[string]int // entries by action
	fewer  func(n int) int
	woken  chan struct{} // closed when something became visible
	serial int

	latency atomic.Int64 // nanoseconds
}

// New is a server without queues.
func New(o Options) *Server {
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 120_000
	}
	s := &Server{
		o: o, byID: map[string]*queue{}, counts: map[string]int{}, items: map[string]int{},
		woken: make(chan struct{}),
	}
	s.SetLatency(o.Latency)
	return s
}

// SetLatency changes what is added to each request from now on.
func (s *Server) SetLatency(d time.Duration) { s.latency.Store(int64(d)) }

func (s *Server) now() time.Time {
	if s.o.Now == nil {
		return time.Now()
	}
	return s.o.Now()
}

// Fault is what happens to one request as a whole.
type Fault string

// The faults. AfterError and Drop apply the request first.
const (
	None       Fault = ""
	Throttled  Fault = "throttled"   // 400, RequestThrottled
	Error      Fault = "500"         // not applied
	AfterError Fault = "after_500"   // applied, then 500
	Drop       Fault = "drop"        // applied, then the connection is cut
	DropBefore Fault = "drop_before" // not applied, and the connection is cut
	KeyDenied  Fault = "key_denied"  // 400, KmsAccessDenied
	Denied     Fault = "denied"      // 403, AccessDenied
	OverLimit  Fault = "over_limit"  // 400, OverLimit
	Damaged    Fault = "damaged"     // applied, with checksums of something else
)

// OnRequest decides on the n-th request of an action, from 0; nil is no fault.
func (s *Server) OnRequest(f func(action string, n int) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// OnEntry makes the n-th entry of an action's batches, from 0, fail alone with
// the error code that f returns; "" is success.
func (s *Server) OnEntry(f func(action string, n int) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entry = f
}

// Fewer makes the n-th receive, from 0, give at most f(n) messages, as the
// service's sampling of its hosts does.
func (s *Server) Fewer(f func(n int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fewer = f
}

// SetAttribute changes an attribute of a queue.
func (s *Server) SetAttribute(queue, name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[queue].attrs[name] = value
}

// Requests counts the requests of an action since the start.
func (s *Server) Requests(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[action]
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	do := actions[action]
	body, err := io.ReadAll(r.Body)
	if !ok || do == nil || err != nil {
		reply(w, nil, badRequest("InvalidAction", "no such action: "+action))
		return
	}
	latency := time.Duration(s.latency.Load())
	s.sleep(latency / 2)
	fault := s.count(action)
	var out any
	switch fault {
	case Throttled:
		err = badRequest("RequestThrottled", "rate exceeded")
	case KeyDenied:
		err = badRequest("KmsAccessDenied", "the key may not be used")
	case Denied:
		err = &apiError{status: http.StatusForbidden, code: "AccessDeniedException", message: "not permitted"}
	case OverLimit:
		err = badRequest("OverLimit", "too many messages are in flight")
	case Error:
		err = internalError()
	case DropBefore:
	default:
		if r.Context().Err() != nil {
			return // the caller went away before the request was applied
		}
		out, err = do(s, r, body)
	}
	s.sleep(latency - latency/2)
	switch fault {
	case Damaged:
		damage(out)
	case AfterError:
		out, err = nil, internalError()
	case Drop, DropBefore:
		panic(http.ErrAbortHandler)
	}
	reply(w, out, err)
}

func (s *Server) sleep(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// count notes a request and asks what is to go wrong with it.
func (s *Server) count(action string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.counts[action]
	s.counts[action]++
	if s.fault == nil {
		return None
	}
	return s.fault(action, n)
}

// entryFault is the error code of the next entry of an action, or empty. The
// caller holds the lock.
func (s *Server) entryFault(action string) string {
	n := s.items[action]
	s.items[action]++
	if s.entry == nil {
		return ""
	}
	return s.entry(action, n)
}

// damage makes an answer tell of other messages than were sent.
func damage(out any) {
	if r, ok := out.(map[string]any); ok {
		if ms, ok := r["Messages"].([]received); ok && len(ms) > 0 {
			ms[0].MD5OfBody = checksum("something else")
		}
	}
	if b, ok := out.(batchReply); ok {
		for i, one := range b.Successful {
			if m, ok := one.(sent); ok {
				m.MD5OfMessageBody = checksum("something else")
				b.Successful[i] = m
			}
		}
	}
}

type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func badRequest(code, message string) *apiError {
	return &apiError{http.StatusBadRequest, code, message}
}

func internalError() *apiError {
	return &apiError{http.StatusInternalServerError, "InternalFailure", "an internal error occurred"}
}

func noQueue(what string) *apiError {
	return badRequest("QueueDoesNotExist", "the specified queue does not exist: "+what)
}

// reply writes what the JSON protocol has for a result or an error.
func reply(w http.ResponseWriter, out any, err error) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Requestid", "00000000-0000-4000-8000-000000000000")
	var e *apiError
	if errors.As(err, &e) {
		w.WriteHeader(e.status)
		out = map[string]string{"__type": "com.amazonaws.sqs#" + e.code, "message": e.message}
	}
	if out == nil {
		out = struct{}{}
	}
	_ = json.NewEncoder(w).Encode(out) // the client went away: nobody to tell
}
