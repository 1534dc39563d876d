package ninep

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A conn is one connection. Of its workers one leads: it reads requests and,
// in their order, performs those that are over soon as a rule; other workers
// perform the rest. If one takes longer all the same, another worker leads. At
// any time there are the one that leads, a few idle ones, and one for each
// request that a service has not answered yet and that is not parked.
type conn struct {
	srv    *Server
	net    net.Conn
	peer   Peer
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	in      *frameReader // who leads has it
	session *session     // who leads has it; nil until a version is agreed
	work    chan job     // from who leads to idle workers; closed at the end
	ended   chan error   // why nothing more is read
	lead    lead
	workers sync.WaitGroup
	idle    atomic.Int32 // workers
	parking parking
	data    *share.Part // but for what is being read; counts fids and requests
	out     outbox
	visit   *share.Visit // nil: it did not come through a door
	hello   hello
}

const maxIdleWorkers = 2

// A job is a request to perform, or nil: to lead.
type job struct{ r *request }

func newConn(s *Server, nc net.Conn, peer Peer, part *share.Part, visit *share.Visit) *conn {
	c := &conn{srv: s, net: nc, peer: peer, data: part, visit: visit, in: newFrameReader(nc), work: make(chan job), ended: make(chan error, 1)}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.lead.timer = time.AfterFunc(time.Hour, c.look) // which is stopped long before
	c.lead.timer.Stop()
	c.in.ctx, c.in.deadline = c.ctx, c.readBy
	c.in.room, _ = s.Pool.Open(s.By, share.Terms{Speaks: "9p", Kind: share.Data, Limit: 2 * int64(s.MaxMsize)})
	c.out = outbox{conn: nc, timeout: s.WriteTimeout, limit: 2 * int(s.MaxMsize), small: maxSmall, broken: c.hangUp}
	return c
}

// hangUp makes who leads stop.
func (c *conn) hangUp(err error) {
	c.srv.Log.Debug("hanging up", "peer", c.peer.Addr, "err", err)
	c.cancel()
	c.net.SetReadDeadline(past)
}

// readBy sets until when something has to be read, unless nothing is to be any
// more.
func (c *conn) readBy(t time.Time) {
	c.net.SetReadDeadline(t)
	if c.ctx.Err() != nil {
		c.net.SetReadDeadline(past)
	}
}

// serve returns when the connection has ended and nothing of it is left.
func (c *conn) serve() {
	defer c.in.room.Close()
	c.greet()
	defer c.greeted()
	c.workers.Go(func() { c.worker(nil) })
	err := <-c.ended
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

// read leads until nothing more can be read, or another worker does.
func (c *conn) read() {
	for {
		r, err := c.next()
		switch {
		case err != nil:
			c.ended <- err
			return
		case r == nil:
		case !r.soon:
			c.hand(job{r})
		case !c.perform(r):
			c.out.flush()
			return
		}
	}
}

// hand gives j to an idle worker, or to a new one.
func (c *conn) hand(j job) {
	select {
	case c.work <- j:
	default:
		c.workers.Go(func() { c.worker(j.r) })
	}
}

// worker performs r, or leads if that is nil, and then what it is handed.
func (c *conn) worker(r *request) {
	for more := true; more; {
		if r == nil {
			c.read()
		} else {
			r.run()
		}
		if c.idle.Add(1) > maxIdleWorkers {
			c.idle.Add(-1)
			return
		}
		var j job
		j, more = <-c.work
		c.idle.Add(-1)
		r = j.r
	}
}

// next reads a request, which it answers, or returns to be performed. An error
// ends the connection.
func (c *conn) next() (*request, error) {
	if !c.in.ready() || c.in.halfway() {
		c.out.flush()
	}
	if err := c.out.wait(c.ctx); err != nil {
		return nil, err
	}
	limit, d := uint32(2*minMsize), plan9
	if c.session != nil {
		limit, d = c.session.msize, c.session.dialect
	}
	b, err := c.in.next(limit)
	if err != nil {
		return nil, err
	}
	r := newRequest(c)
	r.size = len(b)
	return c.take(r, decodeMessage(b, d, &r.m))
}

// take answers r, or registers and returns it. An error ends the connection.
func (c *conn) take(r *request, err error) (*request, error) {
	s := c.session
	r.op = r.m.Type
	switch {
	case r.m.Type == tversion && err == nil:
		c.version(r)
		return nil, nil
	case s == nil && err == nil:
		err = fsys.E(fsys.Invalid, "the first message must be Tversion")
	case s != nil && s.inUse(r.m.Tag):
		return nil, fsys.E(fsys.Invalid, "a tag was reused before its reply")
	case r.m.Type == tflush && err == nil:
		s.flush(r)
		return nil, nil
	}
	var now bool
	if err == nil {
		now, err = s.begin(r)
	}
	if err != nil || now {
		c.out.put(r.encode(err))
		r.free()
		return nil, nil
	}
	return r, nil
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
	m.Msize = min(m.Msize, c.srv.MaxMsize)
	m.Version = "unknown"
	if ok {
		m.Version = d.String()
		c.session = newSession(c, d, m.Msize)
	}
	c.out.put(r.encode(nil))
	r.free()
}
