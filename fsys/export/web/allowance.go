package web

import (
	"context"
	"sync"
)

// An allowance is how many bytes may be held at once, by all together.
type allowance struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed when some are given back
}

func newAllowance(n int64) *allowance { return &allowance{left: n} }

// take waits until n more may be held.
func (a *allowance) take(ctx context.Context, n int64) error {
	for {
		a.mu.Lock()
		if a.left >= n {
			a.left -= n
			a.mu.Unlock()
			return nil
		}
		if a.freed == nil {
			a.freed = make(chan struct{})
		}
		freed := a.freed
		a.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (a *allowance) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left += n
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// some waits until any may be held, and takes up to n.
func (a *allowance) some(ctx context.Context, n int64) (int64, error) {
	if err := a.take(ctx, 1); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	more := min(a.left, n-1)
	a.left -= more
	return more + 1, nil
}
