package sqs

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Describe implements broker.Broker. Counts are approximate, and lag behind by
// up to a minute; SQS does not tell how old the oldest copy is.
func (q *Queue) Describe(ctx context.Context) (broker.Description, error) {
	d := broker.Description{
		Broker: "sqs", Queue: q.facts.arn, Retention: q.facts.retention, MaxReceives: q.facts.maxReceives, LookCounts: true,
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	var err error
	if d.Depth, err = q.depth(ctx); err != nil {
		return d, err
	}
	d.Sources, err = q.sources(ctx)
	return d, err
}

var counts = []types.QueueAttributeName{
	types.QueueAttributeNameApproximateNumberOfMessages,
	types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
}

func (q *Queue) depth(ctx context.Context) (broker.Depth, error) {
	out, err := q.client().GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: aws.String(q.facts.url), AttributeNames: counts}, patiently)
	if err != nil {
		return broker.Depth{}, fmt.Errorf("count %s: %w", q.facts.name, told(err))
	}
	n := func(name types.QueueAttributeName) int64 { return int64(number(out.Attributes[string(name)], 0)) }
	return broker.Depth{Visible: n(counts[0]), InFlight: n(counts[1]), Delayed: n(counts[2])}, nil
}

// sources are the queues whose dead letters come here, by ARN; none where the
// server does not know the question, as some that speak the protocol do not.
func (q *Queue) sources(ctx context.Context) ([]string, error) {
	var arns []string
	pages := sqs.NewListDeadLetterSourceQueuesPaginator(q.client(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: aws.String(q.facts.url)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx, patiently)
		if slices.Contains(unsupported, codeOf(err)) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("sources of %s: %w", q.facts.name, told(err))
		}
		for _, url := range page.QueueUrls {
			f, err := q.account.find(ctx, url)
			if err != nil {
				return nil, fmt.Errorf("source %s of %s: %w", url, q.facts.name, err)
			}
			arns = append(arns, f.arn)
		}
	}
	return arns, nil
}
