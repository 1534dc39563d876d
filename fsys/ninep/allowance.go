package ninep

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
)

// A Memory bounds what all connections of the servers that share it make them
// hold, beyond ownBytes for each. Nobody gets more of it than is left then for
// others: of n that want all they can get each has an n+1st part, and so much is
// free for who wants less.
type Memory struct {
	pool
	serving
}

// NewMemory returns a bound of limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{pool: pool{limit: limit}} }

// A pool counts bytes that are held.
type pool struct {
	limit   int64
	held    atomic.Int64
	waiting atomic.Int32

	mu    sync.Mutex
	freed chan struct{} // made by who waits, closed when something was given back
}

func (p *pool) give(n int64) {
	p.held.Add(-n)
	p.wake()
}

func (p *pool) wake() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// change returns what is closed when something is given back.
func (p *pool) change() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freed == nil {
		p.freed = make(chan struct{})
	}
	return p.freed
}

// An allowance bounds the bytes that one connection makes the server hold:
// what it writes and a service has not taken yet, what it reads and has not
// taken from us, its fids, and what is kept for them. What is more than
// ownBytes is also held from what all connections share.
type allowance struct {
	pool
	shared *Memory // nil: there is no other bound
}

// ownBytes is what each connection can hold, whatever the others do: small
// reads and writes go on beside clients that have taken all they can get.
const ownBytes = 64 << 10

// maxAllowanceWait is how long a request waits for others to give something
// back. They may themselves wait in services, for ever.
const maxAllowanceWait = time.Second

var errTooMuch = fsys.E(fsys.Busy, "too much data is under way on this connection, or on all together")

// reserve takes n bytes if there is room for them.
func (a *allowance) reserve(n int64) bool {
	held := a.held.Add(n)
	room := held <= a.limit
	if a.shared != nil {
		// Each change of held goes with the same change of what is shared, so
		// that what is shared stays the sum, whatever comes in between.
		mine := beyond(held)
		more := mine - beyond(held-n)
		left := a.shared.limit - a.shared.held.Add(more)
		room = (mine <= left || more == 0) && room
	}
	if !room {
		a.give(n)
	}
	return room
}

// charge takes n bytes that are held already.
func (a *allowance) charge(n int64) {
	if n < 0 {
		a.give(-n)
		return
	}
	held := a.held.Add(n)
	if a.shared != nil {
		a.shared.held.Add(beyond(held) - beyond(held-n))
	}
}

func beyond(held int64) int64 { return max(0, held-ownBytes) }

func (a *allowance) give(n int64) {
	held := a.held.Add(-n)
	if a.shared != nil {
		if less := beyond(held+n) - beyond(held); less > 0 {
			a.shared.give(less)
		}
	}
	a.wake()
}

// try gives f's bytes to f, until it is freed, if there is room for them.
func (a *allowance) try(f *frame) bool {
	f.unburden()
	n := int64(len(f.b))
	if !a.reserve(n) {
		return false
	}
	f.from, f.bytes = a, n
	return true
}

// make returns a frame of n bytes, or nil if there is no room.
func (a *allowance) make(n int) *frame {
	if !a.reserve(int64(n)) {
		return nil
	}
	f := newFrame(n)
	f.from, f.bytes = a, int64(n)
	return f
}

// frame returns a frame of n bytes, and waits for room if it must.
func (a *allowance) frame(ctx context.Context, n int) (*frame, error) {
	if f := a.make(n); f != nil {
		return f, nil
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	var shared <-chan struct{}
	if a.shared != nil {
		a.shared.waiting.Add(1)
		defer a.shared.waiting.Add(-1)
	}
	timeout := time.NewTimer(maxAllowanceWait)
	defer timeout.Stop()
	for {
		freed := a.change()
		if a.shared != nil {
			shared = a.shared.change()
		}
		if f := a.make(n); f != nil { // perhaps something was given back before
			return f, nil
		}
		select {
		case <-freed:
		case <-shared:
		case <-timeout.C:
			return nil, errTooMuch
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
