package ninep

import (
	"net"
	"testing"
	"time"

	"agent9/fsys"
)

// A script is the server's end of a connection, played by a test.
type script struct {
	t    *testing.T
	conn net.Conn
	d    dialect
	got  chan *message
	seen map[messageType]int // by want and trips
	root *Remote             // so that it is not collected
}

// limit is how long a test waits for what must happen.
const limit = 90 * time.Second

// dialScript returns a client and the server's end of its connection, after
// they agreed on version.
func dialScript(t *testing.T, d dialect) (*Client, *script) {
	t.Helper()
	near, far := net.Pipe()
	s := &script{t: t, conn: far, got: make(chan *message, 1024), seen: map[messageType]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.got)
		frames := newFrameReader(far)
		for {
			b, err := frames.next(maxMsize)
			if err != nil {
				return
			}
			m := new(message)
			if err := decodeMessage(b, s.d, m); err != nil {
				t.Errorf("the client sent %x: %v", head(b), err)
				return
			}
			m.Data = append([]byte(nil), m.Data...)
			if m.Type == tversion {
				s.d = d
				s.send(&message{Type: rversion, Tag: noTag, Msize: 8192, Version: d.String()})
				continue
			}
			s.got <- m
		}
	}()
	c, err := NewClient(t.Context(), near, DialVersion(d.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		far.Close()
		<-done
	})
	return c, s
}

func (s *script) send(m *message) {
	b, err := appendMessage(nil, s.d, m)
	if err == nil {
		_, err = s.conn.Write(b)
	}
	if err != nil {
		s.t.Errorf("send %v: %v", m.Type, err)
	}
}

// answer replies to m with r.
func (s *script) answer(m, r *message) {
	r.Tag = m.Tag
	if r.Type == 0 {
		r.Type = m.Type + 1
	}
	s.send(r)
}

// want returns the next request, which must be of type typ.
func (s *script) want(typ messageType) *message {
	s.t.Helper()
	select {
	case m, ok := <-s.got:
		if !ok {
			s.t.Fatalf("the client hung up, want %v", typ)
		}
		if m.Type != typ {
			s.t.Fatalf("the client sent %v, want %v", m.Type, typ)
		}
		s.seen[typ]++
		return m
	case <-time.After(limit):
		s.t.Fatalf("the client sent nothing, want %v", typ)
	}
	return nil
}

// attach lets the client attach to a directory.
func (s *script) attach(c *Client) *Remote {
	s.t.Helper()
	var root *Remote
	wait := s.in(func() (err error) { root, err = c.Attach(s.t.Context(), "glenda", ""); return })
	s.answer(s.want(tattach), &message{Qid: qid{Type: qtDir}})
	if err := wait(); err != nil {
		s.t.Fatal(err)
	}
	s.root = root
	return root
}

// in does f while the test plays the server; what it returns waits for f.
func (s *script) in(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error {
		s.t.Helper()
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			s.t.Fatal("a call of the client did not return")
			return nil
		}
	}
}

// opened returns a handle for reading of a file of kind k.
func (s *script) opened(root *Remote, k fsys.Kind) fsys.Handle {
	s.t.Helper()
	var h fsys.Handle
	wait := s.in(func() (err error) { h, err = root.OpenPath(s.t.Context(), "f", fsys.Read); return })
	s.answer(s.want(twalk), &message{Qids: []qid{{Type: qidType(k)}}})
	s.answer(s.want(tlopen), &message{Qid: qid{Type: qidType(k)}})
	if err := wait(); err != nil {
		s.t.Fatal(err)
	}
	return h
}

func cancelled(t *testing.T, err error) {
	t.Helper()
	if fsys.CodeOf(err) != fsys.Canceled || err == nil {
		t.Errorf("a cancelled call returned %v", err)
	}
}
