package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/errgroup"

	"github.com/redrivectl/redrivectl/audit"
)

const benchMoverName = "bench-sqs-mover"

// mover is the least that can move messages: it receives, sends and deletes ten
// at a time, on as many connections as it is given, each of which always has a
// request under way. It looks at nothing, remembers nothing and proves nothing,
// unless it has a keeper.
type mover struct {
	client *sqs.Client
	from   string
	to     string
	keeper *benchKeeper
}

// benchMover is a process that moves all of a queue. Its arguments are the URLs
// of both queues, the number of connections and, for one that keeps what it does,
// a folder with a ledger.
func benchMover() {
	if err := move(context.Background(), os.Args[1], os.Args[2], os.Args[3], os.Args[4:]...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func move(ctx context.Context, from, to, connections string, dirs ...string) (err error) {
	n, err := strconv.Atoi(connections)
	if err != nil {
		return err
	}
	c, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	transport := awshttp.NewBuildableClient().GetTransport()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.MaxConnsPerHost = n, n, n
	m := mover{from: from, to: to, client: sqs.NewFromConfig(c, func(o *sqs.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = unclosed{&http.Client{Transport: transport}}
	})}
	batches := n
	for _, dir := range dirs {
		batches = 2 * n // as a run: while one waits for the disk, another uses its connection
		if m.keeper, err = openKeeper(ctx, dir, batches); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.keeper.close()) }()
	}
	g, ctx := errgroup.WithContext(ctx)
	for range batches {
		g.Go(func() error { return m.moveAll(ctx) })
	}
	return g.Wait()
}

// unclosed keeps net/http from taking a body that the client closes as soon as the
// answer begins for a write that failed: closed, it reads as empty, but its WriteTo
// fails. The connection would be cut in the middle of the answer.
type unclosed struct{ *http.Client }

func (u unclosed) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return u.Client.Do(r)
}

func (m mover) moveAll(ctx context.Context) error {
	for {
		out, err := m.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &m.from, MaxNumberOfMessages: 10, VisibilityTimeout: 60, WaitTimeSeconds: 1,
			MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		if err != nil || len(out.Messages) == 0 {
			return err
		}
		if err := m.carry(ctx, out.Messages); err != nil {
			return err
		}
	}
}

func (m mover) carry(ctx context.Context, ms []types.Message) error {
	k := m.keeper
	if k == nil {
		if err := m.send(ctx, ms); err != nil {
			return err
		}
		return m.remove(ctx, ms)
	}
	if err := k.intend(ctx, ms); err != nil {
		return err
	}
	if err := m.send(ctx, ms); err != nil {
		return err
	}
	if err := k.record(ctx, ms, audit.Outcome, audit.StepPublish, audit.ResultDone); err != nil {
		return err
	}
	if err := m.remove(ctx, ms); err != nil {
		return err
	}
	return k.record(ctx, ms, audit.Outcome, audit.StepAck, audit.ResultDone)
}

var errEntries = errors.New("some entries failed")

func (m mover) send(ctx context.Context, ms []types.Message) error {
	in := &sqs.SendMessageBatchInput{QueueUrl: &m.to}
	for i, one := range ms {
		e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: one.Body, MessageAttributes: one.MessageAttributes}
		if t := one.Attributes["AWSTraceHeader"]; t != "" {
			e.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &t}}
		}
		in.Entries = append(in.Entries, e)
	}
	out, err := m.client.SendMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = errEntries
	}
	return err
}

func (m mover) remove(ctx context.Context, ms []types.Message) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &m.from}
	for i, one := range ms {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: one.ReceiptHandle})
	}
	out, err := m.client.DeleteMessageBatch(ctx, in)
	if err == nil && len(out.Failed) > 0 {
		err = errEntries
	}
	return err
}
