package ninep

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A request is one message of a client until it is answered.
type request struct {
	conn *conn
	s    *session
	op   messageType
	m    message // becomes the reply
	att  *attach
	fid  *fid // that it is about
	dir  *fid // the other one of Trename and Trenameat
	ctx  *opContext

	pooled  bool // ctx may be used again
	spanEnd func(code string)
	soon    bool // is over soon, so who leads performs it

	size   int     // of the message
	paid   int64   // bytes that were taken for it
	body   *frame  // keeps m.Data of a Twrite
	data   *frame  // a reply of file data, made in place
	parked *parked // what it waits with, in no goroutine

	// guarded by the session's mu
	flushes   []*request // Tflushes to answer after it
	flushed   bool       // and so cancelled
	committed bool       // has changed the fids, and will be answered
	dropped   bool       // will not be answered
	finished  bool
	orderly   bool // a Tclunk that is still to act, though the session is over
	using     bool // is among fid.ops
	opening   bool // fid.state is fidBusy for it
	reserved  *fid // the new fid, not in use until r commits
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest(c *conn) *request {
	r := requests.Get().(*request)
	r.conn, r.s = c, c.session
	return r
}

// free gives r back. Not after it was flushed: a timer may still hold it.
func (r *request) free() {
	r.freeBody()
	*r = request{}
	requests.Put(r)
}

func (r *request) freeBody() {
	if r.body != nil {
		r.body.free()
		r.body = nil
	}
}

// cancel tells the service that r is not wanted any more. The session's mu is
// held.
func (r *request) cancel() {
	if r.ctx != nil {
		r.ctx.cancel(context.Canceled)
	}
}

// run performs r and answers it, unless it is parked.
func (r *request) run() {
	if err := r.serve(); err != errParked {
		r.finish(err)
	}
}

// serve performs r and makes m the reply. A service that panics fails the
// request, not the daemon.
func (r *request) serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.conn.srv.Log.Error("panic in a service", "request", r.op, "panic", p, "stack", string(debug.Stack()))
			err = fsys.E(fsys.Internal, fmt.Sprintf("the service failed in %v", r.op))
		}
	}()
	switch r.op {
	case tattach:
		return r.attach()
	case twalk:
		return r.walk()
	case topen, tlopen:
		return r.open()
	case tcreate, tlcreate:
		return r.create()
	case tread:
		return r.read()
	case treaddir:
		return r.readDir()
	case twrite:
		return r.write()
	case tclunk:
		return r.clunk()
	case tremove:
		return r.remove()
	case tstat:
		return r.stat()
	case twstat:
		return r.wstat()
	}
	return r.serveLinux()
}

func (r *request) serveLinux() error {
	switch r.op {
	case tgetattr:
		return r.getAttr()
	case tsetattr:
		return r.setAttr()
	case tstatfs:
		return r.statfs()
	case tfsync:
		return fsys.Sync(r.ctx, r.fid.handle)
	case tmkdir:
		return r.mkdir()
	case trename:
		return r.rename()
	case trenameat:
		return r.renameAt()
	case tunlinkat:
		return r.unlinkAt()
	case tlock:
		return r.lock()
	case tgetlock:
		return r.getLock()
	case txattrwalk:
		return r.xattrWalk()
	case treadlink:
		return fsys.E(fsys.Invalid, "this is not a symbolic link")
	}
	// Tsymlink, Tlink, Tmknod, Txattrcreate
	return fsys.Unsupported
}

// finish answers r, if that is still wanted, and undoes what it had reserved.
func (r *request) finish(err error) {
	s, c := r.s, r.conn
	if r.spanEnd != nil {
		r.spanEnd(fsys.Outcome(err))
	}
	if err == nil && r.tells() && r.att.over() {
		err = errRevoked
	}
	reply := r.encode(err)
	c.data.Give(share.Requests, r.paid) // before the client hears, and asks for more
	r.freeBody()
	s.mu.Lock()
	unused := s.release(r)
	if unused == nil {
		c.data.Requests.Add(-1)
	}
	r.finished = true
	if r.dropped || s.ended {
		reply.free()
	} else {
		delete(s.tags, r.m.Tag)
		if r.flushed && fsys.CodeOf(err) == fsys.Canceled {
			reply.free()
		} else {
			c.out.put(reply)
		}
		s.answerFlushes(r)
	}
	flushed := r.flushed
	s.mu.Unlock()
	if !r.soon { // who leads sends when there is no more to read
		c.out.flush()
	}
	if unused != nil {
		s.discard(unused)
		c.data.Requests.Add(-1)
	}
	if r.ctx.end() && r.pooled {
		r.att.contexts.Put(r.ctx)
	}
	if !flushed {
		r.free()
	}
}

// tells reports whether the answer to r is what the tree says, and nothing
// else.
func (r *request) tells() bool {
	switch r.op {
	case tread, treaddir, tstat, tgetattr:
		return true
	}
	return false
}

// encode returns the reply as a frame: the error, or the data that was made in
// place, or m.
func (r *request) encode(err error) *frame {
	data := r.data
	r.data = nil
	if data != nil && err == nil {
		return r.finishData(data)
	}
	if data != nil {
		data.free()
	}
	if err != nil {
		return r.encodeError(err)
	}
	f := smallFrame(r.conn.data)
	r.m.Type = r.op + 1
	b, err := appendMessage(f.b, r.dialect(), &r.m)
	if err != nil { // a caller or a node with an endless name
		f.free()
		return r.encodeError(fsys.E(fsys.Internal, "the reply is too long"))
	}
	f.b = b
	return f
}

func (r *request) encodeError(err error) *frame {
	if r.att != nil && fsys.CodeOf(err) == fsys.Canceled && context.Cause(r.att.ctx) == errRevoked {
		err = errRevoked
	}
	m := message{Tag: r.m.Tag}
	d := r.dialect()
	if d == linux {
		m.Type, m.Ecode = rlerror, errnoOf(err)
	} else {
		m.Type, m.Ename = rerror, errorText(err, r.errorStyle())
	}
	f := smallFrame(r.conn.data)
	f.b, _ = appendMessage(f.b, d, &m) // its text is bounded
	return f
}

func (r *request) dialect() dialect {
	if r.s == nil {
		return plan9
	}
	return r.s.dialect
}

func (r *request) errorStyle() errorStyle {
	if r.att == nil {
		return autoErrors
	}
	return r.att.options.errors
}

// newData reserves a reply with room for n bytes of file data.
func (r *request) newData(n int) ([]byte, error) {
	f, err := waitFrame(r.ctx, r.conn.data, readHeader+n)
	if err != nil {
		return nil, err
	}
	r.data = f
	return f.b[readHeader:], nil
}

// setData says how much of what newData returned is the reply.
func (r *request) setData(n int) { r.data.b = r.data.b[:readHeader+n] }

func (r *request) finishData(f *frame) *frame {
	binary.LittleEndian.PutUint32(f.b, uint32(len(f.b)))
	f.b[4] = byte(r.op) + 1
	binary.LittleEndian.PutUint16(f.b[5:], r.m.Tag)
	binary.LittleEndian.PutUint32(f.b[7:], uint32(len(f.b)-readHeader))
	return f
}
