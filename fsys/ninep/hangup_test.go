package ninep

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"agent9/fsys"
)

// settles waits until no more goroutines than want are left, and returns how
// long that took.
func settles(t *testing.T, want int) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; time.Since(start) < patience; <-tick.C {
		if n = runtime.NumGoroutine(); n <= want {
			return time.Since(start)
		}
	}
	buf := make([]byte, 1<<20)
	t.Fatalf("%d goroutines left, want %d\n%s", runtime.NumGoroutine(), want, buf[:runtime.Stack(buf, true)])
	return 0
}

func TestHangUpInBlockedReads(t *testing.T) {
	clients := 1000
	if testing.Short() {
		clients = 100
	}
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	connect(t, addr, linux, "").conn.Close() // what the server keeps for good is there now
	before := settled(t)
	var conns []net.Conn
	for range clients {
		w := connect(t, addr, linux, "")
		w.open(1, fsys.Read, "s")
		w.send(message{Type: tread, Fid: 1, Count: 8000})
		conns = append(conns, w.conn)
	}
	for range clients {
		await(t, sp.began, "the reads to begin")
	}
	during := runtime.NumGoroutine()
	start := time.Now()
	for _, c := range conns {
		c.Close()
	}
	handles := map[fsys.Handle]bool{}
	for range clients {
		h := await(t, sp.closed, "the handles to be closed")
		if handles[h] {
			t.Fatal("a handle was closed twice")
		}
		handles[h] = true
		if err := await(t, sp.ended, "the reads to end"); err == nil {
			t.Fatal("a read was not cancelled")
		}
	}
	settles(t, before)
	t.Logf("%d goroutines before, %d with %d blocked reads, as before again after %v", before, during, clients, time.Since(start))
	if len(sp.closed) > 0 || len(sp.synced) > 0 {
		t.Errorf("%d more closed, %d synced", len(sp.closed), len(sp.synced))
	}
}

// settled returns the number of goroutines once it no longer falls.
func settled(t *testing.T) int {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	n, same := runtime.NumGoroutine(), 0
	for same < 5 {
		<-tick.C
		if m := runtime.NumGoroutine(); m < n {
			n, same = m, 0
		} else {
			same++
		}
	}
	return n
}

func TestShutdownHangsUp(t *testing.T) {
	sp := newSpy(fsys.Stream)
	s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Fid: 1, Count: 8})
	await(t, sp.began, "the read to begin")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if len(sp.closed) != 1 || len(sp.ended) != 1 {
		t.Errorf("after Shutdown %d handles were closed and %d reads have ended, want 1, 1", len(sp.closed), len(sp.ended))
	}
	if m := w.recv(); fsys.CodeOf(m.error()) != fsys.Canceled || m.error() == nil {
		t.Errorf("the read was answered by %v %s", m.Type, m.failure())
	}
	w.hungUp()
	if c, err := net.Dial("unix", addr); err == nil {
		c.Close()
		t.Error("a new connection is accepted after Shutdown")
	}
}

// Shutdown does not wait longer than it may for a service that does not end.
func TestShutdownIsBounded(t *testing.T) {
	sp := newSpy(fsys.Stream)
	sp.deaf = true
	s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Fid: 1, Count: 8})
	await(t, sp.began, "the read to begin")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Errorf("Shutdown: %v", err)
	}
	if len(sp.closed) > 0 {
		t.Error("a handle was closed while it was being read")
	}
	sp.reply <- "now"
	await(t, sp.closed, "the handle to be closed")
}

func TestClunkSyncs(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		sp := newSpy(fsys.Message)
		sp.syncErr = fsys.Exhausted
		_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
		w := connect(t, addr, d, "")
		w.open(1, fsys.Write, "s")
		code := fsys.Exhausted
		w.fails(message{Type: tclunk, Fid: 1}, code)
		if len(sp.synced) != 1 || len(sp.closed) != 1 {
			t.Errorf("%d times synced, %d times closed, want 1, 1", len(sp.synced), len(sp.closed))
		}
		w.fails(message{Type: tclunk, Fid: 1}, fsys.BadHandle)
	})
}

func TestClunkDuringARead(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	read := w.send(message{Type: tread, Fid: 1, Count: 10})
	await(t, sp.began, "the read to begin")
	clunk := w.send(message{Type: tclunk, Fid: 1})
	w.send(message{Type: tgetattr, Fid: 1})
	got := map[uint16]message{}
	for range 3 {
		m := w.recv()
		got[m.Tag] = m
	}
	if m := got[read]; fsys.CodeOf(m.error()) != fsys.Canceled || m.error() == nil {
		t.Errorf("the read: %v %s", m.Type, m.failure())
	}
	if m := got[clunk]; m.Type != rclunk {
		t.Errorf("the clunk: %v %s", m.Type, m.failure())
	}
	if m := got[w.tag]; fsys.CodeOf(m.error()) != fsys.BadHandle || m.error() == nil {
		t.Errorf("the fid after: %v %s", m.Type, m.failure())
	}
	if len(sp.closed) != 1 {
		t.Errorf("closed %d times", len(sp.closed))
	}
}

// A clunk that is flushed while a deaf read holds the handle: the last user
// closes it.
func TestFlushedClunk(t *testing.T) {
	sp := newSpy(fsys.Stream)
	sp.deaf = true
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Fid: 1, Count: 10})
	await(t, sp.began, "the read to begin")
	clunk := w.send(message{Type: tclunk, Fid: 1})
	w.must(message{Type: tflush, OldTag: clunk})
	if len(sp.closed) > 0 {
		t.Error("closed while it was being read")
	}
	sp.reply <- "now"
	await(t, sp.closed, "the handle to be closed")
	if m := w.recv(); m.Type != rread {
		t.Errorf("the read: %v %s", m.Type, m.failure())
	}
	if len(sp.closed)+len(sp.synced) > 0 {
		t.Errorf("%d more closed, %d synced", len(sp.closed), len(sp.synced))
	}
}

// Writes that were sent before the clunk are done before it.
func TestClunkWaitsForWrites(t *testing.T) {
	release, wrote := make(chan struct{}), make(chan error, 1)
	sp := newSpy(fsys.Message)
	sp.write = func(ctx context.Context, _ []byte) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		wrote <- ctx.Err()
		return ctx.Err()
	}
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "s")
	write := w.send(message{Type: twrite, Fid: 1, Data: []byte("x")})
	clunk := w.send(message{Type: tclunk, Fid: 1})
	w.rpc(message{Type: tgetattr, Fid: 0})
	if len(sp.synced) > 0 {
		t.Error("synced before the write was done")
	}
	close(release)
	if err := await(t, wrote, "the write"); err != nil {
		t.Errorf("the write was cancelled: %v", err)
	}
	if a, b := w.recv(), w.recv(); a.Tag != write || a.Type != rwrite || b.Tag != clunk || b.Type != rclunk {
		t.Errorf("got %v, %v", a.Type, b.Type)
	}
}

// Nothing waits for a blocked read: not the same fid, not the same file, not
// another connection.
func TestABlockedReadBlocksNothing(t *testing.T) {
	sp := newSpy(fsys.Stream)
	d := newDisk()
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}, fsys.Entry{Name: "d", Node: d}))
	d.files["s"] = sp
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "d", "s")
	for range 3 {
		w.send(message{Type: tread, Fid: 1, Count: 10})
		await(t, sp.began, "a read to begin")
	}
	w.must(message{Type: tgetattr, Fid: 1})
	w.fails(message{Type: tsetattr, Fid: 1, Valid: setSize}, fsys.Permission)
	w.walk(0, 2, "d")
	w.must(message{Type: trenameat, Fid: 2, Name: "s", DirFid: 2, NewName: "t"})
	w.fails(message{Type: tunlinkat, DirFid: 2, Name: "t"}, fsys.Permission)
	w.open(3, fsys.Read, "s")
	w.clunk(3)
	v := connect(t, addr, plan9, "")
	v.open(1, fsys.Read, "s")
	v.must(message{Type: tstat, Fid: 1})
	sp.reply <- "x"
	if m := w.recv(); m.Type != rread || string(m.Data) != "x" {
		t.Errorf("the read got %v %q", m.Type, m.Data)
	}
}

// A client that clunks what it has written, and hangs up without waiting for
// the answer, has ended in order: what it wrote acts.
func TestHangUpAfterClunk(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.write = func(context.Context, []byte) error { return nil }
	gone, acted := make(chan struct{}), make(chan error, 1)
	sp.sync = func(ctx context.Context) error {
		<-gone
		acted <- ctx.Err()
		return nil
	}
	stream := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "m", Node: sp}, fsys.Entry{Name: "s", Node: stream}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "m")
	w.open(2, fsys.Read, "s")
	w.send(message{Type: tread, Fid: 2, Count: 8})
	await(t, stream.began, "the read to begin")
	w.must(message{Type: twrite, Fid: 1, Data: []byte("text")})
	w.send(message{Type: tclunk, Fid: 1})
	await(t, sp.synced, "the sync")
	w.conn.Close()
	await(t, stream.ended, "the server to notice")
	close(gone)
	if err := await(t, acted, "the text to act"); err != nil {
		t.Errorf("what was clunked in order was cancelled: %v", err)
	}
	await(t, sp.closed, "the handle to be closed")
}

// That clunk does not go on for ever.
func TestHangUpAfterClunkIsBounded(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.write = func(context.Context, []byte) error { return nil }
	sp.sync = func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "m", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "m")
	w.must(message{Type: twrite, Fid: 1, Data: []byte("text")})
	w.send(message{Type: tclunk, Fid: 1})
	await(t, sp.synced, "the sync")
	w.conn.Close()
	await(t, sp.closed, "the handle to be closed")
}

// Who follows a stream is told that the server has gone: that is not its end.
func TestHangUpIsNoEnd(t *testing.T) {
	sp := newSpy(fsys.Stream)
	s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	c, err := Dial(t.Context(), "unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Attach(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := root.OpenPath(t.Context(), "s", fsys.Read)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	for conn := range s.open {
		if conn, ok := conn.(net.Conn); ok {
			conn.Close()
		}
	}
	s.mu.Unlock()
	_, err = fsys.ReadAt(t.Context(), h, make([]byte, 8), 0)
	if fsys.IsEOF(err) || fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("a read after the server has gone: %v", err)
	}
}
