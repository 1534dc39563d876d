package ninep

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"agent9/fsys"
	"agent9/fsys/share"
)

func TestMalformedFrames(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const("x")}))
	good := func(d dialect) []byte {
		return encode(t, d, &message{Type: twalk, Tag: 7, Fid: 0, NewFid: 5, Names: []string{"f"}})
	}
	for name, c := range map[string]struct {
		edit func(b []byte) []byte
		ends bool // the connection; else it is an error
	}{
		"size 0":           {func(b []byte) []byte { return append([]byte{0, 0, 0, 0}, b[4:]...) }, true},
		"size 6":           {func(b []byte) []byte { return append([]byte{6, 0, 0, 0}, b[4:]...) }, true},
		"size over msize":  {func(b []byte) []byte { binary.LittleEndian.PutUint32(b, 8193); return b }, true},
		"size 4 GiB":       {func(b []byte) []byte { binary.LittleEndian.PutUint32(b, 0xffffffff); return b }, true},
		"type 0":           {func(b []byte) []byte { b[4] = 0; return b }, false},
		"type 255":         {func(b []byte) []byte { b[4] = 255; return b }, false},
		"a reply":          {func(b []byte) []byte { b[4] = byte(rclunk); return b }, false},
		"too many names":   {func(b []byte) []byte { b[15] = 17; return b }, false},
		"more names":       {func(b []byte) []byte { b[15] = 2; return b }, false},
		"a longer string":  {func(b []byte) []byte { b[17] = 0xff; return b }, false},
		"bad UTF-8":        {func(b []byte) []byte { b[19] = 0xc0; return b }, false},
		"too long for it":  {func(b []byte) []byte { b[0]++; return append(b, 0) }, false},
		"Tflush cut short": {func([]byte) []byte { return []byte{8, 0, 0, 0, byte(tflush), 7, 0, 1} }, false},
		"Twrite's count": {func([]byte) []byte {
			return append([]byte{23, 0, 0, 0, byte(twrite), 7, 0}, bytes.Repeat([]byte{0xff}, 16)...)
		}, false},
	} {
		both(t, func(t *testing.T, d dialect) {
			w := connect(t, addr, d, "")
			w.write(c.edit(good(d)))
			if c.ends {
				w.hungUp()
				return
			}
			if m := w.recv(); m.error() == nil || m.Tag != 7 {
				t.Errorf("%s: got %v with tag %d", name, m.Type, m.Tag)
			}
			w.walk(0, 5, "f") // the connection lives on
		})
	}
}

func TestTagUsedTwice(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Tag: 9, Fid: 1, Count: 1})
	await(t, sp.began, "the read")
	w.send(message{Type: tclunk, Tag: 9, Fid: 0})
	w.hungUp() // an answer to either would be taken for the other's
	await(t, sp.closed, "the handle to be closed")
}

// Whatever comes in, the server lives, and answers or hangs up.
func FuzzServer(f *testing.F) {
	for d, list := range samples() {
		var all []byte
		for _, m := range list {
			all = append(all, encode(f, d, &m)...)
		}
		f.Add(all, d == linux)
	}
	d := newDisk()
	s := &Server{Attach: func(context.Context, Peer, string, string) (Grant, error) { return Grant{Root: d}, nil }}
	f.Fuzz(func(t *testing.T, in []byte, l bool) {
		dia := plan9
		if l {
			dia = linux
		}
		hello := encode(t, dia, &message{Type: tversion, Tag: noTag, Msize: 4096, Version: dia.String()})
		hello = append(hello, encode(t, dia, &message{Type: tattach, Tag: 1, Fid: 1, Afid: noFid})...)
		server, client := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeConn(server)
		}()
		go func() {
			client.Write(append(hello, in...))
			client.SetReadDeadline(time.Now().Add(time.Millisecond))
		}()
		r := newFrameReader(client)
		for {
			b, err := r.next(4096)
			if err != nil {
				break
			}
			var m message
			if err := decodeMessage(b, linux, &m); err != nil && decodeMessage(b, plan9, &m) != nil {
				t.Errorf("the server said % x", b)
			}
		}
		client.Close()
		await(t, done, "the server to hang up")
	})
}

func TestTooManyRequests(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}), func(s *Server) { s.MaxRequests = 3 })
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.walk(0, 2)
	var tags []uint16
	for range 3 {
		tags = append(tags, w.send(message{Type: tread, Fid: 1, Count: 1}))
		await(t, sp.began, "a read")
	}
	w.fails(message{Type: tgetattr, Fid: 0}, fsys.Busy)
	w.must(message{Type: tclunk, Fid: 2})          // never refused
	w.must(message{Type: tflush, OldTag: tags[1]}) // neither
	w.eventually(message{Type: tgetattr, Fid: 0})
}

func TestTooManyBytes(t *testing.T) {
	began, release := make(chan struct{}, 100), make(chan struct{})
	sp := newSpy(fsys.Message)
	sp.write = func(ctx context.Context, p []byte) error {
		began <- struct{}{}
		<-release
		return nil
	}
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}),
		func(s *Server) {
			s.MaxMsize, s.MaxBytes = 8192, 2*(8192+requestBytes)+attachBytes+4*(fidBytes+placeBytes)+2000
		})
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "s")
	write := message{Type: twrite, Fid: 1, Data: make([]byte, 8000)}
	for range 2 {
		w.send(write)
		await(t, began, "a write")
	}
	w.fails(write, fsys.Busy)
	w.must(message{Type: tgetattr, Fid: 0})
	close(release)
	for range 2 {
		if m := w.recv(); m.Type != rwrite {
			t.Errorf("got %v %s", m.Type, m.failure())
		}
	}
	w.eventually(write)
}

// Reads wait for the memory that others have, for a while.
func TestReadsWaitForMemory(t *testing.T) {
	a, _ := (*share.Pool)(nil).Open("", share.Terms{Limit: 1000})
	first, err := waitFrame(t.Context(), a, 900)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	for range 2 {
		go func() {
			f, err := waitFrame(t.Context(), a, 500)
			if err == nil {
				f.free()
			}
			got <- err
		}()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := waitFrame(ctx, a, 500)
		got <- err
	}()
	cancel()
	if err := await(t, got, "the cancelled one"); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	first.free()
	for range 2 {
		if err := await(t, got, "the others"); err != nil {
			t.Errorf("after memory was given back: %v", err)
		}
	}
	if n := a.Held(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	if _, err := waitFrame(t.Context(), a, 2000); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("more than there can be: %v", err)
	}
}

// A client that sends requests and never reads must not make the server hold
// more and more, nor hold it for ever.
func TestClientThatNeverReads(t *testing.T) {
	sp := newSpy(fsys.Message)
	_, addr := serveTree(t, fsys.NewTable(
		fsys.Entry{Name: "s", Node: sp},
		fsys.Entry{Name: "f", Node: fsys.Const(string(make([]byte, 1<<20)))},
	), func(s *Server) { s.WriteTimeout, s.MaxMsize = 100*time.Millisecond, 1<<16 })
	w := connect(t, addr, linux, "")
	w.open(2, fsys.Read, "s") // its handle shows when the connection is over
	w.open(1, fsys.Read, "f")
	read := encode(t, linux, &message{Type: tread, Fid: 1, Count: 8000})
	stuck := false
	for i := range 100_000 {
		binary.LittleEndian.PutUint16(read[5:], uint16(i%60_000))
		w.conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.conn.Write(read); err != nil {
			stuck = true
			break
		}
	}
	if !stuck {
		t.Error("the server took 100,000 requests from a client that read no reply")
	}
	await(t, sp.closed, "the server to hang up")
}

func TestSmallestMsize(t *testing.T) {
	d := newDisk()
	for i := range 200 {
		d.add(t, fmt.Sprintf("%0200d", i), "")
	}
	d.add(t, "f", string(bytes.Repeat([]byte("0123456789"), 1000)))
	d.files["bad"] = &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) {
		return nil, fsys.E(fsys.Busy, string(make([]byte, 100_000)))
	}}
	_, addr := serveTree(t, d)
	both(t, func(t *testing.T, dia dialect) {
		w := dial(t, addr)
		if m := w.version(dia, 4096); m.Msize != 4096 {
			t.Fatalf("msize %d", m.Msize)
		}
		w.must(message{Type: tattach, Fid: 0, Afid: noFid, Uname: string(make([]byte, 3000))})
		sized := func(m message) message {
			t.Helper()
			tag := w.send(m)
			b, err := w.in.next(maxMsize)
			if err != nil || len(b) > 4096 {
				t.Fatalf("%v: a reply of %d bytes, %v", m.Type, len(b), err)
			}
			var got message
			if err := decodeMessage(b, dia, &got); err != nil || got.Tag != tag {
				t.Fatal(err, got.Tag)
			}
			return got
		}
		w.open(1, fsys.Read, "f")
		if m := sized(message{Type: tread, Fid: 1, Count: 1 << 30}); len(m.Data) != 4096-readHeader {
			t.Errorf("a greedy read got %d bytes", len(m.Data))
		}
		w.walk(0, 2)
		w.must(openMessage(dia, 2, fsys.Read))
		list := message{Type: tread, Fid: 2, Count: 0xffffffff}
		if dia == linux {
			list.Type = treaddir
		} else if m := sized(message{Type: tstat, Fid: 1}); m.Type != rstat {
			t.Errorf("stat: %v", m.failure())
		}
		if m := sized(list); len(m.Data) < 3000 {
			t.Errorf("a greedy listing got %d bytes", len(m.Data))
		}
		w.open(3, fsys.Read|fsys.Write, "bad")
		if m := sized(message{Type: twrite, Fid: 3, Data: []byte("{}")}); fsys.CodeOf(m.error()) != fsys.Busy {
			t.Errorf("an error with a long reason: %v", m.failure())
		}
	})
}

// Frames that come in pieces, and many in one.
func TestPieces(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const("hello")}))
	var script []byte
	for _, m := range []message{
		{Type: tversion, Tag: noTag, Msize: 8192, Version: "9P2000"},
		{Type: tattach, Tag: 1, Fid: 1, Afid: noFid},
		{Type: twalk, Tag: 2, Fid: 1, NewFid: 2, Names: []string{"f"}},
		{Type: topen, Tag: 3, Fid: 2},
		{Type: tread, Tag: 4, Fid: 2, Count: 5},
	} {
		script = append(script, encode(t, plan9, &m)...)
	}
	w := dial(t, addr)
	for off := 0; off < len(script); { // byte by byte, one request after another
		size := int(binary.LittleEndian.Uint32(script[off:]))
		if _, err := io.Copy(w.conn, iotest.OneByteReader(bytes.NewReader(script[off:off+size]))); err != nil {
			t.Fatal(err)
		}
		if m := w.recv(); m.error() != nil {
			t.Fatalf("%v", m.failure())
		} else if m.Type == rread && string(m.Data) != "hello" {
			t.Errorf("read %q", m.Data)
		}
		off += size
	}
	var batch []byte
	for i := range 500 {
		batch = append(batch, encode(t, plan9, &message{Type: tread, Tag: uint16(i), Fid: 2, Offset: uint64(i % 5), Count: 1})...)
	}
	w.write(batch)
	seen := map[uint16]bool{}
	for range 500 {
		m := w.recv()
		if seen[m.Tag] || string(m.Data) != "hello"[m.Tag%5:m.Tag%5+1] {
			t.Fatalf("tag %d: %v %q", m.Tag, m.Type, m.Data)
		}
		seen[m.Tag] = true
	}
}

// A client that reads slowly gets everything.
func TestSlowClient(t *testing.T) {
	content := bytes.Repeat([]byte("abcdefgh"), 1<<17)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: fsys.Const(string(content))}),
		func(s *Server) { s.WriteTimeout = patience })
	w := dial(t, addr)
	w.version(linux, 1<<20)
	w.must(message{Type: tattach, Fid: 0, Afid: noFid})
	w.open(1, fsys.Read, "f")
	for range 3 {
		w.send(message{Type: tread, Fid: 1, Count: 1 << 19})
	}
	w.in = newFrameReader(iotest.HalfReader(io.LimitReader(w.conn, 1<<30)))
	for range 3 {
		if m := w.recv(); !bytes.Equal(m.Data, content[:1<<19]) {
			t.Errorf("got %d bytes", len(m.Data))
		}
	}
}

func TestPanicInAService(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.write = func(context.Context, []byte) error { panic("oops") }
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "s")
	w.fails(message{Type: twrite, Fid: 1, Data: []byte("x")}, fsys.Internal)
	w.clunk(1)
}

// Whoever comes when there are too many hears why, and others later get in.
func TestTooManyConnections(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(), func(s *Server) { s.MaxConns, s.By = 2, "tester" })
	first := connect(t, addr, linux, "")
	second := connect(t, addr, plan9, "")
	both(t, func(t *testing.T, d dialect) {
		w := dial(t, addr)
		w.dialect = d
		w.fails(message{Type: tversion, Tag: noTag, Msize: 8192, Version: d.String()}, fsys.Busy)
		w.hungUp()
	})
	if _, err := Dial(t.Context(), "unix", addr); fsys.CodeOf(err) != fsys.Busy {
		t.Errorf("Dial: %v", err)
	}
	first.must(message{Type: tstatfs, Fid: 0})
	second.conn.Close()
	for end := time.Now().Add(patience); ; {
		c, err := Dial(t.Context(), "unix", addr)
		if err == nil {
			c.Close()
			return
		}
		if fsys.CodeOf(err) != fsys.Busy || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// What a connection keeps with open files is bounded too, and goes with them.
func TestTooMuchIsOpen(t *testing.T) {
	text := fsys.Text(func(context.Context) ([]byte, error) { return make([]byte, 20_000), nil })
	call := &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) { return nil, nil }}
	s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "f", Node: text}, fsys.Entry{Name: "c", Node: call}),
		func(s *Server) { s.MaxMsize, s.MaxBytes, s.Pool = 8192, 107_000, share.NewPool(1<<30, 0) })
	w := connect(t, addr, linux, "")
	open := func(fid uint32, name string) message {
		w.walk(0, fid, name)
		m := openMessage(linux, fid, fsys.Read)
		if name == "c" {
			m = openMessage(linux, fid, fsys.Write)
		}
		return m
	}
	for fid := range uint32(4) {
		w.must(open(1+fid, "f"))
	}
	w.fails(open(5, "f"), fsys.Busy)
	w.must(open(6, "c"))
	writes := 0
	for ; writes < 20; writes++ { // of a request that is never whole
		if m := w.rpc(message{Type: twrite, Fid: 6, Data: append([]byte("["), make([]byte, 1999)...)}); m.error() != nil {
			break
		}
	}
	if writes < 2 || writes == 20 {
		t.Errorf("%d writes of 2000 bytes found room", writes)
	}
	w.clunk(1)
	w.must(openMessage(linux, 5, fsys.Read))
	if n := s.Pool.Report().Largest; n < 10_000 {
		t.Errorf("%d bytes are shared", n)
	}
	w.conn.Close()
	for end := time.Now().Add(patience); s.Pool.Report().Callers != 0; {
		if time.Now().After(end) {
			t.Fatalf("still counted: %+v", s.Pool.Report())
		}
	}
}

// Replies that nobody reads, and documents that never become whole, take room like
// all that is kept: who leaves them is refused, and can close them.
func TestWhatAWriteLeavesIsBounded(t *testing.T) {
	const kept = 500_000
	call := &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) { return make([]byte, kept), nil }}
	doc := &fsys.Doc{
		Load: func(context.Context) ([]byte, error) { return []byte("{}\n"), nil },
		Save: func(context.Context, []byte) error { return nil },
	}
	half := append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), kept)...)
	for name, req := range map[string][]byte{"call": []byte("{}"), "doc": half} {
		s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "call", Node: call}, fsys.Entry{Name: "doc", Node: doc}),
			func(s *Server) { s.MaxMsize, s.Pool = 1<<20, share.NewPool(32<<20, 0) })
		w := dial(t, addr)
		w.version(linux, 1<<20)
		w.must(message{Type: tattach, Fid: 0, Afid: noFid, NUname: 1000})
		wrote := uint32(0)
		for ; wrote < 100; wrote++ {
			w.walk(0, 1+wrote, name)
			if m := w.rpc(openMessage(linux, 1+wrote, fsys.Read|fsys.Write)); m.error() != nil {
				break
			}
			if m := w.rpc(message{Type: twrite, Fid: 1 + wrote, Data: req}); m.error() != nil {
				break
			}
		}
		if r := s.Pool.Report(); wrote < 5 || wrote == 100 || r.Largest > 20<<20 {
			t.Errorf("%s: %d writes leave %d bytes of a pool of 32 MiB to one", name, wrote, r.Largest)
		}
		for fid := range wrote {
			w.rpc(message{Type: tclunk, Fid: 1 + fid}) // which says that half a document was written
		}
		w.walk(0, 200, name)
		w.must(openMessage(linux, 200, fsys.Read|fsys.Write))
		w.must(message{Type: twrite, Fid: 200, Data: req})
	}
}

// byName has each client be who its attach name says.
func byName(root fsys.Node) func(s *Server) {
	return func(s *Server) {
		s.Attach = func(_ context.Context, _ Peer, _, aname string) (Grant, error) {
			return Grant{Root: root, Caller: "alice", By: aname}, nil
		}
	}
}

// Clients that take all they can get do not keep others from small things, nor
// from as much again as one of them has, however many connections they have.
func TestOthersTookTheMemory(t *testing.T) {
	text := fsys.Text(func(context.Context) ([]byte, error) { return make([]byte, 100_000), nil })
	root := fsys.NewTable(fsys.Entry{Name: "big", Node: text}, fsys.Entry{Name: "small", Node: fsys.Const("hello")})
	s, addr := serveTree(t, root, byName(root), func(s *Server) { s.Pool = share.NewPool(1<<20, 0) })
	opened := 0
	var greedy [3]*wire
	for i := range greedy {
		greedy[i] = connect(t, addr, linux, "greedy")
		for fid := uint32(1); ; fid++ {
			greedy[i].walk(0, fid, "big")
			if m := greedy[i].rpc(openMessage(linux, fid, fsys.Read)); m.error() != nil {
				break
			}
			opened++
		}
	}
	if opened < 3 || opened > 4 { // of 1 MiB less the operator's part, as much as is left for others
		t.Errorf("%d files of 100,000 bytes are open on three connections, want 3 or 4", opened)
	}
	w := connect(t, addr, plan9, "modest")
	w.open(1, fsys.Read, "small")
	if got := w.read(1, 0, 1<<20); got != "hello" { // as clients ask, for as much as there may be
		t.Errorf("read %q", got)
	}
	w.open(2, fsys.Read, "big")
	if got := greedy[0].rpc(message{Type: tgetattr, Fid: 0}); got.error() != nil {
		t.Errorf("a small request of who has taken all it may: %v", got.error())
	}
	// What only the operator can have is there for the operator.
	for i := 0; ; i++ {
		w := connectOrNot(t, addr, fmt.Sprint("many", i))
		if w == nil {
			break
		}
		w.open(1, fsys.Read, "small")
	}
	operator, ok := s.Pool.Open(share.Operator, share.Terms{Base: connBytes, Own: ownBytes})
	if !ok || !operator.Reserve(share.Data, 20_000) {
		t.Error("the operator has no room when all others have taken what there is")
	}
	operator.Close()
}

// connectOrNot attaches, or returns nil if the server has no room for it.
func connectOrNot(t *testing.T, addr, aname string) *wire {
	t.Helper()
	w := dial(t, addr)
	w.dialect = linux
	if m := w.rpc(message{Type: tversion, Tag: noTag, Msize: 8192, Version: linux.String()}); m.error() != nil {
		return nil
	}
	if m := w.rpc(message{Type: tattach, Fid: 0, Afid: noFid, Aname: aname}); m.error() != nil {
		return nil
	}
	return w
}

// Requests that wait are counted for what they take, and refused when there is
// no room for more; what gives something back is not.
func TestWaitingTakesMemory(t *testing.T) {
	sp := newSpy(fsys.Stream)
	s, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}),
		func(s *Server) { s.Pool = share.NewPool(2<<20, 0) })
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.walk(0, 2)
	use := func() share.Use { return s.Pool.Report().Speaks["9p"] }
	becomes := func(want share.Use) {
		t.Helper()
		for end := time.Now().Add(patience); use() != want; {
			if time.Now().After(end) {
				t.Fatalf("clients have %+v, want %+v", use(), want)
			}
		}
	}
	const root = connBytes + attachBytes + fidBytes + placeBytes + 1 + int64(len("glenda"))
	becomes(share.Use{Conns: 1, Fids: 3, Bytes: root + 2*fidBytes + placeBytes + 1})
	var tags []uint16
	for {
		tag := w.send(message{Type: tread, Fid: 1, Count: 1})
		w.send(message{Type: tgetattr, Fid: 0})
		m := w.recv()
		if m.Tag == tag {
			if fsys.CodeOf(m.error()) != fsys.Busy {
				t.Fatalf("a read is refused with %v", m.error())
			}
			w.recv()
			break
		}
		await(t, sp.began, "a read")
		if tags = append(tags, tag); len(tags) > 1000 {
			t.Fatal("no read is refused")
		}
	}
	if u := use(); u.Requests != len(tags) || u.Bytes < int64(len(tags)*requestBytes) || len(tags) < 10 {
		t.Errorf("while %d reads wait: %+v", len(tags), u)
	}
	other := connect(t, addr, plan9, "")
	other.open(1, fsys.Read, "s")
	other.send(message{Type: tread, Fid: 1, Count: 1})
	await(t, sp.began, "a read on another connection")
	w.must(message{Type: tclunk, Fid: 2})
	w.must(message{Type: tflush, OldTag: tags[0]})
	clunk := w.send(message{Type: tclunk, Fid: 1}) // which ends the reads
	for w.recv().Tag != clunk {
	}
	other.conn.Close()
	becomes(share.Use{Conns: 1, Fids: 1, Bytes: root})
}

// Reads that wait for memory do not have it already.
func TestWaitingCostsNothing(t *testing.T) {
	a, _ := (*share.Pool)(nil).Open("", share.Terms{Limit: 1 << 20})
	first, err := waitFrame(t.Context(), a, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer first.free()
	r := testing.Benchmark(func(b *testing.B) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range b.N {
			if _, err := waitFrame(ctx, a, 1<<20); err != context.Canceled {
				b.Fatal(err)
			}
		}
	})
	if r.AllocedBytesPerOp() > 4096 {
		t.Errorf("%d bytes allocated", r.AllocedBytesPerOp())
	}
}

// The names that lead to a fid are asked for before they are kept, however many
// connections a client has.
func TestNamesAskFirst(t *testing.T) {
	long := strings.Repeat("n", 250)
	root := fsys.NewTable()
	for range maxNames - 1 {
		root = fsys.NewTable(fsys.Entry{Name: long, Node: root})
	}
	const limit = 2 << 20
	s, addr := serveTree(t, root, byName(root), func(s *Server) { s.Pool = share.NewPool(limit, 0) })
	deep := slices.Repeat([]string{long}, maxNames-1)
	for range 4 {
		w := connectOrNot(t, addr, "greedy")
		for fid := uint32(1); w != nil; fid++ {
			if fid > 1000 {
				t.Fatal("nothing is refused")
			}
			if m := w.rpc(message{Type: twalk, Fid: 0, NewFid: fid, Names: deep}); m.error() != nil {
				if fsys.CodeOf(m.error()) != fsys.Busy {
					t.Fatal(m.error())
				}
				break
			}
		}
	}
	if most := s.Pool.Report().Largest; most > limit/2 || most < limit/8 {
		t.Errorf("one caller has %d bytes of %d", most, limit)
	}
	if connectOrNot(t, addr, "modest") == nil {
		t.Error("another caller is turned away")
	}
}
