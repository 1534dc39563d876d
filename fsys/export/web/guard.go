package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

// guarded is the way to everything: what no request may do is refused here.
func (s *Server) guarded(at net.Addr) http.Handler {
	loopback := isLoopback(at)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serving.Add(1)
		defer s.serving.Done()
		began := time.Now()
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		if c := countedOf(conn); c != nil {
			r = r.WithContext(context.WithValue(r.Context(), headKey{}, c.begin()))
			defer c.end()
		}
		out := &writer{ResponseWriter: w, control: http.NewResponseController(w), patience: s.WriteTimeout}
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler {
				s.Log.Error("panic in a service", "request", r.Method, "panic", p, "stack", string(debug.Stack()))
				if out.status == 0 {
					Refuse(out, fsys.E(fsys.Internal, "the service failed in "+r.Method))
					p = nil
				}
			}
			if s.Observe != nil {
				s.Observe(r.Method, out.status, time.Since(began))
			}
			if p != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		s.serve(out, r, loopback)
	})
}

func (s *Server) serve(w *writer, r *http.Request, loopback bool) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if loopback && !s.ours(r.Host) {
		Refuse(w, failed(http.StatusMisdirectedRequest, fsys.Permission, "this server is not called "+shortened(r.Host)+"; use localhost, or give agentd the name with --http-host"))
		return
	}
	if !s.crossOrigin(w, r) {
		return
	}
	public := s.Public[r.URL.Path]
	if public == nil && s.Page != nil {
		public = s.Page(r)
	}
	if public != nil {
		public.ServeHTTP(w, r)
		return
	}
	// What agents and models wrote must not act in a browser.
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept, Authorization, Origin")
	path, slash, err := parsePath(r.URL)
	if err != nil {
		path = nil
	}
	refuse := Refuse
	var app *App
	if s.App != nil && err == nil {
		if app = s.App(path); app != nil {
			refuse = app.Refuse
		}
	}
	// Rights are checked before the request is.
	session, leave, denied := s.admit(w, r)
	if denied != nil {
		refuse(w, denied)
		return
	}
	defer leave()
	if err != nil {
		refuse(w, err)
		return
	}
	session.Path, session.slash = path, slash
	if app != nil {
		app.Serve(session)
		return
	}
	session.serveTree()
}

// admit finds out who sent r and begins its session, which ends with leave.
func (s *Server) admit(w *writer, r *http.Request) (_ *Session, leave func(), err error) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	c := countedOf(conn)
	if c != nil {
		conn = c.Conn
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	grant, err := s.Attach(ctx, s.peer(conn, r.TLS), bearerOf(r))
	if err != nil {
		cancel(nil)
		if fsys.CodeOf(err) == fsys.Permission || fsys.CodeOf(err) == fsys.NotExist {
			err = unauthorized
		}
		return nil, nil, err
	}
	part, err := s.join(c, r, grant.by())
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	stop := make(chan struct{})
	if grant.Done != nil {
		go func() { // until leave
			select {
			case <-grant.Done:
				cancel(errRevoked)
			case <-stop:
			}
		}()
	}
	leave = func() {
		close(stop)
		cancel(nil)
		part.Close()
		s.leave(grant.by())
	}
	ctx = fsys.WithCredential(ctx, grant.Caller, grant.by())
	w.over = grant.over
	return &Session{Grant: grant, W: w, R: r.WithContext(ctx), Part: part, server: s, out: w}, leave, nil
}

// headKey is of how long the head of a request was.
type headKey struct{}

// join reserves memory for a request of by, on the connection c if that is
// known.
func (s *Server) join(c *counted, r *http.Request, by string) (*share.Part, error) {
	if err := s.enter(by); err != nil {
		return nil, err
	}
	var err error
	if c != nil {
		err = c.join(by)
	}
	if err == nil {
		head, _ := r.Context().Value(headKey{}).(int64)
		part, ok := s.Pool.Open(by, share.Terms{Speaks: "http", Kind: share.Requests, Base: requestBytes + 2*head, Own: ownBytes})
		if ok {
			part.Requests.Add(1)
			return part, nil
		}
		err = share.ErrFull
	}
	s.leave(by)
	return nil, err
}

var errRevoked = failed(http.StatusUnauthorized, fsys.Permission, "the token was revoked or has expired")

func (s *Server) peer(conn net.Conn, state *tls.ConnectionState) Peer {
	p := Peer{UID: -1, TLS: state}
	if conn == nil {
		return p
	}
	p.Addr = conn.RemoteAddr()
	if conn.LocalAddr().Network() == "unix" {
		p.UID = s.PeerUID(conn)
	}
	return p
}

// protocol is what a client of a WebSocket names first. A browser cannot send
// a header with it, and names the token as a second one.
const protocol = "agent9"

func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	for _, header := range r.Header.Values("Sec-Websocket-Protocol") {
		for p := range strings.SplitSeq(header, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(p), "bearer."); ok {
				return token
			}
		}
	}
	return ""
}

// parsePath returns the names in a URL's path, and whether it ends with a
// slash. Each name is as it is in the tree, with nothing cleaned away.
func parsePath(u *url.URL) (names []string, slash bool, err error) {
	path, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return nil, false, fsys.E(fsys.Invalid, "a path must begin with a slash")
	}
	if path == "" {
		return nil, true, nil
	}
	path, slash = strings.CutSuffix(path, "/")
	for part := range strings.SplitSeq(path, "/") {
		name, err := url.PathUnescape(part)
		if err == nil {
			err = fsys.CheckName(name)
		}
		if err != nil {
			return nil, false, fsys.Wrap(fsys.Invalid, "the path", err)
		}
		names = append(names, name)
	}
	return names, slash, nil
}

// ours reports whether a Host header means this server on a loopback address:
// with any other name a page on the web could have its own name lead here.
func (s *Server) ours(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(name, "]"), "["), ".")
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback() || strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// crossOrigin refuses requests from pages of other servers, but those in
// Origins, and answers their preflights. It reports whether to go on.
func (s *Server) crossOrigin(w *writer, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if u, err := url.Parse(origin); err == nil && u.Host != "" && u.Host == r.Host {
		return true
	}
	if !slices.Contains(s.Origins, origin) {
		Refuse(w, failed(http.StatusForbidden, fsys.Permission, "pages of "+shortened(origin)+" may not send requests here; agentd --http-cors can allow it"))
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", strings.Join([]string{"ETag", kindHeader, permHeader, sizeHeader, JobHeader}, ", "))
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	h.Set("Access-Control-Allow-Methods", strings.Join(Methods, ", "))
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	h.Add("Vary", "Origin, Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return false
}

func shortened(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return fmt.Sprintf("%q", s)
}
