//go:build (linux && !386 && !arm && !mips && !mipsle) || darwin || freebsd

package fuse

import (
	"context"
	"sync"
	"time"
)

// patience is how long an interrupted call may go on by itself. A signal with
// a handler (a child's end, a resized window) interrupts too, and programs
// expect no stat or open to fail of it.
const patience = 100 * time.Millisecond

// A request is the context of one request of the kernel. It has the values of
// the mount's context, and ends with the mount, with the interrupt and with the
// reply. It costs a goroutine only if somebody waits on it.
type request struct {
	context.Context                 // the mount's
	interrupt       <-chan struct{} // not to be used after the reply: it then is another request's
	patience        time.Duration
	link            *link

	mu   sync.Mutex
	done chan struct{} // made by the first Done
	over chan struct{} // made with done
	err  error
}

// end says that the reply was made.
func (r *request) end() {
	r.link.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		close(r.over)
	}
	r.cancel()
}

func (r *request) cancel() {
	if r.err != nil {
		return
	}
	r.err = context.Canceled
	if r.done != nil {
		close(r.done)
	}
}

func (r *request) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		return r.done
	}
	r.done = make(chan struct{})
	if r.err != nil {
		close(r.done)
		return r.done
	}
	r.over = make(chan struct{})
	go r.watch(r.interrupt, r.over)
	return r.done
}

func (r *request) watch(interrupt, over <-chan struct{}) {
	select {
	case <-interrupt:
		if r.patience > 0 {
			t := time.NewTimer(r.patience)
			defer t.Stop()
			select {
			case <-t.C:
			case <-r.Context.Done():
			case <-over:
			}
		}
	case <-r.Context.Done():
	case <-over:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
}

func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	select {
	case <-r.interrupt:
		if r.patience == 0 {
			r.cancel()
		}
	default:
		if r.Context.Err() != nil {
			r.cancel()
		}
	}
	return r.err
}
