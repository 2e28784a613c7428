package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/ledger/sqlledger"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

// queuedJob is one line of a file that sqs enqueue reads: a job that the
// application has just written into its ledger and its queue.
type queuedJob struct {
	Key      string `json:"key"`
	Group    string `json:"group"`
	Receives int    `json:"receives"` // by workers that died before they claimed it
	Times    int    `json:"times"`    // so many jobs, with -1, -2, … behind the key
}

// enqueueSQS puts jobs into a source queue and into ledger.db.
func enqueueSQS(ts *testscript.TestScript, s *sqsfake.Server, queue, lines string) {
	l := openScriptLedger(ts)
	defer func() { ts.Check(l.Close()) }()
	for line := range strings.Lines(lines) {
		var j queuedJob
		ts.Check(json.Unmarshal([]byte(line), &j))
		for i := range max(1, j.Times) {
			key := j.Key
			if j.Times > 0 {
				key = fmt.Sprintf("%s-%d", j.Key, i+1)
			}
			m := seedJob{Key: key, Group: j.Group}.message(ts)
			ts.Check(l.Insert(context.Background(), ledger.NewRow{
				Key: ledger.Key{JobKey: key, Consumer: "mailer"}, Actor: "application", PayloadSHA256: job.Decode(m, "digests").PayloadSHA256,
			}))
			s.Seed(queue, sqsfake.Message{Body: string(m.Body), GroupID: m.OrderKey, DedupID: key, Receives: j.Receives})
		}
	}
}

func openScriptLedger(ts *testscript.TestScript) *sqlledger.Ledger {
	ctx := context.Background()
	l, err := sqlledger.Open(ctx, sqlledger.Config{Path: ts.MkAbs("ledger.db"), Create: true, Consumer: "mailer"})
	ts.Check(err)
	ts.Check(l.Init(ctx))
	return l
}

// workSQS lets the reference worker handle a source queue until nothing is left
// in it, or so many copies of it. It sends to the script's provider.
func workSQS(ts *testscript.TestScript, s *sqsfake.Server, queue string, copies []string) {
	ctx := context.Background()
	l := openScriptLedger(ts)
	defer func() { ts.Check(l.Close()) }()
	h := httptest.NewServer(s)
	defer h.Close()
	account := sqs.NewAccount(sqs.Options{Config: aws.Config{
		Region: sqsfake.Region, BaseEndpoint: aws.String(h.URL), Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
	}})
	defer account.Close()
	q, err := account.Open(ctx, queue)
	ts.Check(err)
	w := scriptMailer(ts, q, l)
	if len(copies) > 0 {
		scriptHandles(ts, w, sqsNumber(ts, copies[0]))
		return
	}
	for end := time.Now().Add(scriptPatience); ; {
		if _, err := w.Step(ctx); err != nil {
			ts.Logf("worker: %v", err)
		}
		visible, hidden, delayed := s.Depth(queue)
		if visible+hidden+delayed == 0 {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s holds %d copies after %s", queue, visible+hidden+delayed, scriptPatience)
		}
	}
}
