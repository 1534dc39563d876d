package ninep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
)

// An allowance bounds the bytes of file data that one connection makes the
// server hold: what it writes and a service has not taken yet, and what it
// reads and has not taken from us.
type allowance struct {
	limit   int64
	held    atomic.Int64
	waiting atomic.Int32

	mu    sync.Mutex
	freed chan struct{} // made by who waits, closed when something was given back
}

// maxAllowanceWait is how long a request waits for others to give something
// back. They may themselves wait in services, for ever.
const maxAllowanceWait = time.Second

var errTooMuch = fsys.E(fsys.Busy, "too much data is under way on this connection")

// try gives f's bytes to f, until it is freed, if there is room for them.
func (a *allowance) try(f *frame) bool {
	n := int64(len(f.b))
	if a.held.Add(n) > a.limit {
		a.held.Add(-n)
		return false
	}
	f.from, f.bytes = a, n
	return true
}

func (a *allowance) give(n int64) {
	a.held.Add(-n)
	if a.waiting.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.freed != nil {
		close(a.freed)
		a.freed = nil
	}
}

// frame returns a frame of n bytes, and waits for room if it must.
func (a *allowance) frame(ctx context.Context, n int) (*frame, error) {
	f := newFrame(n)
	if a.try(f) {
		return f, nil
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	timeout := time.NewTimer(maxAllowanceWait)
	defer timeout.Stop()
	for {
		a.mu.Lock()
		if a.freed == nil {
			a.freed = make(chan struct{})
		}
		freed := a.freed
		a.mu.Unlock()
		if a.try(f) { // perhaps something was given back before freed was made
			return f, nil
		}
		select {
		case <-freed:
			continue
		case <-timeout.C:
			f.free()
			return nil, errTooMuch
		case <-ctx.Done():
			f.free()
			return nil, context.Cause(ctx)
		}
	}
}
