// Package share counts what clients make the daemon keep, whatever they speak:
// 9P, HTTP, WebSocket, MCP or FUSE. There is one [Pool] for the daemon. Each
// caller, that is each token and each socket and not each connection, has one
// share of it, and a connection or a request has its [Part] of that.
//
// A caller never gets more than is then left for others: of n that want all
// they can get each has an n+1st part, and so much is free for who wants less.
// Connections that have not attached yet have one share together.
// A part of the pool is the operator's alone.
package share

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
)

// A Kind is what bytes are kept for.
type Kind uint8

const (
	Conns    Kind = iota // connections: their buffers and goroutines
	Requests             // requests under way, and readers that wait
	Data                 // what is being received or sent, and replies not taken
	Fids                 // fids, attaches, and the names that lead to them
	Files                // what open files keep: texts, listings, requests that are not whole
	Locks                // locks, and their owners
	kinds
)

func (k Kind) String() string {
	return [...]string{"connections", "requests", "data", "fids", "files", "locks"}[k]
}

// Kinds returns all kinds.
func Kinds() (all []Kind) {
	for k := range kinds {
		all = append(all, k)
	}
	return all
}

// Stranger is whose share connections have that have not said whose they are.
const Stranger = ""

// Operator is the caller for whom a part of the pool is kept free.
const Operator = string(fsys.Operator)

// A Pool bounds what all callers together make the daemon keep.
type Pool struct {
	gate
	limit    int64
	reserve  int64 // of it that only the operator can have
	maxConns int   // of all but the operator's sockets; 0: as many as their doors let in
	held     atomic.Int64
	operator atomic.Int64 // of held
	conns    atomic.Int32 // that doors have let in which are not the operator's
	taking   sync.Mutex   // of who looks for room and takes it

	strangers strangers

	mu     sync.Mutex
	shares map[string]*share
	parts  map[*Part]struct{}
}

// mostReserve is how much of a large pool is the operator's alone.
const mostReserve = 64 << 20

// NewPool returns a pool of limit bytes and conns connections.
func NewPool(limit int64, conns int) *Pool {
	return &Pool{limit: limit, reserve: min(limit/8, mostReserve), maxConns: conns, shares: map[string]*share{}, parts: map[*Part]struct{}{}}
}

// A share is what one caller has.
type share struct {
	pool     *Pool
	key      string
	operator bool
	held     atomic.Int64
	turn     chan struct{} // to make something without room
	parts    int           // guarded by the pool's mu
}

// find returns the share of key for one more part.
func (p *Pool) find(key string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shares[key]
	if s == nil {
		s = &share{pool: p, key: key, operator: key == Operator, turn: make(chan struct{}, 1)}
		p.shares[key] = s
	}
	s.parts++
	return s
}

func (s *share) leave() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.parts--; s.parts == 0 {
		delete(s.pool.shares, s.key)
	}
}

// take takes n bytes if there is room for them: for parts that hold little as
// much as the caller may have, for others three quarters of it, so that who has
// taken much can still connect, and ask for little. What is refused is not counted
// for a moment either: it takes nobody's room, and wakes nobody.
func (s *share) take(n int64, small bool) bool {
	s.pool.taking.Lock()
	defer s.pool.taking.Unlock()
	if n > 0 && !s.fits(n, small) {
		return false
	}
	s.charge(n)
	return true
}

// fits reports whether a caller may have n bytes more.
func (s *share) fits(n int64, small bool) bool {
	p := s.pool
	mine, left := s.held.Load()+n, p.limit-p.held.Load()-n
	spare := p.reserve / 4 // for what is small of the operator's, whatever else the operator has
	if s.operator {
		return small && left >= 0 || mine <= left-spare || mine <= p.reserve-spare
	}
	left -= max(spare, p.reserve-p.operator.Load())
	if !small {
		left -= left / 4
	}
	return mine <= left
}

func (s *share) charge(n int64) (held int64) {
	held = s.held.Add(n)
	if s.operator {
		s.pool.operator.Add(n)
	}
	s.pool.held.Add(n)
	if n < 0 {
		s.pool.wake()
	}
	return held
}

// ErrFull is why there is no room for more.
var ErrFull = fsys.E(fsys.Busy, "your share of the daemon's memory is used up; close files or connections, or try again later")

// maxWait is how long a request waits for others to give something back. They
// may themselves wait in services, for ever.
const maxWait = time.Second

// A gate lets wait until something was given back.
type gate struct {
	waiting atomic.Int32
	mu      sync.Mutex
	freed   chan struct{} // made by a waiter, closed when memory was given back
}

func (g *gate) wake() {
	if g.waiting.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freed != nil {
		close(g.freed)
		g.freed = nil
	}
}

func (g *gate) change() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freed == nil {
		g.freed = make(chan struct{})
	}
	return g.freed
}

// Wait takes n bytes, and waits up to a second for room if it must.
func (p *Part) Wait(ctx context.Context, k Kind, n int64) error {
	if p.Reserve(k, n) {
		return nil
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	var shared <-chan struct{}
	if p.pool != nil {
		p.pool.waiting.Add(1)
		defer p.pool.waiting.Add(-1)
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	for {
		freed := p.change()
		if p.pool != nil {
			shared = p.pool.change()
		}
		if p.Reserve(k, n) { // perhaps something was given back before
			return nil
		}
		select {
		case <-freed:
		case <-shared:
		case <-timeout.C:
			return ErrFull
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
