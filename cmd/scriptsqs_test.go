package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
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

// sqsCommands are the commands of "sqs" after sqs start, which serves SQS and
// points the AWS client's environment there. Each has so many arguments at least.
var sqsCommands = map[string]struct {
	args int
	do   func(ts *testscript.TestScript, s *sqsfake.Server, args []string)
}{
	// create NAME [ATTRIBUTE=VALUE...]: DLQ=NAME is its dead-letter queue.
	"create": {1, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) { createSQS(ts, s, args[0], args[1:]) }},
	// seed QUEUE FILE fills it.
	"seed": {2, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
		fillSQS(ts, s, args[0], ts.ReadFile(args[1]))
	}},
	// enqueue QUEUE FILE puts jobs into it and into ledger.db.
	"enqueue": {2, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
		enqueueSQS(ts, s, args[0], ts.ReadFile(args[1]))
	}},
	// work QUEUE [N] lets the reference worker handle all that is in it, or N copies.
	"work": {1, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) { workSQS(ts, s, args[0], args[1:]) }},
	// fail QUEUE lets its consumers fail, until its policy has dead-lettered all.
	"fail": {1, func(_ *testscript.TestScript, s *sqsfake.Server, args []string) { s.GiveUp(args[0]) }},
	// holds QUEUE VISIBLE HIDDEN demands what is in it.
	"holds": {3, sqsHolds},
	// objects BUCKET/KEY... answers for S3.
	"objects": {0, func(ts *testscript.TestScript, _ *sqsfake.Server, args []string) { serveObjects(ts, args) }},
	// hide QUEUE N lends messages to another consumer.
	"hide": {2, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) {
		s.Hide(args[0], sqsNumber(ts, args[1]), time.Hour)
	}},
	// dump QUEUE prints its messages.
	"dump": {1, sqsDump},
	// contents QUEUE FILE writes what each message consists of, in order of
	// arrival: body, attributes, trace header, group.
	"contents": {2, sqsContents},
	// fault ACTION KIND makes all requests of an action fail, or none of them.
	"fault": {2, sqsFault},
	// drop ACTION N applies the N-th request of an action from now and cuts its
	// connection.
	"drop": {2, sqsDrop},
	// entries ACTION CODE N... makes those entries of its batches fail, from 0.
	"entries": {2, sqsEntries},
	// storm N makes of every N requests one fail, in each of the ways in turn, and
	// of every 4*N entries one.
	"storm": {1, func(ts *testscript.TestScript, s *sqsfake.Server, args []string) { sqsStorm(s, sqsNumber(ts, args[0])) }},
	// calm ends all faults.
	"calm": {0, func(_ *testscript.TestScript, s *sqsfake.Server, _ []string) {
		s.OnRequest(nil)
		s.OnEntry(nil)
		s.Fewer(nil)
	}},
	// short makes receives give few messages or none, as the service may.
	"short": {0, func(_ *testscript.TestScript, s *sqsfake.Server, _ []string) {
		s.Fewer(func(n int) int { return n * 7 % 5 })
	}},
	// requests ACTION N demands how many were made.
	"requests": {2, sqsRequests},
	// await QUEUE N waits until it holds so many messages.
	"await": {2, sqsAwait},
	// both A B N demands how many bodies are in two queues at once.
	"both": {3, sqsBoth},
	// once QUEUE... demands that no body is in them twice.
	"once": {1, sqsOnce},
	// paced QUEUE N demands that in no second more than N messages arrived.
	"paced": {2, sqsPaced},
}

func scriptSQS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sqs start|%s", strings.Join(slices.Sorted(maps.Keys(sqsCommands)), "|"))
	}
	held := ts.Value(sqsKey{}).(*scriptQueues)
	if args[0] == "start" {
		held.server = startSQS(ts)
		return
	}
	c, ok := sqsCommands[args[0]]
	if !ok || len(args)-1 < c.args || held.server == nil {
		ts.Fatalf("sqs %s: wrong usage, or before sqs start", strings.Join(args, " "))
	}
	c.do(ts, held.server, args[1:])
}

func sqsNumber(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
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
