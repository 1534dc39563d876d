package ninep

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
)

// A conn is one connection. Its reader goroutine decodes requests and, in
// their order, answers those that need no service and registers the others,
// which workers perform: at any time a few idle ones, and one for each
// request that a service has not answered yet.
type conn struct {
	srv    *Server
	net    net.Conn
	peer   Peer
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	in      *frameReader  // the reader's
	session *session      // the reader's; nil until a version is agreed
	work    chan *request // from the reader to idle workers; closed by the reader
	workers sync.WaitGroup
	idle    atomic.Int32 // workers
	running atomic.Int32 // requests registered and not finished
	data    allowance
	out     outbox
}

const maxIdleWorkers = 2

func newConn(s *Server, nc net.Conn, peer Peer) *conn {
	c := &conn{srv: s, net: nc, peer: peer, in: newFrameReader(nc), work: make(chan *request)}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.data.limit = s.MaxBytes
	c.out = outbox{conn: nc, timeout: s.WriteTimeout, limit: 2 * int(s.MaxMsize), broken: c.hangUp}
	return c
}

// hangUp makes the reader stop.
func (c *conn) hangUp(err error) {
	c.srv.Log.Debug("write", "peer", c.peer.Addr, "err", err)
	c.net.SetReadDeadline(past)
	c.cancel()
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve() {
	err := c.readAll()
	if err != io.EOF && c.ctx.Err() == nil {
		c.srv.Log.Debug("connection ended", "peer", c.peer.Addr, "err", err)
	}
	close(c.work)
	if c.srv.ctx.Err() != nil && c.session != nil {
		c.part()
	}
	c.cancel()
	closeConn(c.net)
	c.in.drop()
	if c.session != nil {
		c.session.end()
	}
	c.workers.Wait()
}

// parting is how long Shutdown waits for a client to take the last answers.
const parting = time.Second / 2

// part cancels what is under way, and sends the answers to it: who has had
// something done hears that before the end.
func (c *conn) part() {
	c.session.cancelAll()
	sent := make(chan struct{})
	go func() { // ends with the workers
		c.workers.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-time.After(parting):
	}
}

// readAll reads requests until nothing more can be read.
func (c *conn) readAll() error {
	for {
		if !c.in.ready() {
			c.out.flush()
		}
		if err := c.out.wait(c.ctx); err != nil {
			return err
		}
		limit, d := uint32(2*minMsize), plan9
		if c.session != nil {
			limit, d = c.session.msize, c.session.dialect
		}
		b, err := c.in.next(limit)
		if err != nil {
			return err
		}
		r := newRequest(c)
		if err := c.take(r, decodeMessage(b, d, &r.m)); err != nil {
			return err
		}
	}
}

// take answers r, or starts it. An error ends the connection.
func (c *conn) take(r *request, err error) error {
	s := c.session
	r.op = r.m.Type
	switch {
	case r.m.Type == tversion && err == nil:
		c.version(r)
		return nil
	case s == nil && err == nil:
		err = fsys.E(fsys.Invalid, "a session begins with Tversion")
	case s != nil && s.inUse(r.m.Tag):
		return fsys.E(fsys.Invalid, "a tag was used again before its reply")
	case r.m.Type == tflush && err == nil:
		s.flush(r)
		return nil
	}
	var now bool
	if err == nil {
		now, err = s.begin(r)
	}
	if err != nil || now {
		c.out.put(r.encode(err))
		r.free()
		return nil
	}
	c.dispatch(r)
	return nil
}

func (c *conn) dispatch(r *request) {
	select {
	case c.work <- r:
	default:
		c.workers.Go(func() { c.worker(r) })
	}
}

func (c *conn) worker(r *request) {
	for r != nil {
		r.run()
		if c.idle.Add(1) > maxIdleWorkers {
			c.idle.Add(-1)
			return
		}
		r = <-c.work // nil when the connection has ended
		c.idle.Add(-1)
	}
}

// version agrees on a dialect and begins a session; what another one had is
// dropped.
func (c *conn) version(r *request) {
	m := &r.m
	if old := c.session; old != nil {
		c.session = nil
		c.workers.Go(old.drop())
	}
	d, ok := dialectOf(m.Version)
	ok = ok && m.Msize >= minMsize
	m.Msize = min(max(m.Msize, minMsize), c.srv.MaxMsize)
	m.Version = "unknown"
	if ok {
		m.Version = d.String()
		c.session = newSession(c, d, m.Msize)
	}
	c.out.put(r.encode(nil))
	r.free()
}
