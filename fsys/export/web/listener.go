package web

import (
	"net"
	"sync"
)

// limited accepts only as many connections at once as conns has room for.
type limited struct {
	net.Listener
	conns chan struct{}
	done  <-chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.conns <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.conns
		return nil, err
	}
	bound(conn)
	return &counted{Conn: conn, leave: sync.OnceFunc(func() { <-l.conns })}, nil
}

// sendBuffer is how much the system may hold of what a client does not read.
const sendBuffer = 64 << 10

func bound(conn net.Conn) {
	if c, ok := conn.(interface{ SetWriteBuffer(int) error }); ok {
		c.SetWriteBuffer(sendBuffer)
	}
}

// counted makes room when it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
