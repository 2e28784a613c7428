package sqs

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
)

var _ broker.Retrier = (*Queue)(nil)

// RetriesFor implements broker.Retrier, by the destination's VisibilityTimeout and
// the maxReceiveCount of its redrive policy. A consumer that sets visibilities of
// its own makes it longer.
func (q *Queue) RetriesFor(ctx context.Context, destination string) (time.Duration, error) {
	f, err := q.account.find(ctx, destination)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", destination, err)
	}
	return f.visibility * time.Duration(f.maxReceives), nil
}
