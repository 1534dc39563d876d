package ninep

import (
	"context"
	"testing"
	"time"

	"agent9/fsys"
)

// A reader that behaves as v9fs does: one read(2) of size bytes is as many
// Treads as fill it, or until one is answered 0.
func (w *wire) read2(fid uint32, off *uint64, size, clip uint32) (s string) {
	w.t.Helper()
	for got := uint32(0); got < size; got = uint32(len(s)) {
		part := w.read(fid, *off, min(size-got, clip))
		*off += uint64(len(part))
		if s += part; part == "" {
			break
		}
	}
	return s
}

func TestStreamThroughV9fs(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		const clip = 8192 - ioHeader
		for _, size := range []uint32{4096, clip, 1 << 17} {
			aname := ""
			if d == plan9 && size > clip {
				aname = "?stream=v9fs" // else one cannot tell it from a library
			}
			var mem fsys.Memory
			tape := fsys.NewTape(&mem)
			_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: tape}))
			w := connect(t, addr, d, aname)
			w.open(1, fsys.Read, "s")
			var off uint64
			for _, line := range []string{"one\n", "two\n", "three\n"} {
				grow := time.AfterFunc(time.Millisecond, func() {
					mem.Append([]byte(line))
					tape.Grown()
				})
				if got := w.read2(1, &off, size, clip); got != line {
					t.Errorf("size %d: a read(2) returned %q, want %q", size, got, line)
				}
				grow.Stop()
			}
			mem.Append([]byte("last"))
			tape.End()
			if got := w.read2(1, &off, size, clip); got != "last" {
				t.Errorf("size %d: the last read(2) returned %q", size, got)
			}
			for range 3 {
				if got := w.read2(1, &off, size, clip); got != "" {
					t.Errorf("size %d: after the end: %q", size, got)
				}
			}
		}
	})
}

// A library client asks for the maximum each time and takes 0 for the end.
func TestStreamThroughALibrary(t *testing.T) {
	for _, c := range []struct {
		d     dialect
		aname string
	}{{plan9, ""}, {linux, "?stream=plain"}} {
		sp := newSpy(fsys.Stream)
		_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
		w := connect(t, addr, c.d, c.aname)
		w.open(1, fsys.Read, "s")
		var off uint64
		for range 3 {
			w.send(message{Type: tread, Fid: 1, Offset: off, Count: 8168})
			await(t, sp.began, "the read to wait") // and not to be answered 0
			sp.reply <- "line\n"
			m := w.recv()
			off += uint64(len(m.Data))
			if string(m.Data) != "line\n" {
				t.Fatalf("%v: got %v %q", c.d, m.Type, m.Data)
			}
		}
	}
}

// Data that is there is returned, also to a continuation.
func TestContinuationGetsWhatIsThere(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Read, "s")
	sp.reply <- "abc"
	if got := w.read(1, 0, 100); got != "abc" {
		t.Fatalf("got %q", got)
	}
	sp.reply <- "de"
	if got := w.read(1, 3, 97); got != "de" {
		t.Errorf("the continuation got %q", got)
	}
	if got := w.read(1, 5, 95); got != "" {
		t.Errorf("the next one got %q", got)
	}
}

func TestFlushedReadIsNotContinued(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Read, "s")
	sp.reply <- "abc"
	w.read(1, 0, 100)
	tag := w.send(message{Type: tread, Fid: 1, Offset: 3, Count: 100})
	await(t, sp.ended, "the first read to end")
	await(t, sp.began, "the first read")
	await(t, sp.began, "the second read")
	w.must(message{Type: tflush, OldTag: tag})
	w.send(message{Type: tread, Fid: 1, Offset: 3, Count: 97})
	await(t, sp.began, "the read after the flush to wait")
	sp.reply <- "x"
	if m := w.recv(); string(m.Data) != "x" {
		t.Errorf("got %v %q", m.Type, m.Data)
	}
}

func TestWaitOption(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		for _, kind := range []fsys.Kind{fsys.Stream, fsys.Message} {
			sp := newSpy(kind)
			_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
			w := connect(t, addr, d, "?wait=20ms")
			w.open(1, fsys.Read, "s")
			start := time.Now()
			if got := w.read(1, 0, 100); got != "" {
				t.Errorf("%v: got %q", kind, got)
			}
			if took := time.Since(start); took < 20*time.Millisecond {
				t.Errorf("%v: waited only %v", kind, took)
			}
			if err := await(t, sp.ended, "the read to end"); err != context.DeadlineExceeded {
				t.Errorf("%v: the service saw %v", kind, err)
			}
			sp.reply <- "x"
			if got := w.read(1, 0, 50); got != "x" {
				t.Errorf("%v: then got %q", kind, got)
			}
		}
	})
}

// Waiting at the end of a stream holds little memory, whatever the client's
// buffer.
func TestWaitingIsCheap(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}),
		func(s *Server) { s.MaxMsize, s.MaxBytes = 1<<20, 2<<20 })
	w := dial(t, addr)
	w.version(linux, 1<<20)
	w.must(message{Type: tattach, Fid: 0, Afid: noFid})
	w.open(1, fsys.Read, "s")
	for range 100 {
		w.send(message{Type: tread, Fid: 1, Count: 1 << 20})
	}
	for range 100 {
		await(t, sp.began, "all reads to wait")
	}
	for range 100 {
		sp.reply <- "x"
	}
	for range 100 {
		if m := w.recv(); string(m.Data) != "x" {
			t.Fatalf("got %v %s", m.Type, m.failure())
		}
	}
}

// A stream that is far ahead of its reader is read in large pieces.
func TestLongStream(t *testing.T) {
	var mem fsys.Memory
	text := make([]byte, 100_000)
	for i := range text {
		text[i] = byte(i / 7)
	}
	mem.Append(text)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: fsys.NewTape(&mem)}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	for off := uint64(0); off < uint64(len(text)); {
		got := w.read(1, off, 8168)
		if want := text[off:min(off+8168, uint64(len(text)))]; got != string(want) {
			t.Fatalf("at %d: %d bytes, want %d", off, len(got), len(want))
		}
		off += uint64(len(got))
	}
}

func TestConversation(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		echo := &fsys.Call{Do: func(ctx context.Context, req []byte) ([]byte, error) {
			if string(req) == "bad" {
				return nil, fsys.E(fsys.Exhausted, "no money")
			}
			return append([]byte(fsys.CallerOf(ctx)+" says "), req...), nil
		}}
		_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "rpc", Node: echo}))
		w := connect(t, addr, d, "")
		w.open(1, fsys.Read|fsys.Write|fsys.Trunc, "rpc")
		w.must(message{Type: twrite, Fid: 1, Data: []byte("[1,")})
		w.must(message{Type: twrite, Fid: 1, Offset: 3, Data: []byte("2]")})
		if got := w.read(1, 5, 100); got != "tester says [1,2]" {
			t.Errorf("reply %q", got)
		}
		if got := w.read(1, 22, 100); got != "" {
			t.Errorf("after the reply %q", got)
		}
		w.must(message{Type: twrite, Fid: 1, Data: []byte("bad")})
		w.fails(message{Type: tclunk, Fid: 1}, fsys.Exhausted)
	})
}

// Requests that are over soon are all answered, also when more of them come at
// once than may be under way, and beside one that waits.
func TestManyAtOnce(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(
		fsys.Entry{Name: "f", Node: fsys.Const("0123456789")},
		fsys.Entry{Name: "s", Node: sp},
	))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "f")
	w.open(2, fsys.Read, "s")
	blocked := w.send(message{Type: tread, Fid: 2, Count: 8})
	await(t, sp.began, "the read that waits")
	const n = 3000
	var all []byte
	for i := range n {
		all = append(all, encode(t, linux, &message{Type: tread, Tag: uint16(1000 + i), Fid: 1, Offset: uint64(i % 10), Count: 1})...)
	}
	go w.conn.Write(all)
	seen := map[uint16]bool{}
	for range n {
		m := w.recv()
		if want := string(rune('0' + (m.Tag-1000)%10)); m.Type != rread || seen[m.Tag] || string(m.Data) != want {
			t.Fatalf("a reply is %v %d %q, want %q", m.Type, m.Tag, m.Data, want)
		}
		seen[m.Tag] = true
	}
	sp.reply <- "more"
	if m := w.recv(); m.Tag != blocked || string(m.Data) != "more" {
		t.Errorf("the read that waited was answered %v %d %q", m.Type, m.Tag, m.Data)
	}
}

// A request that should be over soon and is not holds up nothing else of its
// connection.
func TestSlowStat(t *testing.T) {
	release := make(chan struct{})
	slow := fsys.Text(func(ctx context.Context) ([]byte, error) {
		select {
		case <-release:
			return []byte("done\n"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	_, addr := serveTree(t, fsys.NewTable(
		fsys.Entry{Name: "f", Node: fsys.Const("text")},
		fsys.Entry{Name: "slow", Node: slow},
	))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "f")
	const n = 5
	tags := map[uint16]bool{}
	for i := range uint32(n) { // each of them takes the lead away from somebody
		tags[w.send(message{Type: twalk, Fid: 0, NewFid: 10 + i, Names: []string{"slow"}})] = true
		if got := w.read(1, 0, 100); got != "text" {
			t.Fatalf("read %q", got)
		}
	}
	for old := range tags {
		w.must(message{Type: tflush, OldTag: old})
		delete(tags, old)
		break
	}
	close(release)
	for range n - 1 {
		if m := w.recv(); m.Type != rwalk || !tags[m.Tag] {
			t.Errorf("a walk was answered %v %d", m.Type, m.Tag)
		}
	}
}
