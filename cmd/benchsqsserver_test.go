package cmd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

// The two queues of BenchmarkSQS.
const (
	benchDead   = "dlq"
	benchSource = "orders"
)

const benchServerName = "bench-sqs-server"

// benchStats is what /stats tells, as far as BenchmarkSQS reads it. Milliseconds
// are since 1970.
type benchStats struct {
	Requests int                       `json:"requests"`
	Queues   map[string]benchQueueTime `json:"queues"`
}

type benchQueueTime struct {
	FirstSend int64 `json:"first_send_ms"`
	LastSend  int64 `json:"last_send_ms"`
	MaxSends  int   `json:"max_sends_1s"` // messages taken in the fullest second
}

// benchCheck is what /admin/check tells of the messages that were seeded.
type benchCheck struct {
	Unique     int `json:"unique_at_destination"`
	Duplicates int `json:"duplicates"`
	Lost       int `json:"lost"`
	Foreign    int `json:"changed_or_foreign_bodies"`
	Attributes int `json:"attributes_lost_or_changed"`
	Trace      int `json:"trace_header_lost"`
}

// benchAdmin serves SQS and, beside it, what fills, slows and examines it.
type benchAdmin struct {
	mu       sync.Mutex
	server   *sqsfake.Server
	seeded   map[string]sqsfake.Message // by body
	requests int
	sends    benchQueueTime
	taken    []time.Time // within the last second
}

// benchServer is a process that serves until it is killed. It prints its address.
func benchServer() {
	a := &benchAdmin{}
	a.reset()
	mux := http.NewServeMux()
	mux.HandleFunc("/", a.serve)
	for path, do := range map[string]func(*http.Request) any{
		"/admin/reset": a.onReset, "/admin/seed": a.onSeed, "/admin/config": a.onConfig, "/admin/check": a.onCheck, "/stats": a.onStats,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(do(r)) // the client went away: nobody to tell
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "http://%s\n", l.Addr())
	panic(http.Serve(l, mux))
}

func (a *benchAdmin) current() *sqsfake.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.server
}

// reset makes a server with two empty queues.
func (a *benchAdmin) reset() {
	s := sqsfake.New(sqsfake.Options{})
	s.CreateQueue(benchDead, nil)
	s.CreateQueue(benchSource, map[string]string{"RedrivePolicy": sqsfake.DeadLetter(benchDead, 3)})
	s.OnEntry(a.onEntry)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server, a.seeded, a.requests, a.sends, a.taken = s, map[string]sqsfake.Message{}, 0, benchQueueTime{}, nil
}

func (a *benchAdmin) serve(w http.ResponseWriter, r *http.Request) {
	sends := strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".SendMessageBatch")
	a.count(sends)
	a.current().ServeHTTP(w, r)
}

func (a *benchAdmin) count(sends bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	if !sends {
		return
	}
	a.sends.LastSend = time.Now().UnixMilli()
	if a.sends.FirstSend == 0 {
		a.sends.FirstSend = a.sends.LastSend
	}
}

// onEntry notes a message that is taken, and lets it.
func (a *benchAdmin) onEntry(action string, _ int) string {
	if action != "SendMessageBatch" {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.taken = append(a.taken, now)
	for now.Sub(a.taken[0]) >= time.Second {
		a.taken = a.taken[1:]
	}
	a.sends.MaxSends = max(a.sends.MaxSends, len(a.taken))
	return ""
}

func (a *benchAdmin) onReset(r *http.Request) any {
	if r.URL.Query().Get("stats") == "" {
		a.reset()
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.sends = 0, benchQueueTime{}
	return nil
}

func (a *benchAdmin) onConfig(r *http.Request) any {
	d, err := time.ParseDuration(r.URL.Query().Get("latency"))
	if err != nil {
		return err.Error()
	}
	a.current().SetLatency(d)
	return nil
}

func (a *benchAdmin) onSeed(r *http.Request) any {
	var n, size int
	if _, err := fmt.Sscan(r.URL.Query().Get("n")+" "+r.URL.Query().Get("size"), &n, &size); err != nil {
		return err.Error()
	}
	s := a.current()
	for i := range n {
		m := benchMessage(i, size)
		s.Seed(benchDead, m)
		a.seeded[m.Body] = m
	}
	return nil
}

// benchMessage is a dead letter of size bytes with five attributes and a trace
// header.
func benchMessage(i, size int) sqsfake.Message {
	text := func(kind, value string) sqsfake.Attribute {
		return sqsfake.Attribute{DataType: kind, StringValue: &value}
	}
	body := fmt.Sprintf(`{"type":"order.created","operation_id":%q,"note":"`, benchKey(i))
	body += strings.Repeat("x", max(0, size-len(body)-2)) + `"}`
	return sqsfake.Message{
		Body: body, Source: sqsfake.ARN(benchSource), Receives: 3,
		TraceHeader: fmt.Sprintf("Root=1-%08x-%024x;Parent=%016x;Sampled=1", 0x65000000+i, i, i),
		Attributes: map[string]sqsfake.Attribute{
			"Kind": text("String", "order.created"), "Note": text("String", "söme nöte"), "Attempt": text("Number", fmt.Sprint(i%5+1)),
			"Tenant": text("String.tenant", fmt.Sprint("t", i%37)), "Mark": {DataType: "Binary", BinaryValue: []byte{byte(i), 0, 255}},
		},
	}
}

// benchKey is the job key of the i-th message.
func benchKey(i int) string { return fmt.Sprintf("op-%08d", i) }

func (a *benchAdmin) onStats(*http.Request) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return benchStats{Requests: a.requests, Queues: map[string]benchQueueTime{benchSource: a.sends}}
}

// onCheck compares what is in the queues with what was seeded.
func (a *benchAdmin) onCheck(*http.Request) any {
	s := a.current()
	var c benchCheck
	found := map[string]bool{}
	for _, m := range s.Messages(benchSource) {
		was, known := a.seeded[m.Body]
		switch {
		case !known:
			c.Foreign++
		case found[m.Body]:
			c.Duplicates++
		default:
			c.Unique++
		}
		if known && !reflect.DeepEqual(was.Attributes, m.Attributes) {
			c.Attributes++
		}
		if known && was.TraceHeader != m.TraceHeader {
			c.Trace++
		}
		found[m.Body] = true
	}
	for _, m := range s.Messages(benchDead) {
		found[m.Body] = true
	}
	for body := range a.seeded {
		if !found[body] {
			c.Lost++
		}
	}
	return c
}
