package ninep

import (
	"errors"
	"sync"
	"sync/atomic"

	"agent9/fsys"
	"agent9/fsys/share"
)

// errParked is no answer to a request: it will go on when it need not wait any
// longer, or is cancelled.
var errParked = errors.New("the request is parked")

// parked is what a request waits with while no goroutine performs it.
type parked struct {
	r     *request
	phase atomic.Int32
	stop  func() // the handle's
	room  int    // of the frame that was given back
	taken int64  // what is still held for it
}

// The phases of what is parked.
const (
	parkedSoon   int32 = iota // who parks it is at it
	parkedNow                 // nobody is
	parkedNoMore              // it is to go on
)

// parking is the requests of a connection that go on after they were parked.
type parking struct {
	mu      sync.Mutex
	woken   []*request
	resumes bool // a worker resumes them
}

// parkedBytes is about what a request takes that is parked.
const parkedBytes = 2 << 10

// park leaves r until a read of its fid need not wait, and reports whether it
// has: then r is somebody else's already.
func (r *request) park() bool {
	k := &parked{r: r}
	if k.stop = fsys.Await(r.fid.handle, int64(r.m.Offset), k.wake); k.stop == nil {
		return false
	}
	k.room, k.taken = len(r.data.b), r.data.lay()
	if r.paid > parkedBytes {
		r.conn.data.Give(share.Requests, r.paid-parkedBytes)
		r.paid = parkedBytes
	}
	r.data, r.parked = nil, k
	r.conn.workers.Add(1) // so that nobody takes the connection to be over
	r.ctx.whenOver(k.wake)
	if !k.phase.CompareAndSwap(parkedSoon, parkedNow) {
		r.conn.resume(r)
	}
	return true
}

// wake has what is parked go on. Only the first call counts.
func (k *parked) wake() {
	if k.phase.Swap(parkedNoMore) == parkedNow {
		k.r.conn.resume(k.r)
	}
}

// unpark makes r a request like others again, and returns what newData
// returned to it.
func (r *request) unpark() []byte {
	k := r.parked
	r.parked = nil
	r.ctx.whenOver(nil)
	k.stop()
	r.data = frameOf(r.conn.data, k.room, k.taken)
	r.conn.workers.Done()
	return r.data.b[readHeader:]
}

// resume has r, which was parked, performed by a worker. One worker does all
// that are woken together: they do not wait.
func (c *conn) resume(r *request) {
	p := &c.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = append(p.woken, r)
	if !p.resumes {
		p.resumes = true
		c.workers.Go(c.resumeAll)
	}
}

// sentTogether is how many replies of requests that go on together wait to be
// sent together.
const sentTogether = 64

func (c *conn) resumeAll() {
	p := &c.parking
	for {
		p.mu.Lock()
		woken := p.woken
		p.woken = nil
		p.resumes = len(woken) > 0
		p.mu.Unlock()
		if len(woken) == 0 {
			return
		}
		for i, r := range woken {
			r.soon = true // its reply is sent below
			r.run()
			if i%sentTogether == sentTogether-1 {
				c.out.flush()
			}
		}
		c.out.flush()
	}
}
