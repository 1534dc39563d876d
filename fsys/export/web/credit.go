package web

import (
	"context"
	"sync"
)

// A credit is how many bytes of a WebSocket may be under way at once.
type credit struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed when some are given back
}

func newCredit(n int64) *credit { return &credit{left: n} }

// take waits until n more may be under way.
func (c *credit) take(ctx context.Context, n int64) error {
	for {
		c.mu.Lock()
		if c.left >= n {
			c.left -= n
			c.mu.Unlock()
			return nil
		}
		if c.freed == nil {
			c.freed = make(chan struct{})
		}
		freed := c.freed
		c.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *credit) give(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += n
	if c.freed != nil {
		close(c.freed)
		c.freed = nil
	}
}

// some waits until any may be under way, and takes up to n.
func (c *credit) some(ctx context.Context, n int64) (int64, error) {
	if err := c.take(ctx, 1); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	more := min(c.left, n-1)
	c.left -= more
	return more + 1, nil
}
