package ninep

import (
	"testing"

	"agent9/fsys"
)

// TestEndlessListing has a server whose directory has no end.
func TestEndlessListing(t *testing.T) {
	if raceEnabled {
		t.Skip("a million entries take too long with the race detector")
	}
	c, s := dialScript(t, linux)
	root := s.attach(c)
	wait := s.in(func() error { _, err := root.List(t.Context()); return err })
	s.answer(s.want(twalk), &message{})
	s.answer(s.want(tlopen), &message{Qid: qid{Type: qtDir}})
	var data []byte
	for len(data) < 8000 {
		data = appendDirent(data, &dirent{Name: "x", Offset: 1})
	}
	for {
		m := <-s.got
		if m.Type != treaddir {
			s.answer(m, &message{}) // Tclunk: it has had enough
			break
		}
		s.answer(m, &message{Data: data})
	}
	if err := wait(); fsys.CodeOf(err) != fsys.TooLarge {
		t.Errorf("a directory without end: %v, want %v", err, fsys.TooLarge)
	}
}
