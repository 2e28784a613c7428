package cmd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
	"github.com/rogpeppe/go-internal/testscript"
)

// sqsKey finds the script's SQS server among testscript's values.
type sqsKey struct{}

// scriptQueues is the SQS server of one script, once it was started.
type scriptQueues struct{ server *sqsfake.Server }

// seedSQS is one line of a file that sqs seed reads.
type seedSQS struct {
	Body       string                       `json:"body"`
	Attributes map[string]sqsfake.Attribute `json:"attributes"`
	Trace      string                       `json:"trace"`
	Group      string                       `json:"group"`
	Source     string                       `json:"source"` // by name
	Ago        string                       `json:"ago"`    // when it was sent; default 1h
	Times      int                          `json:"times"`  // so many, with their number behind the body
}

// sqs start serves SQS and points the AWS client's environment there; sqs create
// NAME [ATTRIBUTE=VALUE...] makes a queue, of which DLQ=NAME is its dead-letter
// queue; sqs seed QUEUE FILE fills it; sqs enqueue QUEUE FILE puts jobs into it
// and into ledger.db, and sqs work QUEUE lets the reference worker handle them
// all; sqs holds QUEUE VISIBLE HIDDEN demands what is in it; sqs objects
// BUCKET/KEY... answers for S3; sqs hide QUEUE N lends messages to another
// consumer; sqs dump QUEUE prints the bodies; sqs fault ACTION KIND makes
// all requests of an action fail, or none of them; sqs requests ACTION N demands
// how many were made.
func scriptSQS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sqs start|create|seed|enqueue|work|holds|dump|fault|requests")
	}
	held := ts.Value(sqsKey{}).(*scriptQueues)
	if args[0] == "start" {
		held.server = startSQS(ts)
		return
	}
	s := held.server
	if s == nil {
		ts.Fatalf("sqs start comes first")
	}
	switch do := args[0]; {
	case do == "create" && len(args) >= 2:
		createSQS(ts, s, args[1], args[2:])
	case do == "seed" && len(args) == 3:
		fillSQS(ts, s, args[1], ts.ReadFile(args[2]))
	case do == "enqueue" && len(args) == 3:
		enqueueSQS(ts, s, args[1], ts.ReadFile(args[2]))
	case do == "work" && len(args) == 2:
		workSQS(ts, s, args[1])
	case do == "holds" && len(args) == 4:
		visible, hidden, _ := s.Depth(args[1])
		if got := fmt.Sprint(visible, " ", hidden); got != args[2]+" "+args[3] {
			ts.Fatalf("%s holds %s, want %s %s", args[1], got, args[2], args[3])
		}
	case do == "objects":
		serveObjects(ts, args[1:])
	case do == "hide" && len(args) == 3:
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		s.Hide(args[1], n, time.Hour)
	case do == "dump" && len(args) == 2:
		for _, m := range s.Messages(args[1]) {
			b, err := json.Marshal(m)
			ts.Check(err)
			_, err = ts.Stdout().Write(append(b, '\n'))
			ts.Check(err)
		}
	case do == "fault" && len(args) == 3:
		s.OnRequest(func(action string, _ int) sqsfake.Fault {
			if action == args[1] {
				return sqsfake.Fault(args[2])
			}
			return sqsfake.None
		})
	case do == "requests" && len(args) == 3:
		if got := strconv.Itoa(s.Requests(args[1])); got != args[2] {
			ts.Fatalf("%s was asked %s times, want %s", args[1], got, args[2])
		}
	default:
		ts.Fatalf("sqs %s: wrong usage", strings.Join(args, " "))
	}
}

func startSQS(ts *testscript.TestScript) *sqsfake.Server {
	s := sqsfake.New(sqsfake.Options{LongestWait: 50 * time.Millisecond})
	h := httptest.NewServer(s)
	ts.Defer(h.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_SQS": h.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": sqsfake.Region,
		"AWS_EC2_METADATA_DISABLED": "true", "SQS_URL": h.URL + "/" + sqsfake.Account,
	} {
		ts.Setenv(name, value)
	}
	return s
}

// serveObjects answers for S3: of the objects BUCKET/KEY, and of no others.
func serveObjects(ts *testscript.TestScript, there []string) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || !slices.Contains(there, strings.TrimPrefix(r.URL.Path, "/")) {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	ts.Defer(h.Close)
	ts.Setenv("AWS_ENDPOINT_URL_S3", h.URL)
}

func createSQS(ts *testscript.TestScript, s *sqsfake.Server, name string, attrs []string) {
	as := map[string]string{}
	for _, a := range attrs {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			ts.Fatalf("attribute %s has no value", a)
		}
		if key == "DLQ" {
			key, value = "RedrivePolicy", sqsfake.DeadLetter(value, 3)
		}
		as[key] = value
	}
	s.CreateQueue(name, as)
}

func fillSQS(ts *testscript.TestScript, s *sqsfake.Server, queue, lines string) {
	for line := range strings.Lines(lines) {
		var j seedSQS
		ts.Check(json.Unmarshal([]byte(line), &j))
		ago := time.Hour
		if j.Ago != "" {
			var err error
			ago, err = time.ParseDuration(j.Ago)
			ts.Check(err)
		}
		m := sqsfake.Message{Body: j.Body, Attributes: j.Attributes, TraceHeader: j.Trace, GroupID: j.Group, SentAt: time.Now().Add(-ago), Receives: 3}
		if j.Source != "" {
			m.Source = sqsfake.ARN(j.Source)
		}
		for i := range max(1, j.Times) {
			one := m
			if j.Times > 0 {
				one.Body = fmt.Sprintf("%s %d", m.Body, i+1)
			}
			s.Seed(queue, one)
		}
	}
}
