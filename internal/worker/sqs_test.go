package worker

import (
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/ledger"
	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

// sqsQueues are those of an SQS server of the world's own. The redrive policy
// stands well above what the worker's own retries need.
func sqsQueues(suffix string) queues { return sqsQueuesAfter(suffix, 100) }

// sqsQueuesAfter is sqsQueues whose redrive policy takes a copy away after so
// many receives.
func sqsQueuesAfter(suffix string, maxReceives int) queues {
	return func(w *world) (source, dlq broker.Broker) {
		t := w.t
		server := sqsfake.New(sqsfake.Options{Now: w.Now})
		w.name = "jobs" + suffix
		server.CreateQueue("jobs-dlq"+suffix, nil)
		server.CreateQueue(w.name, map[string]string{"RedrivePolicy": sqsfake.DeadLetter("jobs-dlq"+suffix, maxReceives)})
		h := httptest.NewServer(server)
		t.Cleanup(h.Close)
		account := sqs.NewAccount(sqs.Options{Now: w.Now, Config: aws.Config{
			Region: sqsfake.Region, BaseEndpoint: aws.String(h.URL), Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
		}})
		t.Cleanup(func() { must(t, account.Close()) })
		s, err := account.Open(t.Context(), w.name)
		must(t, err)
		d, err := account.Open(t.Context(), "jobs-dlq"+suffix)
		must(t, err)
		return s, d
	}
}

// TestRedrivePolicy: a copy whose workers die is taken away by the queue itself.
// It says nothing of a reason, and the ledger says what is not known.
func TestRedrivePolicy(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", ".fifo"} {
		w := newWorldOn(t, sqsQueuesAfter(suffix, 2))
		w.provider.stopAt = "after_send"
		w.enqueue("j", 1)
		w.step()
		w.advance(lease)
		w.source.stopAt = "before_quarantine"
		w.step()
		w.advance(lease)
		w.step()
		want := end{State: ledger.Sending, Attempt: 1, Unresolved: 1, Accepted: []string{"j/1 made at 1"}, Dead: []string{" "}}
		if d := cmp.Diff(want, w.end("j")); d != "" {
			t.Errorf("jobs%s:\n%s", suffix, d)
		}
		d, err := w.dlq.Receive(t.Context(), broker.Request{Max: 1, Lease: lease})
		if err != nil || len(d) != 1 || d[0].Origin != sqsfake.ARN(w.name) {
			t.Errorf("dead copies %+v, %v", d, err)
		}
	}
}
