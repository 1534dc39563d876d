package containers

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How far a file that is read from one end to the other is read ahead, and how
// long what was read so is good for.
const (
	aheadParts = 4
	aheadSize  = 512 << 10
	aheadFresh = time.Second
)

// ahead reads a file ahead of who reads it in large pieces, one after another,
// so that the way into the sandbox is not waited for at each piece.
type ahead struct {
	read func(ctx context.Context, p []byte, off int64) (int, error) // all that is needed

	mu     sync.Mutex
	next   int64   // where the last read ended
	inTurn int     // reads that began where the one before ended
	parts  []*part // the first one begins at next
	ctx    context.Context
	cancel context.CancelFunc // nil: nothing was read ahead since the last drop
	busy   sync.WaitGroup
	closed bool
}

// A part is a piece that is read ahead.
type part struct {
	off  int64
	p    []byte
	n    int
	err  error
	at   time.Time     // when it was read
	done chan struct{} // closed then
}

// ReadAt is fsys.Reader's.
func (a *ahead) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if len(p) < aheadSize/8 {
		return a.read(ctx, p, off)
	}
	for _, x := range a.begin(ctx, off) {
		select {
		case <-x.done:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if x.err != nil || x.n < len(x.p) || time.Since(x.at) > aheadFresh {
			a.forget() // the end of the file, which may grow, or an old story
			break
		}
		if n += copy(p[n:], x.p[off+int64(n)-x.off:]); n == len(p) {
			break
		}
	}
	if n == 0 {
		n, err = a.read(ctx, p, off)
	}
	a.end(off, n)
	return n, err
}

// begin returns the parts that a read at off begins with, if there are any,
// and has more read ahead if that pays.
func (a *ahead) begin(ctx context.Context, off int64) []*part {
	a.mu.Lock()
	defer a.mu.Unlock()
	if off != a.next {
		a.inTurn = 0
		a.drop()
		return nil
	}
	if a.inTurn++; a.inTurn < 2 || a.closed {
		return nil
	}
	if a.cancel == nil {
		a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	from := off
	if k := len(a.parts); k > 0 {
		from = a.parts[k-1].off + aheadSize
	}
	for ; len(a.parts) < aheadParts; from += aheadSize {
		a.start(from)
	}
	return slices.Clone(a.parts)
}

// start reads a part ahead, with mu held.
func (a *ahead) start(off int64) {
	x := &part{off: off, p: make([]byte, aheadSize), done: make(chan struct{})}
	a.parts = append(a.parts, x)
	ctx := a.ctx
	a.busy.Go(func() {
		defer close(x.done)
		for x.n < len(x.p) && x.err == nil {
			var n int
			n, x.err = a.read(ctx, x.p[x.n:], off+int64(x.n))
			if x.n += n; n == 0 {
				break
			}
		}
		x.at = time.Now()
	})
}

// end notes that n bytes at off were read, and lets go of what is before
// their end.
func (a *ahead) end(off int64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = off + int64(n)
	for len(a.parts) > 0 && a.parts[0].off+aheadSize <= a.next {
		a.parts = a.parts[1:]
	}
	if len(a.parts) > 0 && a.parts[0].off > a.next {
		a.drop()
	}
}

func (a *ahead) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

// drop forgets what was read ahead, with mu held.
func (a *ahead) drop() {
	if a.cancel != nil {
		a.cancel()
	}
	a.parts, a.cancel = nil, nil
}

// close ends what is read ahead and waits for that.
func (a *ahead) close() {
	a.mu.Lock()
	a.closed = true
	a.drop()
	a.mu.Unlock()
	a.busy.Wait()
}
