package ninep

import (
	"context"
	"fmt"
	"sync"

	"agent9/fsys"
)

// A clientCall is a request that the server has not answered, or has but may
// not be forgotten because its flush is not answered.
type clientCall struct {
	typ      messageType
	fid      uint32        // that the request makes, opens or ends
	names    int           // of a Twalk
	done     chan struct{} // gets one when the reply is there; nil if nobody waits and nothing flushes it
	reply    *clientReply  // set before done
	left     bool          // the caller went away; guarded by the table
	answered bool          // but the reply came before the Rflush
	flushes  *clientCall   // of a Tflush: what it flushes
	chain    *chain        // that it is of, which has the fid; may be nil
	tag      uint16
}

// A clientReply is a reply; its receiver frees it.
type clientReply struct {
	message
	frame *frame
}

var clientReplies = sync.Pool{New: func() any { return new(clientReply) }}

// free gives back the memory of r and of its Data.
func (r *clientReply) free() {
	if r.frame != nil {
		r.frame.free()
		r.frame = nil
	}
	clientReplies.Put(r)
}

// callTable has the calls by their tags, and the fids that are free.
type callTable struct {
	mu       sync.Mutex
	err      error // why the connection ended
	calls    map[uint16]*clientCall
	freeTags []uint16
	nextTag  uint16
	freeFids []uint32
	nextFid  uint32
}

func (t *callTable) init() { t.calls = make(map[uint16]*clientCall) }

// tagged gives call a tag that nothing uses.
func (t *callTable) tagged(call *clientCall) error {
	switch n := len(t.freeTags); {
	case t.err != nil:
		return t.err
	case n > 0:
		call.tag = t.freeTags[n-1]
		t.freeTags = t.freeTags[:n-1]
	case t.nextTag == noTag:
		return fsys.E(fsys.Busy, "65,535 requests to this server are pending")
	default:
		call.tag = t.nextTag
		t.nextTag++
	}
	t.calls[call.tag] = call
	return nil
}

func (t *callTable) forget(call *clientCall) {
	delete(t.calls, call.tag)
	t.freeTags = append(t.freeTags, call.tag)
}

func (t *callTable) newFid() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.freeFids); n > 0 {
		fid := t.freeFids[n-1]
		t.freeFids = t.freeFids[:n-1]
		return fid
	}
	t.nextFid++
	return t.nextFid
}

func (t *callTable) freeFid(fid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freeFids = append(t.freeFids, fid)
}

var (
	clientCalls    = sync.Pool{New: func() any { return &clientCall{done: make(chan struct{}, 1)} }}
	clientRequests = sync.Pool{New: func() any { return new(message) }}
)

// do sends req and waits for the reply. After an error, the fid that req was
// to make, open or end is no longer the caller's.
func (c *Client) do(ctx context.Context, req message) (*clientReply, error) {
	call := clientCalls.Get().(*clientCall)
	call.typ, call.fid, call.names = req.Type, req.Fid, len(req.Names)
	if req.Type == twalk {
		call.fid = req.NewFid
	}
	if err := c.ask(ctx, call, req); err != nil {
		c.settle(call, nil, false)
		return nil, err
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		if c.leave(call) {
			return nil, context.Cause(ctx)
		}
		<-call.done // it came meanwhile
	}
	r := call.reply
	if r == nil {
		return nil, c.why()
	}
	err := r.failure(req.Type)
	c.settle(call, r, true)
	*call = clientCall{done: call.done}
	clientCalls.Put(call)
	if err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// ask sends req when there is room for it.
func (c *Client) ask(ctx context.Context, call *clientCall, req message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.out.room(ctx, c.done); err != nil {
		return err
	}
	m := clientRequests.Get().(*message)
	*m = req
	err := c.start(call, m)
	m.Data = nil
	clientRequests.Put(m)
	return err
}

// start registers call and sends req.
func (c *Client) start(call *clientCall, req *message) error {
	err := c.register(call, req)
	if err == nil {
		c.out.flush()
	}
	return err
}

// register registers call and puts req among what is to be sent.
func (c *Client) register(call *clientCall, req *message) error {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	if err := c.calls.tagged(call); err != nil {
		return err
	}
	req.Tag = call.tag
	if err := c.out.add(c.dialect, req); err != nil {
		c.calls.forget(call)
		return err
	}
	return nil
}

// leave gives call up: it is flushed, and what it did is settled when the
// server answers. It reports false if the reply is there.
func (c *Client) leave(call *clientCall) bool {
	defer c.out.flush() // with the table unlocked
	t := &c.calls
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls[call.tag] != call {
		return false
	}
	call.left = true
	flush := &clientCall{typ: tflush, left: true, flushes: call}
	if t.tagged(flush) != nil {
		call.done = nil // no tag is left: like a clunk, it is only awaited
		return true
	}
	c.out.add(c.dialect, &message{Type: tflush, Tag: flush.tag, OldTag: call.tag})
	return true
}

// failure returns the error that r is, as an answer to a request of type t.
func (r *clientReply) failure(t messageType) error {
	switch r.Type {
	case t + 1:
		return nil
	case rerror:
		return errorOfText(r.Ename)
	case rlerror:
		return errorOfErrno(r.Ecode)
	}
	return fsys.E(fsys.Unavailable, fmt.Sprintf("the server answered %v with %v", t, r.Type))
}

// settle puts in order what became of the fid of call, whose reply is r, or
// nil if it was never performed: taken says that the caller still wants it.
func (c *Client) settle(call *clientCall, r *clientReply, taken bool) {
	if call.chain != nil {
		call.chain.settle(call, r)
		return
	}
	ok := r != nil && r.Type == call.typ+1
	switch call.typ {
	case tattach, twalk:
		switch made := ok && len(r.Qids) == call.names; {
		case !made:
			c.calls.freeFid(call.fid)
		case !taken:
			c.clunk(call.fid)
		}
	case topen, tlopen, tcreate, tlcreate:
		if !ok || !taken {
			c.clunk(call.fid)
		}
	case tclunk, tremove:
		if r != nil {
			c.calls.freeFid(call.fid) // also if it failed
		} else if call.typ == tremove {
			c.clunk(call.fid)
		}
	}
}

// clunk ends fid without waiting.
func (c *Client) clunk(fid uint32) {
	c.clunkLater(fid)
	c.out.flush()
}

// clunkLater ends fid, which holds nothing that anybody waits for, together
// with the next request if there soon is one.
func (c *Client) clunkLater(fid uint32) {
	call := &clientCall{typ: tclunk, fid: fid, left: true}
	if c.register(call, &message{Type: tclunk, Fid: fid}) == nil { // else all fids are gone
		c.out.flushLater()
	}
}

// why returns why the connection ended.
func (c *Client) why() error {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	return c.calls.err
}
