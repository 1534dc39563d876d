package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// A Peer is what the transport knows about a client.
type Peer struct {
	Addr net.Addr
	UID  int                  // of the process at the other end of a Unix socket; -1 if unknown
	TLS  *tls.ConnectionState // nil without TLS
}

// A Grant is what a client may see.
type Grant struct {
	Root   fsys.Node
	Caller fsys.Caller
	// Agent is whose tree it is: /agents/Agent in Root. Empty for a caller that sees
	// all.
	Agent string
	// By is whose share it is: the token or the socket that proved who it is.
	// Empty: Caller's.
	By string
	// Done, if not nil, is closed when the grant is revoked or has expired.
	Done <-chan struct{}
}

// over reports whether the grant has ended. Whoever ended it may rely on that
// at once, and need not wait until what is under way has been cancelled.
func (g Grant) over() bool {
	select {
	case <-g.Done:
		return true
	default:
		return false
	}
}

func (g Grant) by() string {
	if g.By == "" {
		return string(g.Caller)
	}
	return g.By
}

// A Server serves a tree. The zero value of a limit means its default. A
// Server must not be copied, and its fields must not change after Serve.
type Server struct {
	// Attach says what the client of a request may see, who may have sent a
	// bearer token. ctx ends with the request.
	Attach func(ctx context.Context, peer Peer, bearer string) (Grant, error)
	// TLS, if set, is spoken on TCP.
	TLS *tls.Config
	// PeerUID returns the user at the other end of a Unix socket, or -1.
	PeerUID func(net.Conn) int
	// App returns what answers below a path instead of the tree, or nil.
	App func(path []string) *App
	// Public answers at a path, whoever asks.
	Public map[string]http.Handler
	// Page, if set, returns what answers r instead of the tree, whoever asks,
	// or nil: a page for people, which asks for what it shows as they may.
	Page func(r *http.Request) http.Handler
	// Origins are the web pages of other servers that may send requests, such
	// as https://example.com.
	Origins []string
	// Hosts are names of this server besides localhost, for clients that
	// reach a loopback address by a name of their own.
	Hosts []string

	MaxBody      int64         // of one request; default 16 MiB
	MaxConns     int           // of one listener; default 4,096
	MaxRequests  int           // of one token or socket at once, also streams; default 2,048
	Pool         *share.Pool   // bounds what all requests and connections make the daemon hold; nil: nothing does
	SocketBy     string        // whose share connections to Unix sockets have; empty: strangers'
	HelloTimeout time.Duration // for the first frame of a WebSocket; default 10 s
	WriteTimeout time.Duration // for a client to take a part of an answer; default 30 s
	ReadTimeout  time.Duration // for a client to send a part of a body; default 30 s
	Heartbeat    time.Duration // between signs of life on a silent stream; default 15 s
	Log          *slog.Logger  // default: nothing is logged
	// Observe, if set, is told of every request that was answered.
	Observe func(method string, status int, took time.Duration)
	// Trace, if set, is told of requests that may make something happen.
	Trace fsys.Trace
	// Cause returns ctx with what a request says that it is part of.
	Cause func(ctx context.Context, h http.Header) context.Context

	once    sync.Once
	ctx     context.Context
	end     context.CancelCauseFunc
	turns   [64]chan struct{} // of conditional changes, by path
	serving sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	servers map[*http.Server]struct{}
	callers map[string]int // requests under way, by Grant.By
}

// errEnding is why what is under way ends when the server does.
var errEnding = fsys.E(fsys.Unavailable, "the daemon is shutting down")

func (s *Server) init() {
	s.once.Do(func() {
		s.ctx, s.end = context.WithCancelCause(context.Background())
		s.MaxBody = orDefault(s.MaxBody, 16<<20)
		s.MaxConns = orDefault(s.MaxConns, 4096)
		s.HelloTimeout = orDefault(s.HelloTimeout, 10*time.Second)
		s.MaxRequests = orDefault(s.MaxRequests, 2048)
		s.WriteTimeout = orDefault(s.WriteTimeout, 30*time.Second)
		s.ReadTimeout = orDefault(s.ReadTimeout, 30*time.Second)
		s.Heartbeat = orDefault(s.Heartbeat, 15*time.Second)
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
		if s.PeerUID == nil {
			s.PeerUID = func(net.Conn) int { return -1 }
		}
		for i := range s.turns {
			s.turns[i] = make(chan struct{}, 1)
		}
		s.servers = map[*http.Server]struct{}{}
		s.callers = map[string]int{}
	})
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

type connKey struct{}

// Serve accepts connections on l and serves them. It returns nil after
// Shutdown, else the error of l, and closes l.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	hs := &http.Server{
		Handler:           s.guarded(l.Addr()),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			if c := countedOf(conn); c != nil && state == http.StateIdle {
				c.visit.Idle()
			}
		},
		Protocols: new(http.Protocols),
	}
	// HTTP/2 would keep for each connection what a client sends of many requests
	// before anybody has asked who it is.
	hs.Protocols.SetHTTP1(true)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return nil
	}
	s.servers[hs] = struct{}{}
	s.mu.Unlock()
	secure := s.spoken(l)
	l = s.limit(l)
	if secure {
		l = tls.NewListener(l, s.TLS) // outermost, as http.Server looks for it
	}
	err := hs.Serve(l)
	if errors.Is(err, http.ErrServerClosed) || s.ctx.Err() != nil {
		return nil
	}
	return err
}

// spoken reports whether TLS is spoken at l.
func (s *Server) spoken(l net.Listener) bool {
	_, ok := l.Addr().(*net.TCPAddr)
	return ok && s.TLS != nil
}

// Shutdown ends streams, cancels what every client is waiting for, and waits
// until all is answered, or ctx is done.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	s.end(errEnding)
	s.mu.Lock()
	s.closed = true
	var all []*http.Server
	for hs := range s.servers {
		all = append(all, hs)
	}
	s.mu.Unlock()
	var errs []error
	for _, hs := range all {
		if err := hs.Shutdown(ctx); err != nil {
			errs = append(errs, err)
			hs.Close()
		}
	}
	done := make(chan struct{})
	go func() { // ends when the last request does
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, context.Cause(ctx))
	}
	return errors.Join(errs...)
}

// enter admits one more request of by.
func (s *Server) enter(by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers[by] >= s.MaxRequests {
		return fsys.E(fsys.Busy, "you have too many requests in progress; try again when some have ended")
	}
	s.callers[by]++
	return nil
}

func (s *Server) leave(by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers[by]--; s.callers[by] == 0 {
		delete(s.callers, by)
	}
}
