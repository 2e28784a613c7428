package local

import (
	"context"
	"fmt"
	"time"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/sqlite"
)

var _ broker.Retrier = (*Queue)(nil)

// RetriesFor implements broker.Retrier, by the visibility and the maximum receives
// that the destination was made with. A worker that asks for longer leases makes it
// longer.
func (q *Queue) RetriesFor(ctx context.Context, destination string) (time.Duration, error) {
	c, err := foundQueue(destination)(scanQueue(q.file.read.QueryRowContext(ctx, selectQueue, destination)))
	if err != nil {
		return 0, fmt.Errorf("how long %s tries a copy: %w", destination, sqlite.Ended(ctx, err))
	}
	return c.Visibility * time.Duration(c.MaxReceives), nil
}
