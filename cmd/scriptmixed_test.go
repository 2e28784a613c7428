package cmd

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/rogpeppe/go-internal/testscript"
)

// mixed [-empty] FILE N fills the dead-letter queue digests-dlq of a queue file
// with N messages of every kind that a queue can hold, the same for the same N.
// With -empty it makes the queues alone.
func scriptMixed(ts *testscript.TestScript, neg bool, args []string) {
	empty := len(args) > 0 && args[0] == "-empty"
	if empty {
		args = args[1:]
	}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mixed [-empty] FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	at := time.Now().Add(-48 * time.Hour).Truncate(time.Millisecond)
	f, err := local.Open(ts.MkAbs(args[0]), local.Options{Create: true, Now: func() time.Time { return at }})
	ts.Check(err)
	defer f.Close()
	ctx := context.Background()
	ts.Check(f.CreateQueue(ctx, local.QueueConfig{Name: "digests-dlq", Retention: 14 * 24 * time.Hour, MaxMessageBytes: 4 << 20}))
	ts.Check(f.CreateQueue(ctx, local.QueueConfig{Name: "digests", DeadLetter: "digests-dlq", MaxReceives: 1, MaxMessageBytes: 4 << 20}))
	if empty {
		return
	}
	q := f.Queue("digests")
	for done := 0; done < n; {
		part := min(n-done, q.Capabilities().MaxBatch)
		out := make([]broker.Outgoing, part)
		for i := range out {
			out[i].Message = mixedMessage(done + i)
		}
		for _, r := range q.Publish(ctx, "digests", out) {
			ts.Check(r.Err)
		}
		at = at.Add(time.Second)
		scriptMixedDead(ts, q, done/part)
		done += part
	}
	for { // what no consumer quarantined is moved when it is received again
		at = at.Add(time.Minute)
		_, err := q.Receive(ctx, broker.Request{Max: 100})
		ts.Check(err)
		d, err := q.Describe(ctx)
		ts.Check(err)
		if d.Depth.Total() == 0 {
			return
		}
	}
}

// scriptMixedDead receives everything; of every other batch the consumer says
// why it quarantines, of the rest the queue's own policy moves it later.
func scriptMixedDead(ts *testscript.TestScript, q *local.Queue, batch int) {
	for {
		ds, err := q.Receive(context.Background(), broker.Request{Max: 100})
		ts.Check(err)
		if len(ds) == 0 {
			return
		}
		if batch%2 != 0 {
			continue
		}
		reason := broker.Reason{Type: "E\u202e" + strconv.Itoa(batch), Code: "429", Message: hostileText}
		for _, r := range q.Quarantine(context.Background(), ds, reason) {
			ts.Check(r.Err)
		}
	}
}

// mixedMessage is the n-th of the mixture.
func mixedMessage(n int) broker.Message {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	binary := make([]byte, r.IntN(200))
	for i := range binary {
		binary[i] = byte(r.Uint32())
	}
	bodies := [][]byte{
		{},
		nil, binary, []byte("text\r\n\ttab"), []byte(hostileText), []byte("\xff\xfe not UTF-8 \xc3\x28"), []byte("\x00"),
		fmt.Appendf(nil, `{"format":"redrivectl/v1","job_key":"j-%d","payload":{"n":1.0,"n":1e2}}`, n),
		[]byte(`{"truncated": "` + strings.Repeat("é", n%50)), bytes.Repeat([]byte{0xff, 0}, 1+n%3000),
	}
	m := broker.Message{Body: bodies[n%len(bodies)]}
	if n%2500 == 7 {
		m.Body = bytes.Repeat([]byte("large \xff"), 150_000) // 1 MB
	}
	if n%3 == 0 {
		m.OrderKey = fmt.Sprintf("group ä/%d", n%7)
	}
	if n%11 == 0 {
		m.RawFormat, m.Raw = "amqp", binary
	}
	for i, kind := range []string{"String", "Number", "Binary", "Number.int", "Binary.gzip", "String.json"}[:n%7%6] {
		value := [][]byte{[]byte("välue " + hostileText), []byte("1e3"), binary, []byte("-0"), {}, []byte("\xff")}[i]
		m.Attributes = append(m.Attributes, broker.Attribute{Name: fmt.Sprintf("name-%d \u202e", 9-i), Type: kind, Value: value})
	}
	if n%5 == 0 {
		m.System = []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte("Root=1-5e1b4151-5ac6")}}
	}
	return m
}
