// Package sqs is the broker.Broker over Amazon SQS, standard and FIFO.
//
// SQS has no peek: a look receives, holds, and gives back, and every receive
// counts. It has no transaction either, and some of its answers say less than
// they seem to: a delete with an old receipt succeeds without deleting, a FIFO
// send inside the deduplication window succeeds without delivering, and a batch
// that succeeds may hold entries that failed. What the service does not prove is
// Unknown here. What sends, receives or deletes is tried once, by this package and
// by the client under it; only a question that changes nothing is repeated. The
// rules are the service's API reference and developer guide.
package sqs

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// The service's own limits.
const (
	maxEntries     = 10
	maxBatchBytes  = 1 << 20
	oldBatchBytes  = 256 << 10
	maxAttributes  = 10
	maxLease       = 12 * time.Hour
	maxDelay       = 15 * time.Minute
	maxInFlight    = 120_000
	browsePerGroup = 10
	dedupWindow    = 5 * time.Minute
)

// Options are how queues are reached.
type Options struct {
	// Config has credentials, region and endpoint, as the client's default chain
	// finds them.
	Config aws.Config
	Now    func() time.Time
	// Wait is how long a receive waits for the first message; rounded up to
	// seconds, at most 20. 0 is 1 second: a receive that does not wait asks only
	// some of the service's hosts. Below 0 is as long as the queue itself says.
	Wait time.Duration
	// Connections is how many requests may be under way at once, in each region;
	// others wait for their turn. 0 is 64.
	Connections int
}

// Account reaches the queues of one set of credentials.
type Account struct {
	o  Options
	mu sync.Mutex
	// clients by region, and queues by address, as they were first found.
	clients map[string]*sqs.Client
	queues  map[string]*facts
	http    *http.Client
}

// NewAccount prepares to reach queues; it asks for nothing yet.
func NewAccount(o Options) *Account {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	if o.Connections <= 0 {
		o.Connections = 64
	}
	t := awshttp.NewBuildableClient().GetTransport()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = o.Connections, o.Connections, o.Connections
	return &Account{o: o, clients: map[string]*sqs.Client{}, queues: map[string]*facts{}, http: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of idle connections.
func (a *Account) Close() error {
	a.http.CloseIdleConnections()
	return nil
}

// client is the one for a region; an empty region is the configuration's.
func (a *Account) client(region string) *sqs.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.clients[region]; ok {
		return c
	}
	c := sqs.NewFromConfig(a.o.Config, func(o *sqs.Options) {
		if region != "" {
			o.Region = region
		}
		// A hidden retry of a send is a second message, and of a receive a batch
		// that is hidden until its lease ends.
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = witness{a.http}
		o.DisableMessageChecksumValidation = true // checked here, entry by entry
	})
	a.clients[region] = c
	return c
}

// patiently lets the client repeat a question that changes nothing, as it does by
// itself where nobody forbids it: three times at most, with growing waits.
func patiently(o *sqs.Options) { o.Retryer = retry.NewStandard() }

// Queue is one dead-letter queue with its destinations.
type Queue struct {
	account *Account
	facts   *facts

	mu sync.Mutex
	// changed are the receipts whose leases this process has extended or given
	// back. A delete with one that was given back succeeds and deletes nothing.
	changed map[string]change
	forgot  time.Time
	// lost names the FIFO receives whose answers were lost, by when they were
	// asked: their messages can be asked for again.
	lost map[string]time.Time
}

// Open finds a queue by name, URL or ARN. A queue that does not exist is
// broker.ErrNoQueue.
func (a *Account) Open(ctx context.Context, address string) (*Queue, error) {
	f, err := a.find(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("find SQS queue %s: %w", address, err)
	}
	return &Queue{account: a, facts: f, changed: map[string]change{}, lost: map[string]time.Time{}}, nil
}

// Capabilities implements broker.Broker.
func (q *Queue) Capabilities() broker.Capabilities {
	c := broker.Capabilities{
		MaxBatch: maxEntries, MaxBatchBytes: maxBatchBytes, MaxMessageBytes: q.facts.maxBytes,
		MaxInFlight: maxInFlight, MaxLease: maxLease,
	}
	if q.facts.fifo {
		c.Ordered, c.BrowsePerGroup, c.DedupWindow = true, browsePerGroup, dedupWindow
	}
	return c
}

func (q *Queue) client() *sqs.Client { return q.account.client(q.facts.region) }

func (q *Queue) now() time.Time { return q.account.o.Now() }
