package ninep

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/fsys/locks"
	"agent9/fsys/share"
)

// A Peer is what the transport knows about a client.
type Peer struct {
	Addr net.Addr
	UID  int                  // of the process at the other end of a Unix socket; -1 if unknown
	TLS  *tls.ConnectionState // nil without TLS
	// Life ends when the client has given up its last fid in the tree that
	// this attach is for, or has gone.
	Life context.Context
}

// A Grant is the answer to an attach.
type Grant struct {
	Root   fsys.Node
	ID     fsys.ID // of Root, if that does not know which file it is
	Caller fsys.Caller
	// By is whose share it is: the token or the socket that proved who it is.
	// Empty: Caller's.
	By string
	// Done, if not nil, is closed when the grant is revoked or has expired.
	// Requests under way are cancelled then, and later ones get Permission.
	Done <-chan struct{}
}

func (g Grant) by() string {
	if g.By == "" {
		return string(g.Caller)
	}
	return g.By
}

// A Server serves file trees to 9P clients. The zero value of a limit means
// its default. A Server must not be copied, and its fields must not change
// after the first connection.
type Server struct {
	// Attach says what a client may see. uname is what it claims to be;
	// options have been cut off aname. ctx ends with the request, and
	// peer.Life with what was granted.
	Attach func(ctx context.Context, peer Peer, uname, aname string) (Grant, error)

	MaxMsize     uint32        // largest message, 4 KiB to 4 MiB; default 1 MiB
	MaxFids      int           // per connection; default 65,536
	MaxRequests  int           // under way at once per connection; default 1,024
	MaxBytes     int64         // held for a connection: data, fids, what is kept for them; default 64 MiB
	MaxConns     int           // of one listener; default 4,096
	Pool         *share.Pool   // bounds what all connections hold together; nil: nothing does
	By           string        // whose share connections have that have not attached yet; empty: strangers'
	HelloTimeout time.Duration // for a client to attach; default 10 s
	Locks        *locks.Table  // of files that others serve too; nil: its own
	WriteTimeout time.Duration // for a client to take a part of a reply; default 1 minute
	Log          *slog.Logger  // default: nothing is logged
	// Trace, if set, is told of requests that may make a Message file act.
	Trace fsys.Trace

	once  sync.Once
	begun time.Time
	ctx   context.Context
	end   context.CancelFunc
	paths pathKey
	conns sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[any]func() // listeners and connections, and what stops them
}

// Largest a client may be served with; what a client that asks for more gets.
const defaultMsize = 1 << 20

func (s *Server) init() {
	s.once.Do(func() {
		s.begun = time.Now()
		s.ctx, s.end = context.WithCancel(context.Background())
		s.paths = newPathKey()
		s.open = map[any]func(){}
		s.MaxMsize = min(max(orDefault(s.MaxMsize, defaultMsize), minMsize), maxMsize)
		s.MaxFids = orDefault(s.MaxFids, 1<<16)
		s.MaxRequests = orDefault(s.MaxRequests, 1024)
		s.MaxBytes = max(orDefault(s.MaxBytes, 64<<20), 2*int64(s.MaxMsize))
		s.MaxConns = orDefault(s.MaxConns, 4096)
		s.HelloTimeout = orDefault(s.HelloTimeout, 10*time.Second)
		s.WriteTimeout = orDefault(s.WriteTimeout, time.Minute)
		if s.Locks == nil {
			s.Locks = &locks.Table{}
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
	})
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Serve accepts connections on l and serves them. It returns nil after
// Shutdown, else the error of l, and closes l.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if !s.track(l, func() { l.Close() }) {
		return nil
	}
	defer s.untrack(l)
	d := &door{Door: share.Door{Max: s.MaxConns, Pool: s.Pool, Ours: s.By == share.Operator}, away: make(chan struct{}, maxTurnedAway)}
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.admit(d, conn)
		case s.ctx.Err() != nil:
			return nil
		case !temporary(err):
			return err
		default:
			s.Log.Warn("accept", "err", err)
			select {
			case <-time.After(50 * time.Millisecond): // too many open files, perhaps
			case <-s.ctx.Done():
			}
		}
	}
}

func temporary(err error) bool {
	var ne interface{ Temporary() bool }
	return errors.As(err, &ne) && ne.Temporary()
}

// About what a connection takes by itself, more with TLS, and what it can hold
// whatever the others do, so that small reads and writes go on beside clients
// that have taken all they can get.
const (
	connBytes = 24 << 10
	tlsBytes  = 40 << 10
	ownBytes  = 16 << 10
)

// terms are those of the part that conn has of the pool.
func (s *Server) terms(conn net.Conn) share.Terms {
	t := share.Terms{Speaks: "9p", Kind: share.Conns, Base: connBytes, Own: ownBytes, Limit: s.MaxBytes}
	if _, ok := conn.(*tls.Conn); ok {
		t.Base += tlsBytes
	}
	return t
}

// ServeConn serves one connection until it ends, and closes it. When it
// returns, every handle of the connection is closed and no goroutine of it is
// left.
func (s *Server) ServeConn(conn net.Conn) {
	s.init()
	part, ok := s.Pool.Open(s.By, s.terms(conn))
	if !ok {
		closeConn(conn)
		return
	}
	s.serveConn(conn, part, nil)
}

// serveConn serves what was let in as visit, or did not come through a door.
func (s *Server) serveConn(conn net.Conn, part *share.Part, visit *share.Visit) {
	defer part.Close()
	defer closeConn(conn)
	if !s.track(conn, func() { conn.SetReadDeadline(past) }) {
		return
	}
	defer s.untrack(conn)
	keepAlive(conn)
	until := time.Now().Add(s.HelloTimeout)
	peer := Peer{Addr: conn.RemoteAddr(), UID: PeerUID(conn)}
	if t, ok := conn.(*tls.Conn); ok {
		ctx, cancel := context.WithDeadline(s.ctx, until)
		err := t.HandshakeContext(ctx)
		cancel()
		if err != nil {
			s.Log.Debug("tls", "peer", peer.Addr, "err", err)
			return
		}
		state := t.ConnectionState()
		peer.TLS = &state
	}
	c := newConn(s, conn, peer, part, visit)
	c.hello.until = until
	c.serve()
}

// Shutdown cancels what every client is waiting for, answers it, hangs up, and
// waits until all that the clients had open is closed, or ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	s.mu.Lock()
	s.closed = true
	s.end()
	for _, stop := range s.open {
		stop()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends when the last connection does
		s.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// past is a deadline that makes reads and writes fail at once.
var past = time.Unix(1, 0)

func (s *Server) track(c any, stop func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[c] = stop
	s.conns.Add(1)
	return true
}

func (s *Server) untrack(c any) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.conns.Done()
}

// keepAlive finds out within half a minute that the other end of a TCP
// connection is gone.
func keepAlive(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if t, ok := conn.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3})
	}
}

// closeConn closes conn without waiting for the other end, as TLS would.
func closeConn(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.Close()
}
