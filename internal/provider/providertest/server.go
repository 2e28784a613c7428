// Package providertest is a provider that misbehaves. It accepts messages,
// tells what it accepted, and does on request what real providers do on bad
// days: accept and answer 500, accept and hang up, show records late, cut an
// answer, ask for a pause. It keeps a log that only it can write, so that a
// test can count what really took effect.
package providertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Config configures a Server. The zero value is a provider that behaves.
type Config struct {
	Now  func() time.Time // nil: time.Now
	Plan Plan             // nil: no faults but those set later
	// Log is the file that every attempt is appended to, one JSON object a line,
	// synced before the answer; what it holds already is read first. Empty: the
	// log is in memory alone.
	Log string
	// PageLimit is the rows of one page; 0: 100.
	PageLimit int
	// Delay is how long a record stays invisible to look-ups.
	Delay time.Duration
	// Retention is how long look-ups show a record; 0: for ever.
	Retention time.Duration
	// HonourKeys makes a repeated Idempotency-Key answer as the first did, within
	// KeyLife (0: for ever), without a second effect.
	HonourKeys bool
	KeyLife    time.Duration
	// Region is what the server answers for: a look-up that names another finds
	// nothing and is told so with 200. Empty: all.
	Region string
	// ClockOffset is added to the Date header.
	ClockOffset time.Duration
}

// Entry is one line of the log: one request to send and what became of it.
type Entry struct {
	Seq        int       `json:"seq"`
	At         time.Time `json:"at"`
	ID         string    `json:"id,omitempty"` // the request ID, of an accepted one
	OpID       string    `json:"op_id"`
	To         string    `json:"to,omitempty"`
	Region     string    `json:"region,omitempty"`
	BodySHA256 string    `json:"body_sha256"`
	Key        string    `json:"idempotency_key,omitempty"`
	Accepted   bool      `json:"accepted"`
	Rejected   bool      `json:"rejected,omitempty"` // refused, and on record as refused
	Repeat     bool      `json:"repeat,omitempty"`   // answered from an idempotency key
	Status     int       `json:"status"`             // as answered; 0: hung up
	Fault      FaultKind `json:"fault,omitempty"`
	// VisibleAt is when look-ups show it.
	VisibleAt time.Time `json:"visible_at,omitzero"`
}

// Server is the provider as an http.Handler.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu     sync.Mutex
	file   appender
	log    []Entry
	byOp   map[string][]int // places in log
	faults faults
}

// New makes a server, reading the log that an earlier one has left.
func New(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.PageLimit == 0 {
		cfg.PageLimit = 100
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), byOp: map[string][]int{}, faults: faults{plan: cfg.Plan}}
	if cfg.Log != "" {
		file, old, err := openLog(cfg.Log)
		if err != nil {
			return nil, err
		}
		s.file = file
		for _, e := range old {
			s.remember(e)
		}
	}
	s.mux.HandleFunc("POST /messages", s.send)
	s.mux.HandleFunc("GET /messages", s.list)
	s.mux.HandleFunc("GET /messages/{id}", s.one)
	s.mux.HandleFunc("GET /log", s.serveLog)
	s.mux.HandleFunc("POST /faults", s.setFaults)
	return s, nil
}

// Close closes the log file.
func (s *Server) Close() error { return s.file.close() }

// Log is every attempt so far, in order.
func (s *Server) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Entry(nil), s.log...)
}

// Accepted counts what took effect, by operation.
func (s *Server) Accepted() map[string]int {
	n := map[string]int{}
	for _, e := range s.Log() {
		if e.Accepted && !e.Repeat {
			n[e.OpID]++
		}
	}
	return n
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.cfg.Now().Add(s.cfg.ClockOffset).UTC().Format(http.TimeFormat))
	s.mux.ServeHTTP(w, r)
}

// Serve answers on l until ctx ends, and then lets requests in flight finish.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = srv.Shutdown(late) // what hangs is cut off with the process
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve provider: %w", err)
	}
	return nil
}

// Message is the body of POST /messages.
type Message struct {
	OpID   string `json:"op_id"`
	To     string `json:"to"`
	Region string `json:"region"`
	Body   string `json:"body"`
}

const maxMessage = 1 << 20

func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	var m Message
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&m); err != nil || m.OpID == "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": "op_id and a JSON body are needed"})
		return
	}
	f := s.faultOf(m.OpID, OnSend)
	e, err := s.accept(m, r.Header.Get("Idempotency-Key"), f)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	if !f.pause(r.Context(), Slow) || e.Status == 0 {
		hangUp(w)
	}
	f.headers(w)
	if e.Status != http.StatusAccepted {
		answer(w, e.Status, map[string]string{"error": "status " + strconv.Itoa(e.Status)})
		return
	}
	answer(w, e.Status, map[string]string{"id": e.ID, "op_id": e.OpID})
}

// accept decides about one send and logs it, durably where there is a file.
func (s *Server) accept(m Message, key string, f Fault) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(m.Body))
	e := Entry{
		Seq: len(s.log) + 1, At: s.cfg.Now().UTC(), OpID: m.OpID, To: m.To, Region: m.Region,
		BodySHA256: hex.EncodeToString(sum[:]), Key: key, Fault: f.Kind,
	}
	e.Status, e.Accepted = f.onSend()
	e.Rejected = f.Kind == Refuse && f.Recorded
	if first, ok := s.first(key, e.At); ok && e.Accepted {
		e.ID, e.Repeat = first.ID, true
		if first.BodySHA256 != e.BodySHA256 {
			e.Accepted, e.Status = false, http.StatusConflict
		}
	} else if e.Accepted || e.Rejected {
		e.ID = fmt.Sprintf("msg-%06d", e.Seq)
		e.VisibleAt = e.At.Add(max(s.cfg.Delay, f.visibleAfter()))
	}
	if err := s.file.add(e); err != nil {
		return Entry{}, err
	}
	s.remember(e)
	return e, nil
}

func (s *Server) remember(e Entry) {
	s.byOp[e.OpID] = append(s.byOp[e.OpID], len(s.log))
	s.log = append(s.log, e)
}

// entries is the log, or the part of it that is about one operation.
func (s *Server) entries(opID string) []Entry {
	if opID == "" {
		return s.Log()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var es []Entry
	for _, i := range s.byOp[opID] {
		es = append(es, s.log[i])
	}
	return es
}

// first is the accepted send that used the key before, if keys are honoured.
func (s *Server) first(key string, now time.Time) (Entry, bool) {
	if !s.cfg.HonourKeys || key == "" {
		return Entry{}, false
	}
	for i := len(s.log) - 1; i >= 0; i-- {
		e := s.log[i]
		if e.Key == key && e.Accepted && !e.Repeat && (s.cfg.KeyLife == 0 || now.Sub(e.At) < s.cfg.KeyLife) {
			return e, true
		}
	}
	return Entry{}, false
}

func (s *Server) serveLog(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"entries": s.Log()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone; the log has what happened
}

// hangUp ends the connection without an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// errLog is wrapped by every failure of the log file.
var errLog = errors.New("provider log")
