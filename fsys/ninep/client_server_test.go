package ninep_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/fsys/fstest"
	"agent9/fsys/ninep"
	"agent9/store/files"
	"agent9/store/mem"
)

// serveNode serves root on a Unix socket until the test ends.
func serveNode(t testing.TB, root fsys.Node) (addr string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, root)
}

func serveOn(t testing.TB, l net.Listener, root fsys.Node) (addr string) {
	t.Helper()
	s := &ninep.Server{Attach: func(_ context.Context, _ ninep.Peer, _, aname string) (ninep.Grant, error) {
		if aname != "" {
			return ninep.Grant{}, fsys.E(fsys.Permission, "there is no tree called "+aname)
		}
		return ninep.Grant{Root: root, Caller: "test"}, nil
	}}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("Shutdown:", err)
		}
		if err := <-done; err != nil {
			t.Error("Serve:", err)
		}
	})
	return l.Addr().String()
}

func attach(t testing.TB, addr string, opts ...ninep.DialOption) (*ninep.Client, *ninep.Remote) {
	t.Helper()
	c, err := ninep.Dial(t.Context(), "unix", addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	root, err := c.Attach(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return c, root
}

// dialects runs f with a client of each dialect.
func dialects(t *testing.T, root fsys.Node, f func(t *testing.T, c *ninep.Client, root *ninep.Remote)) {
	for _, version := range []string{"9P2000.L", "9P2000"} {
		t.Run(version, func(t *testing.T) {
			c, root := attach(t, serveNode(t, root), ninep.DialVersion(version))
			if c.Version() != version {
				t.Errorf("version %s, want %s", c.Version(), version)
			}
			f(t, c, root)
		})
	}
}

func TestOwnServer(t *testing.T) {
	for _, opts := range [][]ninep.DialOption{
		{},
		{ninep.DialVersion("9P2000")},
		{ninep.DialMsize(4096)},
		{ninep.DialVersion("9P2000"), ninep.DialMsize(4096)},
	} {
		tree, err := files.New(t.Context(), mem.New(), files.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, root := attach(t, serveNode(t, tree.Root()), opts...)
		remoteFiles(t, root, func(name string) ([]byte, error) {
			return fsys.ReadFile(t.Context(), tree.Root(), name)
		})
	}
}

// every is a tree with a file of every kind.
func every(tape *fsys.Tape) *fsys.Table {
	return fsys.NewTable(
		fsys.Entry{Name: "text", Node: fsys.Const("some text\n")},
		fsys.Entry{Name: "dir", Node: fsys.NewTable(fsys.Entry{Name: "sub", Node: fsys.NewTable()})},
		fsys.Entry{Name: "tape", Node: tape},
		fsys.Entry{Name: "call", Node: &fsys.Call{Do: func(_ context.Context, req []byte) ([]byte, error) {
			switch string(req) {
			case "refuse":
				return nil, fsys.E(fsys.Exhausted, "10 left")
			case "absent":
				return nil, fsys.E(fsys.NotExist, "no such thing")
			}
			return []byte("<" + string(req) + ">"), nil
		}}},
	)
}

func TestKinds(t *testing.T) {
	data := &fsys.Memory{}
	data.Append([]byte("0123456789"))
	tape := fsys.NewTape(data)
	tape.End() // or it is not listed
	local := every(tape)
	dialects(t, local, func(t *testing.T, _ *ninep.Client, root *ninep.Remote) {
		if err := fstest.CheckTree(t.Context(), root, "text", "dir/sub", "tape", "call"); err != nil {
			t.Error(err)
		}
		entries, err := fsys.List(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := fsys.List(t.Context(), local)
		for i, e := range want {
			there, _ := e.Node.Stat(t.Context())
			got, err := entries[i].Node.Stat(t.Context())
			if entries[i].Name != e.Name || err != nil || got.Kind != there.Kind || got.Size != there.Size || got.Perm != there.Perm {
				t.Errorf("%s: %+v, %v; want %s: %+v", entries[i].Name, got, err, e.Name, there)
			}
		}
	})
}

func TestConversation(t *testing.T) {
	root := every(fsys.NewTape(&fsys.Memory{}))
	dialects(t, root, func(t *testing.T, c *ninep.Client, root *ninep.Remote) {
		ctx := t.Context()
		long := `{"x":"` + strings.Repeat("y", 500_000) + `"}`
		for _, req := range []string{"hello", `{"a":1}`, long} {
			reply, err := fsys.Converse(ctx, root, "call", []byte(req))
			if err != nil || string(reply) != "<"+req+">" {
				t.Errorf("Converse of %d bytes: %d bytes, %v", len(req), len(reply), err)
			}
		}
		// Plain text acts at Sync, which reports the refusal, as fsync does.
		h, err := fsys.OpenPath(ctx, root, "call", fsys.Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsys.WriteAt(ctx, h, []byte("refuse"), 0); err != nil {
			t.Errorf("WriteAt: %v", err)
		}
		if err := fsys.Sync(ctx, h); fsys.CodeOf(err) != fsys.Exhausted || err == nil {
			t.Errorf("Sync: %v, want Exhausted", err)
		} else if reason := fsys.ReasonOf(err); c.Version() == "9P2000" && reason != "10 left" {
			t.Errorf("Sync gave the reason %q", reason)
		}
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if _, err := fsys.Converse(ctx, root, "call", []byte("absent")); fsys.CodeOf(err) != fsys.NotExist {
			t.Errorf("Converse: %v, want NotExist", err)
		}
	})
}

// A read that waits gets what comes; one that is cancelled returns at once,
// and the connection goes on.
func TestStreamAndCancel(t *testing.T) {
	data := &fsys.Memory{}
	tape := fsys.NewTape(data)
	waits := make(chan struct{}, 8)
	root := fsys.NewTable(fsys.Entry{Name: "tape", Node: waiting{tape, waits}})
	dialects(t, root, func(t *testing.T, _ *ninep.Client, root *ninep.Remote) {
		h, err := fsys.OpenPath(t.Context(), root, "tape", fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		off := data.Size()
		read := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				p := make([]byte, 100)
				n, err := fsys.ReadAt(ctx, h, p, off)
				if err == nil && string(p[:n]) != "more" {
					t.Errorf("read %q, want %q", p[:n], "more")
				}
				done <- err
			}()
			<-waits
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		one, other := read(ctx), read(t.Context())
		cancel()
		if err := <-one; fsys.CodeOf(err) != fsys.Canceled {
			t.Errorf("a cancelled read: %v", err)
		}
		data.Append([]byte("more"))
		tape.Grown()
		if err := <-other; err != nil {
			t.Errorf("the other read: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// waiting tells of each read when it begins.
type waiting struct {
	*fsys.Tape
	reads chan<- struct{}
}

func (w waiting) Open(ctx context.Context, f fsys.Flag) (fsys.Handle, error) {
	h, err := w.Tape.Open(ctx, f)
	return waitingHandle{h, w.reads}, err
}

type waitingHandle struct {
	fsys.Handle
	reads chan<- struct{}
}

func (h waitingHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	h.reads <- struct{}{}
	return fsys.ReadAt(ctx, h.Handle, p, off)
}

func TestAttachRefused(t *testing.T) {
	addr := serveNode(t, fsys.NewTable())
	c, _ := attach(t, addr, ninep.DialVersion("9P2000"))
	_, err := c.Attach(t.Context(), "", "elsewhere")
	if fsys.CodeOf(err) != fsys.Permission || fsys.ReasonOf(err) != "there is no tree called elsewhere" {
		t.Errorf("Attach: %v, want Permission with its reason", err)
	}
}

func TestDialFails(t *testing.T) {
	if _, err := ninep.Dial(t.Context(), "unix", filepath.Join(t.TempDir(), "none")); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Dial where nobody listens: %v, want Unavailable", err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "mute"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ninep.Dial(ctx, "unix", l.Addr().String()); fsys.CodeOf(err) != fsys.Timeout {
		t.Errorf("Dial of a server that says nothing: %v, want Timeout", err)
	}
}

// Inside TLS the server must be the one that was dialled.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate, of 127.0.0.1
	defer web.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	addr := serveOn(t, l, fsys.NewTable())
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	c, err := ninep.Dial(t.Context(), "tcp", addr, ninep.DialTLS(&tls.Config{RootCAs: pool}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Attach(t.Context(), "", ""); err != nil {
		t.Errorf("Attach: %v", err)
	}
	for name, config := range map[string]*tls.Config{
		"unknown authority": {},
		"another name":      {RootCAs: pool, ServerName: "elsewhere.example.org"},
	} {
		if _, err := ninep.Dial(t.Context(), "tcp", addr, ninep.DialTLS(config)); fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("%s: %v, want Unavailable", name, err)
		}
	}
}

// When a client is closed nothing of it is left, here or at the server.
func TestNothingIsLeft(t *testing.T) {
	data := &fsys.Memory{}
	addr := serveNode(t, every(fsys.NewTape(data)))
	before := runtime.NumGoroutine()
	for range 20 {
		c, root := attach(t, addr)
		h, err := fsys.OpenPath(t.Context(), root, "tape", fsys.Read)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := fsys.ReadAt(t.Context(), h, make([]byte, 1), 0)
			done <- err
		}()
		c.Close()
		if err := <-done; fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("a read when the client was closed: %v, want Unavailable", err)
		}
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// BenchmarkRead is a read of 64 bytes from an open file over a Unix socket,
// client and server in one process.
func BenchmarkRead(b *testing.B) {
	root := fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const(strings.Repeat("x", 64))})
	_, remote := attach(b, serveNode(b, root))
	h, err := fsys.OpenPath(b.Context(), remote, "f", fsys.Read)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := fsys.ReadAt(b.Context(), h, p, 0); n != 64 || err != nil {
			b.Fatal(n, err)
		}
	}
}
