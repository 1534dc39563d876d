package ninep

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"agent9/fsys"
)

// trips plays a server for f and returns how many requests it saw.
func (s *script) trips(f func() error) int {
	s.t.Helper()
	n := 0
	done := s.in(f)
	finished := make(chan error, 1)
	go func() { finished <- done() }()
	for {
		select {
		case err := <-finished:
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		case m := <-s.got:
			if m.Type != tclunk {
				n++
			}
			s.seen[m.Type]++
			r := &message{}
			for i := range m.Names {
				t := uint8(qtDir)
				if i == len(m.Names)-1 && m.Names[i] == "f" {
					t = qtFile
				}
				r.Qids = append(r.Qids, qid{Type: t})
			}
			s.answer(m, r)
		case <-time.After(limit):
			s.t.Fatal("nothing happens")
		}
	}
}

// What common operations cost in round trips, without clunks.
func TestRoundTrips(t *testing.T) {
	for _, d := range []dialect{linux, plan9} {
		t.Run(d.String(), func(t *testing.T) {
			c, s := dialScript(t, d)
			root := s.attach(c)
			ctx := t.Context()
			var file fsys.Node
			for _, op := range []struct {
				name string
				want int
				f    func() error
			}{
				{"OpenPath of a/b/f", 2, func() error {
					h, err := root.OpenPath(ctx, "a/b/f", fsys.Read)
					if err == nil {
						err = h.Close()
					}
					return err
				}},
				{"WalkPath to a/b/f", 1, func() (err error) { file, err = root.WalkPath(ctx, "a/b/f"); return }},
				{"Stat", 1, func() error { _, err := file.Stat(ctx); return err }},
				{"Open", 2, func() error { _, err := file.Open(ctx, fsys.Read); return err }},
				{"Walk and Stat", 2, func() error {
					n, err := root.Walk(ctx, "x")
					if err == nil {
						_, err = n.Stat(ctx)
					}
					return err
				}},
				{"List of nothing", 3, func() error { _, err := root.List(ctx); return err }},
				{"Truncate", 1, func() error { return fsys.Truncate(ctx, file, 0) }},
				{"Create", 2, func() error { _, _, err := root.Create(ctx, "new", 0o644, fsys.Write); return err }},
				{"Mkdir", map[dialect]int{linux: 1, plan9: 2}[d], func() error { _, err := root.Mkdir(ctx, "new", 0o755); return err }},
				{"Rename", map[dialect]int{linux: 1, plan9: 2}[d], func() error { return root.Rename(ctx, "a", "b") }},
				{"Remove", map[dialect]int{linux: 2, plan9: 2}[d], func() error { return fsys.Remove(ctx, file) }},
				{"Remove again", map[dialect]int{linux: 1, plan9: 2}[d], func() error { return fsys.Remove(ctx, file) }},
			} {
				if n := s.trips(op.f); n != op.want {
					t.Errorf("%s: %d round trips, want %d", op.name, n, op.want)
				}
			}
		})
	}
}

// A node whose fid was taken away finds its file again, in one walk.
func TestFidsAreBounded(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	const more = 20
	nodes := make([]fsys.Node, maxHeld+more)
	s.trips(func() error {
		for i := range nodes {
			var err error
			if nodes[i], err = root.Walk(t.Context(), fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	for s.seen[tclunk] < more {
		s.answer(s.want(tclunk), &message{})
	}
	if held := s.seen[twalk] - s.seen[tclunk]; held != maxHeld {
		t.Errorf("%d fids are kept, want %d", held, maxHeld)
	}
	if n := s.trips(func() error { _, err := nodes[0].Stat(t.Context()); return err }); n != 2 {
		t.Errorf("Stat of a node without a fid: %d round trips, want 2", n)
	}
	if n := s.trips(func() error { _, err := nodes[len(nodes)-1].Stat(t.Context()); return err }); n != 1 {
		t.Errorf("Stat of a node with a fid: %d round trips, want 1", n)
	}
	runtime.KeepAlive(nodes)
}

// The fid of a node that nobody has any more is clunked.
func TestCollectedNodesAreClunked(t *testing.T) {
	c, s := dialScript(t, linux)
	root := s.attach(c)
	s.trips(func() error { _, err := root.Walk(t.Context(), "x"); return err })
	s.eventually("a Tclunk", func() bool {
		runtime.GC()
		select {
		case m := <-s.got:
			if m.Type != tclunk {
				t.Fatalf("the client sent %v", m.Type)
			}
			return true
		default:
			runtime.Gosched()
			return false
		}
	})
	if err := s.in(func() error { _, err := root.Stat(t.Context()); return err }); err == nil {
		t.Fatal("no call")
	} else {
		s.answer(s.want(tgetattr), &message{})
		if err() != nil {
			t.Error("the root lost its fid")
		}
	}
}
