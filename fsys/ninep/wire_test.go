package ninep

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"agent9/fsys"
)

// patience bounds every wait of a test for something that must happen.
const patience = 90 * time.Second

// A wire is a client without any cleverness: it sends the messages it is told
// to and sees what comes back.
type wire struct {
	t       testing.TB
	conn    net.Conn
	in      *frameReader
	dialect dialect
	tag     uint16
}

// serveTree starts a server whose every client sees root.
func serveTree(t testing.TB, root fsys.Node, set ...func(*Server)) (*Server, string) {
	t.Helper()
	s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) {
		return Grant{Root: root, Caller: "tester"}, nil
	}}
	for _, f := range set {
		f(s)
	}
	return s, serve(t, s)
}

func serve(t testing.TB, s *Server) (addr string) {
	t.Helper()
	addr = filepath.Join(t.TempDir(), "9p")
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return addr
}

// dial connects without a word.
func dial(t testing.TB, addr string) *wire {
	t.Helper()
	c, err := net.Dial("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &wire{t: t, conn: c, in: newFrameReader(c)}
}

// connect agrees on d and attaches as fid 0.
func connect(t testing.TB, addr string, d dialect, aname string) *wire {
	t.Helper()
	w := dial(t, addr)
	w.version(d, 8192)
	w.must(message{Type: tattach, Fid: 0, Afid: noFid, Uname: "glenda", Aname: aname, NUname: 1000})
	return w
}

func (w *wire) version(d dialect, msize uint32) message {
	w.t.Helper()
	m := w.must(message{Type: tversion, Tag: noTag, Msize: msize, Version: d.String()})
	w.dialect = d
	return m
}

// send sends m as it is, with the next tag if it has none.
func (w *wire) send(m message) (tag uint16) {
	w.t.Helper()
	if m.Tag == 0 {
		w.tag++
		m.Tag = w.tag
	}
	w.write(encode(w.t, w.dialect, &m))
	return m.Tag
}

func (w *wire) write(b []byte) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(patience))
	if _, err := w.conn.Write(b); err != nil {
		w.t.Fatalf("write: %v", err)
	}
}

// recv returns the next reply. What it returns does not share memory.
func (w *wire) recv() message {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(patience))
	b, err := w.in.next(maxMsize)
	if err != nil {
		w.t.Fatalf("no reply: %v", err)
	}
	var m message
	if err := decodeMessage(b, w.dialect, &m); err != nil {
		w.t.Fatalf("bad reply % x: %v", b, err)
	}
	m.Data = append([]byte(nil), m.Data...)
	return m
}

// rpc sends m and returns the reply, which must be the next one.
func (w *wire) rpc(m message) message {
	w.t.Helper()
	tag := w.send(m)
	got := w.recv()
	if got.Tag != tag {
		w.t.Fatalf("%v tag %d: reply %v with tag %d", m.Type, tag, got.Type, got.Tag)
	}
	return got
}

// must is an rpc that may not fail.
func (w *wire) must(m message) message {
	w.t.Helper()
	got := w.rpc(m)
	if got.Type != m.Type+1 {
		w.t.Fatalf("%v: got %v %s", m.Type, got.Type, got.failure())
	}
	return got
}

// fails is an rpc that must be refused with code.
func (w *wire) fails(m message, code fsys.Code) message {
	w.t.Helper()
	got := w.rpc(m)
	if err := got.error(); err == nil || fsys.CodeOf(err) != code {
		w.t.Errorf("%v: got %v %s, want the error %v", m.Type, got.Type, got.failure(), code)
	}
	return got
}

func (m *message) error() error {
	switch m.Type {
	case rerror:
		return errorOfText(m.Ename)
	case rlerror:
		return errorOfErrno(m.Ecode)
	}
	return nil
}

func (m *message) failure() string {
	if err := m.error(); err != nil {
		return err.Error()
	}
	return ""
}

// hungUp waits until the server has ended the connection.
func (w *wire) hungUp() {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(patience))
	for {
		if _, err := w.in.next(maxMsize); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				w.t.Fatal("the server did not end the connection")
			}
			return
		}
	}
}

func (w *wire) walk(fid, newFid uint32, names ...string) message {
	w.t.Helper()
	m := w.must(message{Type: twalk, Fid: fid, NewFid: newFid, Names: names})
	if len(m.Qids) != len(names) {
		w.t.Fatalf("walk %v: got %d of them", names, len(m.Qids))
	}
	return m
}

// open walks from fid 0 to names and opens it as fid for flag.
func (w *wire) open(fid uint32, flag fsys.Flag, names ...string) message {
	w.t.Helper()
	w.walk(0, fid, names...)
	return w.must(openMessage(w.dialect, fid, flag))
}

func openMessage(d dialect, fid uint32, flag fsys.Flag) message {
	m := message{Type: topen, Fid: fid}
	switch flag & (fsys.Read | fsys.Write) {
	case fsys.Write:
		m.Mode = oWrite
	case fsys.Read | fsys.Write:
		m.Mode = oRdWr
	}
	if d == linux {
		m.Type, m.Flags = tlopen, m.Mode
		if flag&fsys.Trunc != 0 {
			m.Flags |= lTrunc
		}
		if flag&fsys.Append != 0 {
			m.Flags |= lAppend
		}
	} else if flag&fsys.Trunc != 0 {
		m.Mode |= oTrunc
	}
	return m
}

func (w *wire) read(fid uint32, off uint64, count uint32) string {
	w.t.Helper()
	m := w.must(message{Type: tread, Fid: fid, Offset: off, Count: count})
	return string(m.Data)
}

func (w *wire) clunk(fid uint32) {
	w.t.Helper()
	w.must(message{Type: tclunk, Fid: fid})
}

// both runs a test in both dialects.
func both(t *testing.T, f func(t *testing.T, d dialect)) {
	for _, d := range []dialect{plan9, linux} {
		t.Run(d.String(), func(t *testing.T) { f(t, d) })
	}
}

// await waits for an event.
func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("unreachable")
	}
}

// A spy is a file whose reads and writes wait for the test.
type spy struct {
	kind    fsys.Kind
	deaf    bool             // its reads do not mind their context
	began   chan struct{}    // gets one for each read that has begun
	ended   chan error       // gets how each read ended
	reply   chan string      // what reads return
	closed  chan fsys.Handle // gets each handle that is closed
	synced  chan context.Context
	syncErr error
	sync    func(ctx context.Context) error // nil: syncErr
	write   func(ctx context.Context, p []byte) error
}

func newSpy(kind fsys.Kind) *spy {
	return &spy{
		kind: kind, began: make(chan struct{}, 5000), ended: make(chan error, 5000), reply: make(chan string, 5000),
		closed: make(chan fsys.Handle, 5000), synced: make(chan context.Context, 5000),
	}
}

func (s *spy) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: s.kind, Perm: 0o666}, nil
}

func (s *spy) Open(context.Context, fsys.Flag) (fsys.Handle, error) { return &spyHandle{spy: s}, nil }

type spyHandle struct{ *spy }

func (h *spyHandle) Close() error {
	h.closed <- h
	return nil
}

func (h *spyHandle) Sync(ctx context.Context) error {
	h.synced <- ctx
	if h.sync != nil {
		return h.sync(ctx)
	}
	return h.syncErr
}

func (h *spyHandle) ReadAt(ctx context.Context, p []byte, _ int64) (n int, err error) {
	if ctx.Err() != nil { // asked only for what is there
		select {
		case s := <-h.reply:
			return copy(p, s), nil
		default:
			return 0, context.Cause(ctx)
		}
	}
	h.began <- struct{}{}
	defer func() { h.ended <- err }()
	done := ctx.Done()
	if h.deaf {
		done = nil
	}
	select {
	case s := <-h.reply:
		if s == "" {
			return 0, io.EOF
		}
		return copy(p, s), nil
	case <-done:
		return 0, context.Cause(ctx)
	}
}

func (h *spyHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if err := h.write(ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
