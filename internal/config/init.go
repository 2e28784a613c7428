package config

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed init_local.yaml
var initLocal string

// What a configuration for SQS has in place of the local broker's lines.
const (
	localTitle = "queues in a SQLite file"
	localQueue = `    broker: local
    path: queue.db
    dead_letter: jobs-dlq
`
	sqsTitle = "queues of Amazon SQS"
	sqsQueue = `    broker: sqs

    # By name, URL or ARN. Credentials, profile, region and endpoint are those of
    # the AWS client's default chain (AWS_PROFILE, AWS_REGION, …).
    dead_letter: jobs-dlq
`
)

// InitText is the commented configuration that `redrivectl init` writes for a
// broker. It loads as it stands; every key is in it, with its default, behind a
// # that may be taken away.
func InitText(broker Broker) (string, error) {
	switch broker {
	case Local:
		return initLocal, nil
	case SQS:
		return strings.NewReplacer(localTitle, sqsTitle, localQueue, sqsQueue).Replace(initLocal), nil
	default:
		return "", fmt.Errorf("write a configuration for broker %q: this build has %s and %s", broker, Local, SQS)
	}
}
