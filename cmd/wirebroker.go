package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/broker/local"
	"github.com/redrivectl/redrivectl/internal/broker/sqs"
	"github.com/redrivectl/redrivectl/internal/config"
)

// queueConfig resolves a QUEUE argument: a configured name; or else one that
// names a queue by itself: local:FILE#NAME, or an SQS queue by name, URL or ARN.
func (a *app) queueConfig(arg string) (string, config.Queue, error) {
	cfg, err := a.config()
	if err != nil {
		return "", config.Queue{}, err
	}
	if q, ok := cfg.Queues[arg]; ok {
		return arg, q, nil
	}
	q, err := unconfigured(cfg, arg)
	if err != nil {
		return "", config.Queue{}, err
	}
	cfg.Queues[arg] = q
	return arg, q, nil
}

func unconfigured(cfg *config.Config, arg string) (config.Queue, error) {
	forced, rest, _ := strings.Cut(arg, ":")
	switch {
	case forced == "local":
		return localQueue(arg, rest)
	case forced == "sqs":
		return sqsQueue(rest), nil
	case forced == "pubsub" || forced == "servicebus":
		return config.Queue{}, fail(exitFailed, "redrivectl init --help", "queue %s: this build has the brokers local and sqs", arg)
	case looksLikeFile(arg) && !strings.Contains(arg, "://"):
		return config.Queue{}, fail(exitFailed, "", "there is no file %s, and no queue of that name", arg)
	case forced == "arn" || forced == "http" || forced == "https" || hasAWS():
		return sqsQueue(arg), nil
	default:
		return config.Queue{}, unknownQueue(cfg, arg)
	}
}

func localQueue(arg, rest string) (config.Queue, error) {
	file, name, ok := strings.Cut(rest, "#")
	if !ok || file == "" || name == "" {
		return config.Queue{}, usagef("queue %q: name a queue file and a queue in it as local:FILE#NAME", arg)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return config.Queue{}, fmt.Errorf("find queue file %s: %w", file, err)
	}
	q := config.NewQueue(name)
	q.Path, q.DeadLetter = path, name
	return q, nil
}

func sqsQueue(address string) config.Queue {
	q := config.NewQueue(address)
	q.Broker, q.DeadLetter = config.SQS, address
	return q
}

// hasAWS reports that the surroundings say where SQS is, so that a name which no
// config has may be one of its queues.
func hasAWS() bool {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// queueKey names a member of a queue in the config. A queue that was named by its
// address has none there yet, and an address can be no name.
func queueKey(name, member string) string {
	if strings.ContainsAny(name, ":/") {
		name = "NAME"
	}
	return "queues." + name + "." + member
}

func unknownQueue(cfg *config.Config, arg string) error {
	names := configured(cfg)
	if len(names) == 0 {
		return fail(exitFailed, "redrivectl init, or redrivectl list FILE for a dump, or AWS_REGION for a queue of SQS", "queue %s is not configured, and no config names any", arg)
	}
	return fail(exitFailed, "redrivectl status", "queue %s is not configured; the config has: %s", arg, strings.Join(names, ", "))
}

func (a *app) openBroker(ctx context.Context, name string, qc config.Queue) (broker.Broker, error) {
	if qc.Broker == config.SQS {
		return a.openSQS(ctx, name, qc)
	}
	return a.openLocal(ctx, name, qc)
}

func (a *app) openLocal(ctx context.Context, name string, qc config.Queue) (broker.Broker, error) {
	f, err := local.Open(qc.Path, local.Options{Now: a.now})
	if errors.Is(err, broker.ErrNoQueue) {
		hint := "the application makes the queue file"
		if named := strings.Contains(name, ":"); !named {
			hint = "correct " + queueKey(name, "path") + "; " + hint
		}
		return nil, withHint(err, hint)
	}
	if err != nil {
		return nil, err
	}
	a.onClose(f.Close)
	b := f.Queue(qc.DeadLetter)
	if _, err := b.Describe(ctx); err != nil {
		if errors.Is(err, broker.ErrNoQueue) {
			return nil, fail(exitFailed, "redrivectl status", "dead-letter queue %s of %s: %w", qc.DeadLetter, name, err)
		}
		return nil, err
	}
	return b, nil
}

// awsSettings are credentials, region and endpoint as the AWS client's default
// chain finds them; a region that is given comes before.
func awsSettings(ctx context.Context, region string) (aws.Config, error) {
	opts := []func(*awsconfig.LoadOptions) error{awsconfig.WithLogger(logging.Nop{})}
	if region != "" {
		opts = append(opts, awsconfig.WithRegion(region))
	}
	c, err := awsconfig.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return c, fmt.Errorf("settings of AWS: %w", err)
	}
	return c, nil
}

// openSQS finds a queue with the credentials, region and endpoint that the AWS
// client's default chain finds.
func (a *app) openSQS(ctx context.Context, name string, qc config.Queue) (broker.Broker, error) {
	c, err := awsSettings(ctx, qc.Region)
	if err != nil {
		return nil, err
	}
	account := sqs.NewAccount(sqs.Options{Config: c, Now: a.now, Connections: sqsConnections})
	a.onClose(account.Close)
	q, err := account.Open(ctx, qc.DeadLetter)
	switch {
	case errors.Is(err, broker.ErrNoQueue):
		return nil, withHint(err, "name it by its URL or ARN if it is of another account or region, here or as "+queueKey(name, "dead_letter"))
	case errors.Is(err, broker.ErrDenied):
		return nil, withHint(err, "permit sqs:GetQueueUrl and sqs:GetQueueAttributes on it")
	case err != nil:
		return nil, withHint(err, "check AWS_PROFILE or the other credentials, AWS_REGION, and AWS_ENDPOINT_URL_SQS if it is set")
	}
	return q, nil
}

// asOrigins gives queues the names by which a broker tells a copy's origin.
func asOrigins(ctx context.Context, b broker.Broker, names []string) ([]string, error) {
	q, ok := b.(*sqs.Queue)
	if !ok {
		return names, nil
	}
	arns := make([]string, len(names))
	for i, name := range names {
		var err error
		if arns[i], err = q.ARN(ctx, name); err != nil {
			return nil, err
		}
	}
	return arns, nil
}
