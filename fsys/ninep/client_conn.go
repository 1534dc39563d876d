package ninep

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"agent9/fsys"
)

// A sendQueue gathers frames for one goroutine that writes them: a caller
// whose context ends must not be held by a server that does not read.
type sendQueue struct {
	mu    sync.Mutex
	b     []byte
	space chan struct{} // made by a waiter, closed when b was taken
	wake  chan struct{}
	later *time.Timer // wakes the goroutine for what nobody waits for
}

// maxQueued is how many bytes may wait to be sent before a call waits itself.
const maxQueued = 4 << 20

// maxLater is how long a message may wait for another to go along with.
const maxLater = 10 * time.Millisecond

func (q *sendQueue) init() {
	q.wake = make(chan struct{}, 1)
	q.later = time.AfterFunc(time.Hour, q.flush)
	q.later.Stop()
}

// room waits until the queue has room.
func (q *sendQueue) room(ctx context.Context, done <-chan struct{}) error {
	for {
		q.mu.Lock()
		if len(q.b) < maxQueued {
			q.mu.Unlock()
			return nil
		}
		if q.space == nil {
			q.space = make(chan struct{})
		}
		space := q.space
		q.mu.Unlock()
		select {
		case <-space:
		case <-done:
			return nil // start knows why
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add puts m into the queue, which is sent by the next flush.
func (q *sendQueue) add(d dialect, m *message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	b, err := appendMessage(q.b, d, m)
	q.b = b
	return err
}

// flush has the queue sent.
func (q *sendQueue) flush() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// flushLater has the queue sent with the next message, or in a while.
func (q *sendQueue) flushLater() { q.later.Reset(maxLater) }

// take returns all that is to be sent. sent is what it returned before.
func (q *sendQueue) take(sent []byte) []byte {
	if cap(sent) > maxQueued/4 {
		sent = nil // a large write should not stay in memory
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.b
	q.b = sent[:0]
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
	return b
}

// send writes until the connection ends.
func (c *Client) send() {
	defer c.out.later.Stop()
	var b []byte
	for {
		select {
		case <-c.out.wake:
		case <-c.done:
			return
		}
		for {
			if b = c.out.take(b); len(b) == 0 {
				break
			}
			if _, err := c.conn.Write(b); err != nil {
				c.end(lost(err))
				return
			}
		}
	}
}

// receive hands out replies until the connection ends. Of replies that came
// together the last is handed out first: who has asked for several, and waits
// for the first of them, finds all of them then.
func (c *Client) receive(frames *frameReader) {
	defer frames.drop()
	var came []*clientCall
	for err := error(nil); err == nil; {
		if err = c.next(frames, &came); err == nil && frames.ready() {
			continue
		}
		for i, call := range slices.Backward(came) {
			call.done <- struct{}{}
			came[i] = nil
		}
		came = came[:0]
		if err != nil {
			c.end(err)
		}
	}
}

// next reads a reply, and adds its call to came if somebody waits for that. An
// error ends the connection.
func (c *Client) next(frames *frameReader, came *[]*clientCall) error {
	b, err := frames.next(c.msize)
	if err != nil {
		return lost(err)
	}
	r := clientReplies.Get().(*clientReply)
	r.frame, b = frames.keep(b)
	if err = decodeMessage(b, c.dialect, &r.message); err == nil {
		var call *clientCall
		if call, err = c.deliver(r); call != nil {
			*came = append(*came, call)
		}
	}
	if err != nil {
		return &fsys.Error{Code: fsys.Unavailable, Err: err,
			Reason: fmt.Sprintf("the server's reply %x is invalid: %s", head(b), fsys.ReasonOf(err))}
	}
	return nil
}

func head(b []byte) []byte { return b[:min(len(b), 16)] }

// deliver gives r to the call that waits for it, which it returns, or settles
// what nobody waits for.
func (c *Client) deliver(r *clientReply) (*clientCall, error) {
	t := &c.calls
	t.mu.Lock()
	call := t.calls[r.Tag]
	switch {
	case call == nil || call.answered:
		t.mu.Unlock()
		return nil, fsys.E(fsys.Unavailable, "no request has its tag")
	case !call.left:
		t.forget(call)
		t.mu.Unlock()
		call.reply = r
		return call, nil
	case call.flushes != nil: // the flushed tag is free from here on
		old := call.flushes
		t.forget(call)
		t.forget(old)
		t.mu.Unlock()
		if !old.answered {
			c.settle(old, nil, false)
		}
	case call.done == nil:
		t.forget(call)
		t.mu.Unlock()
		c.settle(call, r, false)
	default: // its Rflush is still to come
		call.answered = true
		t.mu.Unlock()
		c.settle(call, r, false)
	}
	r.free()
	return nil, nil
}

// lost is the error of every call after the connection ended with err. The end
// of a connection is not the end of a file, whatever was read.
func lost(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &fsys.Error{Code: fsys.Unavailable, Reason: "the connection to the server was lost: " + err.Error(), Err: err}
}

// end makes every call fail with err, unless the connection has ended before.
func (c *Client) end(err error) {
	t := &c.calls
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	t.err = err
	calls := t.calls
	t.calls = nil
	t.mu.Unlock()
	for _, call := range calls {
		if !call.left {
			call.done <- struct{}{}
		}
	}
	close(c.done)
	c.conn.Close()
}
