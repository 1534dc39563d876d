package ninep

import (
	"context"
	"testing"

	"agent9/fsys"
)

// found lets the client find "f" in root, and returns the requests, all of
// which it sent before any was answered.
func (s *script) found(ctx context.Context, root *Remote) (walk, attr *message, wait func() error) {
	s.t.Helper()
	wait = s.in(func() error { _, _, err := root.FindInfo(ctx, []string{"f"}); return err })
	walk, attr = s.want(twalk), s.want(tgetattr)
	if attr.Fid != walk.NewFid {
		s.t.Errorf("Tgetattr is of fid %d, the walk makes %d", attr.Fid, walk.NewFid)
	}
	return walk, attr, wait
}

func bad() *message { return &message{Type: rlerror, Ecode: 9} }

func TestChain(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	walk, attr, wait := s.found(t.Context(), root)
	s.answer(walk, &message{Qids: []qid{{}}})
	s.answer(attr, &message{})
	if err := wait(); err != nil {
		t.Error(err)
	}
	// A server that works on requests at the same time is asked again.
	walk, attr, wait = s.found(t.Context(), root)
	s.answer(attr, bad())
	s.answer(walk, &message{Qids: []qid{{}}})
	s.answer(s.want(tgetattr), &message{})
	if err := wait(); err != nil {
		t.Error(err)
	}
	// What is wrong with the walk is what is wrong.
	walk, attr, wait = s.found(t.Context(), root)
	failed := walk.NewFid
	s.answer(walk, &message{Type: rlerror, Ecode: 2})
	if err := wait(); fsys.CodeOf(err) != fsys.NotExist {
		t.Errorf("FindInfo: %v, want NotExist", err)
	}
	// The number of its fid is free when the last answer is there.
	other, otherAttr, wait := s.found(t.Context(), root)
	if other.NewFid == failed {
		t.Error("a fid is used again while a request for it is under way")
	}
	s.answer(attr, bad())
	s.answer(other, &message{Qids: []qid{{}}})
	s.answer(otherAttr, &message{})
	if err := wait(); err != nil {
		t.Error(err)
	}
	if again, _, _ := s.found(t.Context(), root); again.NewFid != failed {
		t.Errorf("fid %d is not used again, but %d", failed, again.NewFid)
	}
}

// A chain that is cancelled is flushed, and the fid that it made is clunked.
func TestCancelledChain(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	ctx, cancel := context.WithCancel(t.Context())
	walk, attr, wait := s.found(ctx, root)
	cancel()
	cancelled(t, wait())
	flushes := map[uint16]*message{}
	for range 2 {
		m := s.want(tflush)
		flushes[m.OldTag] = m
	}
	s.answer(walk, &message{Qids: []qid{{}}}) // it was done all the same
	s.answer(flushes[walk.Tag], &message{})
	s.answer(flushes[attr.Tag], &message{}) // and this was not
	if m := s.want(tclunk); m.Fid != walk.NewFid {
		t.Errorf("fid %d is clunked, want %d", m.Fid, walk.NewFid)
	}
}

// OpenInfo sends four requests at once, and gives back the fid of what cannot
// be opened.
func TestOpenInfo(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	var first []byte
	open := func() (all [4]*message, wait func() error) {
		wait = s.in(func() error {
			h, _, b, err := root.OpenInfo(t.Context(), []string{"d", "f"}, 100)
			if err == nil {
				first = b
				err = h.Close()
			}
			return err
		})
		for i, typ := range []messageType{twalk, tgetattr, tlopen, tread} {
			all[i] = s.want(typ)
		}
		return all, wait
	}
	m, wait := open()
	s.answer(m[0], &message{Qids: []qid{{Type: qtDir}, {}}})
	s.answer(m[1], &message{})
	s.answer(m[2], &message{})
	s.answer(m[3], &message{Data: []byte("text")})
	if err := wait(); err != nil || string(first) != "text" {
		t.Errorf("OpenInfo: %q, %v", first, err)
	}
	s.answer(s.want(tclunk), &message{})
	m, wait = open()
	s.answer(m[0], &message{Qids: []qid{{Type: qtDir}, {}}})
	s.answer(m[1], &message{})
	s.answer(m[2], &message{Type: rlerror, Ecode: 13})
	s.answer(m[3], bad())
	if err := wait(); fsys.CodeOf(err) != fsys.Permission {
		t.Errorf("OpenInfo of what may not be read: %v", err)
	}
	if clunk := s.want(tclunk); clunk.Fid != m[0].NewFid {
		t.Errorf("fid %d is clunked, want %d", clunk.Fid, m[0].NewFid)
	}
}

// A server that knows no extended attribute is asked in the ordinary way.
func TestListInfoOfAnother(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	wait := s.in(func() error { _, err := root.ListInfo(t.Context()); return err })
	walk, read := s.want(txattrwalk), s.want(tread)
	s.answer(walk, &message{Type: rlerror, Ecode: 61})
	s.answer(read, bad())
	s.answer(s.want(twalk), &message{})
	s.answer(s.want(tlopen), &message{Qid: qid{Type: qtDir}})
	s.answer(s.want(treaddir), &message{})
	if err := wait(); err != nil {
		t.Error(err)
	}
}
