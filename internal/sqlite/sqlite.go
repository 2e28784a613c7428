// Package sqlite is what the files of this program have in common: how one that
// several open gets its write-ahead log, statements that stay parsed, and errors that
// tell an interrupt from a failure.
package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Ended makes an error that the end of ctx caused say so: SQLite calls it an
// interrupt, and so a failure of its own.
func Ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
