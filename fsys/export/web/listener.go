package web

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"agent9/fsys"
	"agent9/fsys/share"
)

// About what a connection takes by itself, more with TLS; a request, with its
// goroutines and the buffers for its answer; and what each request can hold
// whatever others do.
const (
	connBytes    = 24 << 10
	tlsBytes     = 40 << 10
	requestBytes = 16 << 10
	ownBytes     = 8 << 10
	headBytes    = 4 << 10 // of a request, so that who was let in can say who it is
)

// limited accepts only connections for which there is room.
type limited struct {
	net.Listener
	pool  *share.Pool
	door  share.Door
	by    string // whose share connections have before a request says it
	terms share.Terms
}

func (s *Server) limit(l net.Listener) *limited {
	lim := &limited{Listener: l, pool: s.Pool, terms: share.Terms{Speaks: "http", Kind: share.Conns, Base: connBytes, Own: headBytes}}
	if l.Addr().Network() == "unix" {
		lim.by = s.SocketBy
	}
	if s.spoken(l) {
		lim.terms.Base += tlsBytes
	}
	lim.door = share.Door{Max: s.MaxConns, Pool: s.Pool, Ours: lim.by == share.Operator}
	return lim
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		bound(conn)
		c := &counted{Conn: conn, by: l.by}
		visit, part, why := l.door.Admit(l.by, l.terms, func() { conn.Close() })
		if why == nil {
			c.visit, c.part = visit, part
			c.head.Store(true)
			c.leave = sync.OnceFunc(func() {
				visit.Leave()
				part.Close()
			})
			return c, nil
		}
		if l.terms.Base == connBytes { // not in TLS: a handshake costs more than a connection
			text := fsys.ReasonOf(why) + "\n"
			fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nConnection: close\r\nRetry-After: 10\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
				http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable), len(text), text)
		}
		conn.Close()
	}
}

// sendBuffer is how much the system may hold of what a client does not read.
const sendBuffer = 64 << 10

func bound(conn net.Conn) {
	if c, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		c.SetWriteBuffer(sendBuffer)
	}
}

// counted is a connection that takes account of what it is, and of the heads of
// requests as they come.
type counted struct {
	net.Conn
	visit *share.Visit
	part  *share.Part
	by    string
	leave func()
	head  atomic.Bool  // what comes now is the head of a request
	heard atomic.Int64 // so much of it has come
}

// countedOf returns what Accept did, or nil.
func countedOf(conn net.Conn) *counted {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	c, _ := conn.(*counted)
	return c
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.head.Load() {
		if !c.part.Reserve(share.Data, int64(n)) {
			c.Close()
			return 0, share.ErrFull
		}
		c.heard.Add(int64(n))
	}
	return n, err
}

// begin says that a request has come, and returns how long its head was, and
// perhaps some of what follows.
func (c *counted) begin() (head int64) {
	c.head.Store(false)
	head = c.heard.Swap(0)
	c.part.Give(share.Data, head)
	return head
}

func (c *counted) end() { c.head.Store(true) }

// join makes the connection that of who sends a request, if there is room.
func (c *counted) join(by string) error {
	if !c.part.Join(by) {
		return share.ErrFull
	}
	if !c.visit.Known(by, by != c.by) {
		return share.ErrManyConns
	}
	return nil
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
