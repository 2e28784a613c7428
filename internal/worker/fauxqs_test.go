package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/testservers/node"
)

// TestFailureMatrixOnFauxqs is the matrix on an SQS server that is not ours.
func TestFailureMatrixOnFauxqs(t *testing.T) {
	t.Parallel()
	url := node.Start(t, node.Fauxqs)
	var worlds atomic.Int64
	t.Run("stories", func(t *testing.T) {
		failureMatrix(t, func(w *world) (source, dlq broker.Broker) {
			return fauxqsQueues(w, url, fmt.Sprintf("w%d-", worlds.Add(1)))
		})
	})
}

// fauxqsQueues are queues of one world on a server that others use too.
func fauxqsQueues(w *world, url, prefix string) (source, dlq broker.Broker) {
	t := w.t
	c := aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(url), Credentials: credentials.NewStaticCredentialsProvider("k", "s", "")}
	client := sdk.NewFromConfig(c)
	w.name = prefix + "jobs"
	_, err := client.CreateQueue(t.Context(), &sdk.CreateQueueInput{QueueName: aws.String(prefix + "jobs-dlq")})
	must(t, err)
	made, err := client.CreateQueue(t.Context(), &sdk.CreateQueueInput{QueueName: aws.String(w.name), Attributes: map[string]string{
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%sjobs-dlq","maxReceiveCount":100}`, prefix),
	}})
	must(t, err)
	account := sqs.NewAccount(sqs.Options{Now: w.Now, Config: c, Wait: -1})
	t.Cleanup(func() { must(t, account.Close()) })
	s, err := account.Open(t.Context(), w.name)
	must(t, err)
	d, err := account.Open(t.Context(), prefix+"jobs-dlq")
	must(t, err)
	return &onWorldTime{Broker: s, w: w, client: client, url: made.QueueUrl, until: map[string]time.Time{}}, d
}

// onWorldTime lets leases end by the world's clock on a server that has only the
// real one: they last long there, and are given back when their time is over here.
type onWorldTime struct {
	broker.Broker
	w      *world
	client *sdk.Client
	url    *string
	until  map[string]time.Time // by receipt
}

func (o *onWorldTime) Receive(ctx context.Context, r broker.Request) ([]broker.Delivery, error) {
	for receipt, until := range o.until {
		if o.w.Now().Before(until) {
			continue
		}
		delete(o.until, receipt)
		// A copy that was deleted has nothing to give back.
		_, _ = o.client.ChangeMessageVisibility(ctx, &sdk.ChangeMessageVisibilityInput{QueueUrl: o.url, ReceiptHandle: aws.String(receipt)})
	}
	until := o.w.Now().Add(r.Lease)
	r.Lease = time.Hour
	ds, err := o.Broker.Receive(ctx, r)
	for i := range ds {
		ds[i].LeaseUntil, o.until[ds[i].Receipt] = until, until
	}
	return ds, err
}

func (o *onWorldTime) Extend(ctx context.Context, ds []broker.Delivery, lease time.Duration) []broker.Result {
	rs := o.Broker.Extend(ctx, ds, time.Hour)
	for i, r := range rs {
		if r.Outcome == broker.Done {
			o.until[ds[i].Receipt] = o.w.Now().Add(lease)
		}
	}
	return rs
}
