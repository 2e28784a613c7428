package sqs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/brokertest"
	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/testservers/node"
)

// independent are servers that are not ours, each with the checks that it does
// not pass because of what is wrong in it. Nothing here is left out because the
// adapter does not pass.
var independent = []struct {
	name    string
	server  node.Server
	without map[string]string // of both kinds of queue
	fifo    map[string]string // of FIFO queues besides
	body    func(string) string
	value   func(string) string
	system  []string
	read    func(t *testing.T, o *outside, queue string) []broker.Message
}{
	{
		name: "fauxqs", server: node.Fauxqs, body: withoutEmoji, read: inspect,
	},
	{
		name: "local-aws-sqs", server: node.LocalAWSSQS, value: ascii, system: []string{broker.SystemTraceHeader}, read: peek,
		without: map[string]string{
			"browse sees every copy once and leaves it": "counts what is in flight among the visible",
			"browse stops at its limit":                 "counts what is in flight among the visible",
		},
		fifo: map[string]string{"a group waits for its head, others do not": "does not lock the groups of what is in flight"},
	},
}

func TestConformanceOnIndependentServers(t *testing.T) {
	for _, s := range independent {
		t.Run(s.name, func(t *testing.T) {
			url := node.Start(t, s.server)
			for _, suffix := range []string{"", ".fifo"} {
				without := maps.Clone(s.without)
				if suffix != "" {
					maps.Copy(without, s.fifo)
				}
				t.Run("queues"+suffix, func(t *testing.T) {
					brokertest.RunBut(t, without, func(t *testing.T) brokertest.Fixture {
						o := newOutside(t, url, suffix)
						f := o.fixture()
						f.TameBody, f.TameValue, f.System = s.body, s.value, s.system
						f.Read = func(t *testing.T, queue string) []broker.Message { return s.read(t, o, queue) }
						return f
					})
				})
			}
		})
	}
}

// outside is a set of queues on a server that is not ours: jobs, which
// dead-letters into jobs-dlq after three receives, and elsewhere.
type outside struct {
	*testing.T
	url, prefix, suffix string
	http                *http.Client
	client              *sdk.Client
	account             *sqs.Account
}

func newOutside(t *testing.T, url, suffix string) *outside {
	t.Helper()
	o := &outside{T: t, url: url, prefix: fmt.Sprintf("c%d-", serial.Add(1)), suffix: suffix, http: &http.Client{Transport: &http.Transport{}}}
	c := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(url), HTTPClient: o.http,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
	}
	o.client = sdk.NewFromConfig(c)
	o.account = sqs.NewAccount(sqs.Options{Config: c, Wait: -1})
	t.Cleanup(func() {
		if err := o.account.Close(); err != nil {
			t.Error(err)
		}
		o.http.CloseIdleConnections()
	})
	o.create("jobs-dlq", nil)
	o.create("elsewhere", nil)
	dlq, err := o.open("jobs-dlq").ARN(t.Context(), o.name("jobs-dlq"))
	if err != nil {
		t.Fatal(err)
	}
	o.create("jobs", map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":3}`, dlq)})
	return o
}

func (o *outside) name(base string) string { return o.prefix + base + o.suffix }

func (o *outside) create(base string, as map[string]string) {
	o.Helper()
	if o.suffix != "" {
		as = maps.Clone(as)
		if as == nil {
			as = map[string]string{}
		}
		as["FifoQueue"] = "true"
	}
	if _, err := o.client.CreateQueue(o.Context(), &sdk.CreateQueueInput{QueueName: aws.String(o.name(base)), Attributes: as}); err != nil {
		o.Fatal(err)
	}
}

func (o *outside) open(base string) *sqs.Queue {
	o.Helper()
	q, err := o.account.Open(o.Context(), o.name(base))
	if err != nil {
		o.Fatal(err)
	}
	return q
}

func (o *outside) fixture() brokertest.Fixture {
	dlq, jobs := broker.Broker(o.open("jobs-dlq")), broker.Broker(o.open("jobs"))
	if o.suffix != "" {
		dlq, jobs = grouped{dlq}, grouped{jobs}
	}
	return brokertest.Fixture{
		Broker: dlq, Destination: o.name("elsewhere"), Source: jobs, SourceName: o.name("jobs"), Ordered: o.suffix != "", Text: true, Room: 9,
		Seed: func(t *testing.T, ms []broker.Outgoing) {
			t.Helper()
			for i, r := range dlq.Publish(t.Context(), o.name("jobs-dlq"), ms) {
				if r.Err != nil {
					t.Fatalf("seed %d: %v", i, r.Err)
				}
			}
		},
	}
}

// inspect asks fauxqs what a queue holds, which touches nothing.
func inspect(t *testing.T, o *outside, queue string) []broker.Message {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url+"/_fauxqs/queues/"+queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := o.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var held struct {
		Messages struct {
			Ready, Delayed []kept
			Inflight       []struct{ Message kept }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&held); err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(held.Messages.Ready, held.Messages.Delayed)
	for _, m := range held.Messages.Inflight {
		all = append(all, m.Message)
	}
	ms := make([]broker.Message, len(all))
	for i, k := range all {
		ms[i] = broker.Message{
			MessageID: k.MessageID, Body: []byte(k.Body), OrderKey: realGroup(k.MessageGroupID),
			Attributes: attributesOf(k.MessageAttributes), Receives: k.Receives,
		}
	}
	return ms
}

// kept is a message as fauxqs shows it.
type kept struct {
	MessageID         string
	Body              string
	MessageGroupID    string
	Receives          int `json:"approximateReceiveCount"`
	MessageAttributes map[string]types.MessageAttributeValue
}

func attributesOf(vs map[string]types.MessageAttributeValue) []broker.Attribute {
	var as []broker.Attribute
	for _, name := range slices.Sorted(maps.Keys(vs)) {
		v := vs[name]
		as = append(as, broker.Attribute{Name: name, Type: aws.ToString(v.DataType), Value: v.BinaryValue})
		if v.StringValue != nil {
			as[len(as)-1].Value = []byte(*v.StringValue)
		}
	}
	return as
}

// peek receives all that a queue holds, with the plain client, and gives it back.
func peek(t *testing.T, o *outside, queue string) []broker.Message {
	t.Helper()
	url, err := o.client.GetQueueUrl(t.Context(), &sdk.GetQueueUrlInput{QueueName: aws.String(queue)})
	if err != nil {
		t.Fatal(err)
	}
	var ms []broker.Message
	var receipts []*string
	for empty := 0; empty < 3; empty++ {
		out, err := o.client.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{
			QueueUrl: url.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 60, MessageAttributeNames: []string{"All"},
			AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}, //nolint:staticcheck // The server knows no other.
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Messages {
			empty = -1
			b := broker.Message{MessageID: aws.ToString(m.MessageId), Body: []byte(aws.ToString(m.Body)), Attributes: attributesOf(m.MessageAttributes)}
			b.OrderKey = realGroup(m.Attributes["MessageGroupId"])
			if trace := m.Attributes["AWSTraceHeader"]; trace != "" {
				b.System = []broker.Attribute{{Name: broker.SystemTraceHeader, Type: "String", Value: []byte(trace)}}
			}
			ms, receipts = append(ms, b), append(receipts, m.ReceiptHandle)
		}
	}
	for _, r := range receipts {
		if _, err := o.client.ChangeMessageVisibility(t.Context(), &sdk.ChangeMessageVisibilityInput{QueueUrl: url.QueueUrl, ReceiptHandle: r}); err != nil {
			t.Fatal(err)
		}
	}
	return ms
}

// withoutEmoji: fauxqs refuses characters beyond the Basic Multilingual Plane.
func withoutEmoji(s string) string { return strings.ReplaceAll(s, "\U0001F600", "\u263a") }

// ascii: local-aws-sqs answers a wrong checksum of attributes that are not.
func ascii(s string) string { return strings.NewReplacer("\u00e4", "a", "\u00e9", "e").Replace(s) }
