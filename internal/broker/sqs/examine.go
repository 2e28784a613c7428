package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// Examine implements broker.Examiner. It sends and deletes nothing; what it may
// do is asked for by requests that cannot succeed.
func (q *Queue) Examine(ctx context.Context, w broker.Worker) ([]broker.Finding, error) {
	fs := q.facts.alone()
	sources, err := q.sources(ctx)
	if err != nil {
		return append(fs, finding(broker.Bad, "sources", "cannot be listed: %v", err)), nil
	}
	if len(sources) == 0 {
		fs = append(fs, finding(broker.Doubtful, "sources", "no queue dead-letters into it: a redrive needs --to, and age counts from another queue's policy"))
	}
	for _, name := range sources {
		s, err := q.account.find(ctx, name)
		if err != nil {
			fs = append(fs, finding(broker.Bad, "source", "%s cannot be read: %v", name, err))
			continue
		}
		fs = append(fs, q.facts.beside(s, w)...)
		fs = append(fs, q.account.maySend(ctx, s)...)
	}
	fs = append(fs, q.mayReceive(ctx)...)
	moving, err := q.moveTasks(ctx)
	if err != nil {
		return nil, err
	}
	return append(fs, moving...), nil
}

func finding(s broker.Severity, what, format string, args ...any) broker.Finding {
	return broker.Finding{Severity: s, What: what, Detail: fmt.Sprintf(format, args...)}
}

// alone is what the dead-letter queue's own attributes show.
func (f *facts) alone() []broker.Finding {
	fs := []broker.Finding{finding(broker.Good, "queue", "%s keeps messages for %s", f.arn, f.retention)}
	if f.maxReceives > 0 {
		fs = append(fs, finding(broker.Doubtful, "redrive_policy", "the dead-letter queue dead-letters after %d receives, and each look is one", f.maxReceives))
	}
	if f.keyID != "" {
		fs = append(fs, finding(broker.Good, "key", "reading needs kms:Decrypt on %s", f.keyID))
	}
	if f.fifo {
		fs = append(fs, finding(broker.Doubtful, "order", "a message that was dead-lettered has let later ones of its group overtake it"))
	}
	return fs
}

// beside compares the dead-letter queue with one of its sources.
func (f *facts) beside(s *facts, w broker.Worker) []broker.Finding {
	var fs []broker.Finding
	add := func(sev broker.Severity, what, format string, args ...any) {
		fs = append(fs, finding(sev, what, format, args...))
	}
	if f.fifo != s.fifo {
		add(broker.Bad, "type", "%s and its source %s are not both FIFO or both standard", f.name, s.name)
	}
	if mine, its := accountAndRegion(f.arn), accountAndRegion(s.arn); mine != its {
		add(broker.Bad, "place", "%s is in %s, its source %s in %s: SQS wants one account and region", f.name, mine, s.name, its)
	}
	switch {
	case !f.fifo && f.retention <= s.retention:
		add(broker.Bad, "retention", "%s here, %s in %s: the time of sending is kept, so a message that waited long there is lost here early", f.retention, s.retention, s.name)
	case f.fifo && f.retention < s.retention:
		add(broker.Doubtful, "retention", "%s here, %s in %s: the time of sending begins anew when a FIFO queue dead-letters", f.retention, s.retention, s.name)
	}
	if w.ClaimLife > 0 && s.visibility < w.ClaimLife+w.MaxPause {
		add(broker.Doubtful, "visibility", "%s gives a message to another worker after %s, while the first may send for %s", s.name, s.visibility, w.ClaimLife+w.MaxPause)
	}
	if s.maxBytes < f.maxBytes {
		add(broker.Doubtful, "size", "%s takes %d bytes, %s holds up to %d: what is larger cannot return", s.name, s.maxBytes, f.name, f.maxBytes)
	}
	if !f.allows(s.arn) {
		add(broker.Bad, "redrive_allow_policy", "%s does not let %s dead-letter into it", f.name, s.name)
	}
	if s.keyID != "" {
		add(broker.Good, "key", "sending to %s needs kms:GenerateDataKey and kms:Decrypt on %s", s.name, s.keyID)
	}
	return fs
}

func accountAndRegion(name string) string {
	a, err := arn.Parse(name)
	if err != nil {
		return name
	}
	return a.AccountID + " " + a.Region
}

// allows reports that the redrive allow policy permits a source.
func (f *facts) allows(source string) bool {
	switch f.allow.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(f.allow.Sources, source)
	default:
		return true
	}
}

// mayReceive asks for what looking and acknowledging need, by requests whose
// receipt or count is not valid: permission is judged first.
func (q *Queue) mayReceive(ctx context.Context) []broker.Finding {
	url := aws.String(q.facts.url)
	no := aws.String("redrivectl-asks-for-permission")
	out, err := q.client().ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: maxEntries + 1, VisibilityTimeout: 1})
	if err == nil && len(out.Messages) > 0 { // a server that takes any count: they come back after a second
		err = errors.New("received")
	}
	fs := permission("sqs:ReceiveMessage", q.facts.name, err)
	_, err = q.client().ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: no})
	fs = append(fs, permission("sqs:ChangeMessageVisibility", q.facts.name, err)...)
	_, err = q.client().DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: no})
	return append(fs, permission("sqs:DeleteMessage", q.facts.name, err)...)
}

// maySend asks for sqs:SendMessage with a batch that holds nothing.
func (a *Account) maySend(ctx context.Context, to *facts) []broker.Finding {
	_, err := a.client(to.region).SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: aws.String(to.url), Entries: []types.SendMessageBatchRequestEntry{}})
	return permission("sqs:SendMessage", to.name, err)
}

// permission reads the answer to a request that cannot succeed.
func permission(action, queue string, err error) []broker.Finding {
	if errors.Is(told(err), broker.ErrDenied) {
		return []broker.Finding{finding(broker.Bad, "permission", "%s on %s is denied", action, queue)}
	}
	return []broker.Finding{finding(broker.Good, "permission", "%s on %s is not denied", action, queue)}
}

// moveTasks says whether SQS itself is moving messages out of the queue.
func (q *Queue) moveTasks(ctx context.Context) ([]broker.Finding, error) {
	out, err := q.client().ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: aws.String(q.facts.arn)}, patiently)
	switch {
	case errors.Is(told(err), broker.ErrDenied):
		return []broker.Finding{finding(broker.Doubtful, "move_task", "sqs:ListMessageMoveTasks is denied: whether SQS moves messages by itself is not known")}, nil
	case codeOf(err) != "": // no dead-letter queue of an SQS queue, or a server without it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("move tasks of %s: %w", q.facts.name, err)
	}
	var fs []broker.Finding
	for _, t := range out.Results {
		if text(t.Status) == "RUNNING" {
			fs = append(fs, finding(broker.Bad, "move_task", "SQS moves messages out of it since %s, past every approval: aws sqs cancel-message-move-task",
				time.UnixMilli(t.StartedTimestamp).UTC().Format(time.RFC3339)))
		}
	}
	return fs, nil
}

// allowPolicy is a queue's RedriveAllowPolicy.
type allowPolicy struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}
