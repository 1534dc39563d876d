package ninep

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
)

// A cancelled read returns before the server says anything, and its tag is
// not used again before the Rflush.
func TestCancelFlushes(t *testing.T) {
	c, s := dialScript(t, linux)
	h := s.opened(s.attach(c), fsys.Stream)
	ctx, cancel := context.WithCancel(t.Context())
	wait := s.in(func() error { _, err := fsys.ReadAt(ctx, h, make([]byte, 8), 0); return err })
	read := s.want(tread)
	cancel()
	cancelled(t, wait())
	flush := s.want(tflush)
	if flush.OldTag != read.Tag {
		t.Errorf("Tflush of tag %d, want %d", flush.OldTag, read.Tag)
	}

	for range 3 {
		wait := s.in(func() error { _, err := fsys.ReadAt(t.Context(), h, make([]byte, 8), 0); return err })
		m := s.want(tread)
		if m.Tag == read.Tag || m.Tag == flush.Tag {
			t.Fatalf("tag %d was used again before the Rflush", m.Tag)
		}
		s.answer(m, &message{Data: []byte("x")})
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	s.answer(flush, &message{})
	s.eventually("the tags to be free", func() bool {
		tags, _ := c.calls.free()
		return slices.Contains(tags, read.Tag) && slices.Contains(tags, flush.Tag)
	})
}

func (t *callTable) free() ([]uint16, []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.freeTags), slices.Clone(t.freeFids)
}

// eventually asks f until it holds.
func (s *script) eventually(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(limit); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// What a flushed request did all the same is undone.
func TestCancelledOpenIsClunked(t *testing.T) {
	for _, answered := range []bool{true, false} {
		c, s := dialScript(t, linux)
		root := s.attach(c)
		ctx, cancel := context.WithCancel(t.Context())
		wait := s.in(func() error { _, err := root.OpenPath(ctx, "f", fsys.Read); return err })
		walk := s.want(twalk)
		s.answer(walk, &message{Qids: []qid{{}}})
		open := s.want(tlopen)
		cancel()
		cancelled(t, wait())
		flush := s.want(tflush)
		if answered {
			s.answer(open, &message{})
		}
		s.answer(flush, &message{})
		if clunk := s.want(tclunk); clunk.Fid != walk.NewFid {
			t.Errorf("answered %v: Tclunk of fid %d, want %d", answered, clunk.Fid, walk.NewFid)
		}
	}
}

func TestCancelledWalk(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	walk := func() (*message, *message) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		wait := s.in(func() error { _, err := root.Walk(ctx, "f"); return err })
		walk := s.want(twalk)
		cancel()
		cancelled(t, wait())
		return walk, s.want(tflush)
	}
	first, flush := walk()
	s.answer(first, &message{Qids: []qid{{}}}) // before the Rflush: it counts
	if clunk := s.want(tclunk); clunk.Fid != first.NewFid {
		t.Errorf("Tclunk of fid %d, want %d", clunk.Fid, first.NewFid)
	}
	s.answer(flush, &message{})

	second, flush := walk()
	s.answer(flush, &message{}) // it was never performed: nothing to clunk
	s.eventually("the fid to be free", func() bool {
		_, fids := c.calls.free()
		return slices.Contains(fids, second.NewFid)
	})
}

// A server that does not read holds up nobody who has a context.
func TestServerThatDoesNotRead(t *testing.T) {
	c, s := dialScript(t, linux)
	h := &remoteHandle{c: c, flag: fsys.Write, most: 1 << 20}
	s.conn.SetReadDeadline(time.Unix(1, 0)) // ends the reading, not the connection
	for range s.got {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for i := range 12 { // more than may be queued
		if n, err := h.WriteAt(ctx, make([]byte, 1<<20), 0); fsys.CodeOf(err) != fsys.Timeout || n != 0 {
			t.Fatalf("write %d: %d, %v; want a timeout", i, n, err)
		}
	}
}

func TestConnectionLost(t *testing.T) {
	before := runtime.NumGoroutine()
	c, s := dialScript(t, linux)
	h := s.opened(s.attach(c), fsys.Stream)
	var waits []func() error
	for range 3 {
		waits = append(waits, s.in(func() error { _, err := fsys.ReadAt(t.Context(), h, make([]byte, 8), 0); return err }))
		s.want(tread)
	}
	s.conn.Close()
	for _, wait := range waits {
		if err := wait(); fsys.CodeOf(err) != fsys.Unavailable {
			t.Errorf("a read when the connection was lost: %v, want Unavailable", err)
		}
	}
	<-c.Done()
	if _, err := fsys.ReadAt(t.Context(), h, make([]byte, 8), 0); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("a read after the connection was lost: %v, want Unavailable", err)
	}
	if err := h.Close(); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Close after the connection was lost: %v, want Unavailable", err)
	}
	c.Close()
	s.eventually("the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestCloseEndsCalls(t *testing.T) {
	c, s := dialScript(t, plan9)
	root := s.attach(c)
	wait := s.in(func() error { _, err := root.Stat(t.Context()); return err })
	s.want(tstat)
	c.Close()
	if err := wait(); fsys.CodeOf(err) != fsys.Unavailable {
		t.Errorf("Stat when the client was closed: %v, want Unavailable", err)
	}
}

// A server that breaks the rules is not trusted any further.
func TestSenselessReplies(t *testing.T) {
	for name, send := range map[string]func(s *script, asked *message){
		"unknown tag":   func(s *script, m *message) { s.send(&message{Type: rclunk, Tag: m.Tag + 9}) },
		"other type":    func(s *script, m *message) { s.answer(m, &message{Type: rclunk}) },
		"not a message": func(s *script, m *message) { s.conn.Write([]byte("220 mail.example.org\r\n")) },
		"too large":     func(s *script, m *message) { s.conn.Write([]byte{1, 0, 0, 1, byte(rread), 0, 0}) },
		"cut off":       func(s *script, m *message) { s.conn.Write([]byte{9, 0, 0, 0, byte(rgetattr), 0, 0, 1, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			c, s := dialScript(t, linux)
			root := s.attach(c)
			wait := s.in(func() error { _, err := root.Stat(t.Context()); return err })
			send(s, s.want(tgetattr))
			if err := wait(); fsys.CodeOf(err) != fsys.Unavailable || fsys.ReasonOf(err) == "" {
				t.Errorf("Stat: %v, want Unavailable with a reason", err)
			}
		})
	}
}

// Requests go out while others wait, and replies may come in any order.
func TestPipelining(t *testing.T) {
	c, s := dialScript(t, linux)
	h := s.opened(s.attach(c), fsys.File)
	var waits []func() error
	var asked []*message
	got := make([]string, 4)
	for i := range got {
		waits = append(waits, s.in(func() error {
			p := make([]byte, 4)
			n, err := fsys.ReadAt(t.Context(), h, p, int64(i))
			got[i] = string(p[:n])
			return err
		}))
		asked = append(asked, s.want(tread))
	}
	for i := len(asked) - 1; i >= 0; i-- {
		s.answer(asked[i], &message{Data: []byte{'a' + byte(asked[i].Offset)}})
		if err := waits[i](); err != nil {
			t.Fatal(err)
		}
	}
	if all := strings.Join(got, ""); all != "abcd" {
		t.Errorf("four reads got %q, want %q", all, "abcd")
	}
}

// Reads and writes larger than a message are split; of a stream a reply is
// returned as it comes.
func TestSplit(t *testing.T) {
	const msize, payload = 8192, 8192 - ioHeader
	data := bytes.Repeat([]byte("0123456789"), 2000)
	for _, k := range []fsys.Kind{fsys.File, fsys.Stream} {
		c, s := dialScript(t, linux)
		h := s.opened(s.attach(c), k)
		p := make([]byte, len(data)+10)
		var n int
		wait := s.in(func() (err error) { n, err = fsys.ReadAt(t.Context(), h, p, 0); return })
		want := payload
		if k == fsys.File {
			want = len(data)
		}
		for off := 0; off < want; {
			m := s.want(tread)
			if m.Count > payload || int(m.Offset) != off {
				t.Fatalf("%v: Tread of %d at %d, want at most %d at %d", k, m.Count, m.Offset, payload, off)
			}
			part := data[off:min(off+int(m.Count), len(data))]
			s.answer(m, &message{Data: part})
			off += len(part)
		}
		if err := wait(); err != nil || !bytes.Equal(p[:n], data[:want]) {
			t.Errorf("%v: a read of %d bytes gave %d, %v; want %d", k, len(p), n, err, want)
		}
	}
	c, s := dialScript(t, linux)
	h := &remoteHandle{c: c, flag: fsys.Write, most: payload}
	wait := s.in(func() error { _, err := h.WriteAt(t.Context(), data, 0); return err })
	var got []byte
	for len(got) < len(data) {
		m := s.want(twrite)
		if int(m.Offset) != len(got) {
			t.Fatalf("Twrite at %d, want %d", m.Offset, len(got))
		}
		got = append(got, m.Data...)
		s.answer(m, &message{Count: uint32(len(m.Data))})
	}
	if err := wait(); err != nil || !bytes.Equal(got, data) {
		t.Errorf("a split write: %v; %d of %d bytes as they were", err, len(got), len(data))
	}
}
