//go:build linux

package conformance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/fsys/export/web"
)

// TestExportOverWebSocket shows what a server of HTTP exports, through a client
// of its WebSocket that is a tree again.
func TestExportOverWebSocket(t *testing.T) {
	conformance.TestExport(t, func(t *testing.T, root fsys.Node) string {
		return shownAt(t, overWebSocket(t, root))
	})
}

// overWebSocket returns root as it is at the other end of a WebSocket.
func overWebSocket(t *testing.T, root fsys.Node) fsys.Node {
	t.Helper()
	addr, end := serveWeb(t, root)
	conn, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(16 << 20)
	c := &webClient{conn: conn, waiting: map[int64]chan web.Frame{}}
	read := make(chan struct{})
	go func() {
		c.read()
		close(read)
	}()
	t.Cleanup(func() {
		end()
		<-read
	})
	return webNode{c, ""}
}

// serveWeb serves root over HTTP to whoever asks, until end.
func serveWeb(t *testing.T, root fsys.Node) (addr string, end func()) {
	t.Helper()
	s := &web.Server{Attach: func(context.Context, web.Peer, string) (web.Grant, error) {
		return web.Grant{Root: root}, nil
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// A webClient speaks the frames of web.
type webClient struct {
	conn *websocket.Conn

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan web.Frame
	gone    bool
}

func (c *webClient) read() {
	for {
		_, text, err := c.conn.Read(context.Background())
		var f web.Frame
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		c.mu.Lock()
		if err != nil {
			c.gone = true
			for _, w := range c.waiting {
				close(w)
			}
			clear(c.waiting)
			c.mu.Unlock()
			return
		}
		if w := c.waiting[f.ID]; w != nil {
			delete(c.waiting, f.ID)
			w <- f
		}
		c.mu.Unlock()
	}
}

// do sends a request and returns the answer; its id is in it.
func (c *webClient) do(ctx context.Context, f web.Frame) (web.Frame, error) {
	reply := make(chan web.Frame, 1)
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return f, fsys.E(fsys.Unavailable, "the connection is gone")
	}
	c.last++
	f.ID = c.last
	c.waiting[f.ID] = reply
	c.mu.Unlock()
	if err := c.conn.Write(context.Background(), websocket.MessageText, fsys.Line(f)); err != nil {
		return f, err
	}
	done := ctx.Done()
	for {
		select {
		case r, ok := <-reply:
			if !ok {
				return f, fsys.E(fsys.Unavailable, "the connection is gone")
			}
			return r, failure(r.Error)
		case <-done:
			done = nil // the answer still comes
			c.conn.Write(context.Background(), websocket.MessageText, fsys.Line(web.Frame{Op: "cancel", Of: f.ID}))
		}
	}
}

func failure(e *web.FrameError) error {
	if e == nil {
		return nil
	}
	for _, code := range fsys.Codes() {
		if code.String() == e.Code {
			return fsys.E(code, e.Reason)
		}
	}
	return fsys.E(fsys.Internal, e.Code+": "+e.Reason)
}

func infoOf(f *web.FrameInfo) fsys.Info {
	info := fsys.Info{Perm: fs.FileMode(f.Perm), Size: f.Size, Version: f.Version, Gen: f.Gen, Acts: f.Unsafe, Ended: !f.Unsafe}
	for _, k := range []fsys.Kind{fsys.File, fsys.Directory, fsys.Message, fsys.Stream} {
		if k.String() == f.Kind {
			info.Kind = k
		}
	}
	info.ModTime, _ = time.Parse(time.RFC3339Nano, f.MTime)
	return info
}

// A webNode is a file at the other end, by its path.
type webNode struct {
	c    *webClient
	path string
}

var (
	_ fsys.Creator    = webNode{}
	_ fsys.Maker      = webNode{}
	_ fsys.Renamer    = webNode{}
	_ fsys.Remover    = webNode{}
	_ fsys.Truncater  = webNode{}
	_ fsys.AttrSetter = webNode{}
)

func (n webNode) child(name string) webNode { return webNode{n.c, n.path + "/" + name} }

func (n webNode) Stat(ctx context.Context) (fsys.Info, error) {
	r, err := n.c.do(ctx, web.Frame{Op: "stat", Path: n.path})
	if err != nil {
		return fsys.Info{}, err
	}
	return infoOf(r.Info), nil
}

func (n webNode) Walk(ctx context.Context, name string) (fsys.Node, error) {
	_, err := n.c.do(ctx, web.Frame{Op: "stat", Path: n.child(name).path})
	if err != nil && fsys.ReasonOf(err) != "on purpose" { // of the test of errors, whose files can be walked to
		return nil, err
	}
	return n.child(name), nil
}

func (n webNode) List(ctx context.Context) ([]fsys.Entry, error) {
	r, err := n.c.do(ctx, web.Frame{Op: "list", Path: n.path})
	var list []fsys.Entry
	for _, e := range r.Entries {
		list = append(list, fsys.Entry{Name: e.Name, Node: n.child(e.Name)})
	}
	return list, err
}

func webMode(flag fsys.Flag) string {
	var b strings.Builder
	for _, m := range []struct {
		flag   fsys.Flag
		letter byte
	}{{fsys.Read, 'r'}, {fsys.Write, 'w'}, {fsys.Trunc, 't'}, {fsys.Append, 'a'}, {fsys.Excl, 'x'}} {
		if flag&m.flag != 0 {
			b.WriteByte(m.letter)
		}
	}
	return b.String()
}

func (n webNode) open(ctx context.Context, f web.Frame) (fsys.Handle, error) {
	f.Op, f.Path = "open", n.path
	r, err := n.c.do(ctx, f)
	if err != nil {
		return nil, err
	}
	return webHandle{n.c, r.ID, r.Info.Kind == fsys.File.String()}, nil
}

func (n webNode) Open(ctx context.Context, flag fsys.Flag) (fsys.Handle, error) {
	return n.open(ctx, web.Frame{Mode: webMode(flag)})
}

func permOf(perm fs.FileMode) *int64 {
	p := int64(perm)
	return &p
}

func (n webNode) Create(ctx context.Context, name string, perm fs.FileMode, flag fsys.Flag) (fsys.Node, fsys.Handle, error) {
	made := n.child(name)
	h, err := made.open(ctx, web.Frame{Mode: webMode(flag|fsys.Excl) + "c", Perm: permOf(perm)})
	return made, h, err
}

func (n webNode) Mkdir(ctx context.Context, name string, perm fs.FileMode) (fsys.Node, error) {
	made := n.child(name)
	_, err := n.c.do(ctx, web.Frame{Op: "mkdir", Path: made.path, Perm: permOf(perm)})
	return made, err
}

func (n webNode) Rename(ctx context.Context, name, newName string) error {
	_, err := n.c.do(ctx, web.Frame{Op: "rename", Path: n.child(name).path, To: newName})
	return err
}

func (n webNode) Remove(ctx context.Context) error {
	_, err := n.c.do(ctx, web.Frame{Op: "remove", Path: n.path})
	return err
}

func (n webNode) Truncate(ctx context.Context, size int64) error {
	_, err := n.c.do(ctx, web.Frame{Op: "truncate", Path: n.path, Size: size})
	return err
}

func (n webNode) SetAttr(ctx context.Context, set fsys.Attr) error {
	f := web.Frame{Op: "setattr", Path: n.path}
	if set.Perm != nil {
		f.Perm = permOf(*set.Perm)
	}
	if set.ModTime != nil {
		f.MTime = set.ModTime.UTC().Format(time.RFC3339Nano)
	}
	_, err := n.c.do(ctx, f)
	return err
}

type webHandle struct {
	c    *webClient
	file int64
	fill bool // a read of it is short only at the end, which is what the kernel takes it for
}

var _ fsys.Syncer = webHandle{}

func (h webHandle) Close() error {
	_, err := h.c.do(context.Background(), web.Frame{Op: "drop", File: &h.file})
	return err
}

func (h webHandle) Sync(ctx context.Context) error {
	_, err := h.c.do(ctx, web.Frame{Op: "sync", File: &h.file})
	return err
}

func (h webHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	done := 0
	for {
		n, err := h.read(ctx, p[done:], off+int64(done))
		done += n
		if done > 0 && err == io.EOF {
			return done, nil
		}
		if err != nil || !h.fill || done == len(p) {
			return done, err
		}
	}
}

func (h webHandle) read(ctx context.Context, p []byte, off int64) (int, error) {
	r, err := h.c.do(ctx, web.Frame{Op: "read", File: &h.file, Offset: off, Count: int64(len(p))})
	if err != nil {
		return 0, err
	}
	if r.EOF {
		return 0, io.EOF
	}
	data := []byte(r.Data)
	if r.Base64 != "" {
		data, err = base64.StdEncoding.DecodeString(r.Base64)
	}
	return copy(p, data), err
}

func (h webHandle) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	done := 0
	for {
		part := p[done:min(len(p), done+512<<10)]
		r, err := h.c.do(ctx, web.Frame{Op: "write", File: &h.file, Offset: off + int64(done), Base64: base64.StdEncoding.EncodeToString(part)})
		if err != nil {
			return done, err
		}
		if done += int(r.Count); done >= len(p) || r.Count == 0 {
			return done, nil
		}
	}
}
