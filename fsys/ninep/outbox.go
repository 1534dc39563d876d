package ninep

import (
	"context"
	"net"
	"sync"
	"time"
)

// An outbox sends replies in the order in which they were put. Whoever finds
// nobody writing writes for all: replies that are ready together go out
// together, and no goroutine waits only to write.
type outbox struct {
	conn    net.Conn
	timeout time.Duration // for a client to take writeChunk bytes
	limit   int           // of bytes that wait, above which reading stops
	small   int           // the same, of those of small frames
	broken  func(error)   // called once when a write fails

	mu       sync.Mutex
	queue    []*frame
	spare    []*frame
	unsent   burden // of the frames in queue and being written
	writing  bool
	err      error
	room     chan struct{} // made by a waiter, closed when there is space again
	deadline time.Time
}

// A burden is how many bytes frames take, and how many of them those of small
// ones.
type burden struct{ all, small int }

func (b *burden) add(f *frame) {
	b.all += cap(f.b)
	if f.small {
		b.small += cap(f.b)
	}
}

// maxSmall is how many bytes of replies without data a client may leave unsent.
const maxSmall = 64 << 10

// Writes are made of at most writeChunk bytes, so that a slow client that
// takes something now and then is not taken for one that is gone.
const writeChunk = 256 << 10

// put adds f, which it owns from now on. It does not wait.
func (o *outbox) put(f *frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		f.free()
		return
	}
	o.queue = append(o.queue, f)
	o.unsent.add(f)
}

// flush sends what is there, unless somebody is at it already.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		return
	}
	o.writing = true
	for len(o.queue) > 0 {
		frames := o.queue
		o.queue = o.spare[:0]
		err := o.err
		o.mu.Unlock()
		n := 0
		var gone burden
		for _, f := range frames {
			n += len(f.b)
			gone.add(f)
		}
		if err == nil {
			err = o.send(frames, n)
		}
		for i, f := range frames {
			f.free()
			frames[i] = nil
		}
		o.mu.Lock()
		o.spare = frames
		o.sent(gone, err)
	}
	o.writing = false
}

func (o *outbox) sent(gone burden, err error) {
	o.unsent.all -= gone.all
	o.unsent.small -= gone.small
	if err != nil && o.err == nil {
		o.err = err
		o.broken(err)
	}
	if o.room != nil && (o.err != nil || o.hasRoom()) {
		close(o.room)
		o.room = nil
	}
}

// send writes n bytes of frames, in one write if they are few.
func (o *outbox) send(frames []*frame, n int) error {
	if len(frames) == 1 {
		return o.write(frames[0].b)
	}
	if n <= writeChunk/4 {
		batch := newFrame(n)
		defer batch.free()
		b := batch.b[:0]
		for _, f := range frames {
			b = append(b, f.b...)
		}
		return o.write(b)
	}
	for _, f := range frames {
		if err := o.write(f.b); err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) write(p []byte) error {
	for len(p) > 0 {
		chunk := p[:min(len(p), writeChunk)]
		p = p[len(chunk):]
		// Setting a deadline costs more than looking at the clock, so each
		// one serves for a while.
		if now := time.Now(); o.deadline.Sub(now) < o.timeout {
			o.deadline = now.Add(2 * o.timeout)
			if err := o.conn.SetWriteDeadline(o.deadline); err != nil {
				return err
			}
		}
		if _, err := o.conn.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// hasRoom reports whether less than the limits is unsent. mu is held.
func (o *outbox) hasRoom() bool { return o.unsent.all < o.limit && o.unsent.small < o.small }

// wait returns when less than the limits is unsent, or nothing can be sent any
// more.
func (o *outbox) wait(ctx context.Context) error {
	for flushed := false; ; flushed = true {
		o.mu.Lock()
		if err := o.err; err != nil || o.hasRoom() {
			o.mu.Unlock()
			return err
		}
		if !flushed {
			o.mu.Unlock()
			o.flush()
			continue
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
