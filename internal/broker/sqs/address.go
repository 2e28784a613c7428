package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// facts are what does not change of a queue while the program runs.
type facts struct {
	url, arn, name, region string
	fifo                   bool
	maxBytes               int
	visibility, retention  time.Duration
	deadLetter             string // ARN; empty: none
	maxReceives            int    // of the redrive policy
	keyID                  string // of the key that encrypts it; empty: the service's own or none
	allow                  allowPolicy
}

// address is a queue as it was named.
type address struct{ name, owner, region, url string }

// queueName is what SQS allows as the name of a queue.
var queueName = regexp.MustCompile(`^(?:[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo)$`)

// hostRegion is the region in the host of a queue's URL.
var hostRegion = regexp.MustCompile(`^(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com`)

// parseAddress reads a name, a URL or an ARN.
func parseAddress(s string) (address, error) {
	switch {
	case arn.IsARN(s):
		a, err := arn.Parse(s)
		if err != nil || a.Service != "sqs" || !queueName.MatchString(a.Resource) {
			return address{}, fmt.Errorf("%q is no ARN of an SQS queue", s)
		}
		return address{name: a.Resource, owner: a.AccountID, region: a.Region}, nil
	case strings.Contains(s, "://"):
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || strings.Count(strings.Trim(u.Path, "/"), "/") != 1 || !queueName.MatchString(path.Base(u.Path)) {
			return address{}, fmt.Errorf("%q is no URL of an SQS queue", s)
		}
		a := address{name: path.Base(u.Path), url: s}
		if m := hostRegion.FindStringSubmatch(u.Host); m != nil {
			a.region = m[1] + m[2]
		}
		return a, nil
	case !queueName.MatchString(s):
		return address{}, fmt.Errorf("%q is neither a name, a URL nor an ARN of an SQS queue", s)
	default:
		return address{name: s}, nil
	}
}

// ARN is a queue's full name, by which SQS tells where a copy came from.
func (q *Queue) ARN(ctx context.Context, address string) (string, error) {
	f, err := q.account.find(ctx, address)
	if err != nil {
		return "", fmt.Errorf("find SQS queue %s: %w", address, err)
	}
	return f.arn, nil
}

// find asks for a queue's URL and attributes, once.
func (a *Account) find(ctx context.Context, named string) (*facts, error) {
	a.mu.Lock()
	known := a.queues[named]
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	at, err := parseAddress(named)
	if err != nil {
		return nil, err
	}
	client := a.client(at.region)
	if at.url == "" {
		in := &sqs.GetQueueUrlInput{QueueName: aws.String(at.name)}
		if at.owner != "" {
			in.QueueOwnerAWSAccountId = aws.String(at.owner)
		}
		out, err := client.GetQueueUrl(ctx, in, patiently)
		if err != nil {
			return nil, told(err)
		}
		at.url = aws.ToString(out.QueueUrl)
	}
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(at.url), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	}, patiently)
	if err != nil {
		return nil, told(err)
	}
	f, err := newFacts(at, out.Attributes)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues[named], a.queues[f.arn], a.queues[f.url] = f, f, f
	return f, nil
}

// newFacts reads a queue's attributes. A limit that the service does not tell is
// its documented default.
func newFacts(at address, as map[string]string) (*facts, error) {
	f := &facts{
		url: at.url, name: at.name, region: at.region, arn: as["QueueArn"],
		fifo: as["FifoQueue"] == "true", keyID: as["KmsMasterKeyId"],
		maxBytes: number(as["MaximumMessageSize"], maxBatchBytes), visibility: seconds(as["VisibilityTimeout"]), retention: seconds(as["MessageRetentionPeriod"]),
	}
	if f.arn == "" {
		return nil, errors.New("the service does not tell the queue's ARN")
	}
	if f.region == "" {
		if a, err := arn.Parse(f.arn); err == nil {
			f.region = a.Region
		}
	}
	if allow := as["RedriveAllowPolicy"]; allow != "" {
		if err := json.Unmarshal([]byte(allow), &f.allow); err != nil {
			return nil, fmt.Errorf("redrive allow policy of %s: %w", f.name, err)
		}
	}
	policy := as["RedrivePolicy"]
	if policy == "" {
		return f, nil
	}
	var p struct {
		Target string `json:"deadLetterTargetArn"`
		Max    any    `json:"maxReceiveCount"` // a number, or a text in older policies
	}
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return nil, fmt.Errorf("redrive policy of %s: %w", f.name, err)
	}
	f.deadLetter, f.maxReceives = p.Target, number(fmt.Sprint(p.Max), 0)
	return f, nil
}

func number(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return otherwise
	}
	return n
}

func seconds(s string) time.Duration { return time.Duration(number(s, 0)) * time.Second }
