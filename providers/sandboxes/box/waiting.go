//go:build unix

package box

import (
	"context"
	"time"
)

// take waits for a place in turns, which is given back by a receive.
func take(ctx context.Context, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bounded does op, which a deadline ends, until it has an end or ctx has.
// deadline sets that of op alone.
func bounded(ctx context.Context, deadline func(time.Time) error, op func() (int, error)) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	deadline(time.Time{})
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		deadline(time.Unix(1, 0))
		close(passed)
	})
	n, err := op()
	if !stop() {
		<-passed
	}
	if err != nil && n == 0 && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
