package ninep

import (
	"fmt"
	"testing"

	"agent9/fsys"
)

func TestReadAFile(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		_, addr := serveTree(t, fsys.NewTable(
			fsys.Entry{Name: "dir", Node: fsys.NewTable(fsys.Entry{Name: "hello", Node: fsys.Const("hello, world\n")})},
		))
		w := connect(t, addr, d, "")
		w.open(1, fsys.Read, "dir", "hello")
		if got := w.read(1, 0, 4096); got != "hello, world\n" {
			t.Errorf("read %q", got)
		}
		if got := w.read(1, 7, 3); got != "wor" {
			t.Errorf("read at 7: %q", got)
		}
		if got := w.read(1, 13, 100); got != "" {
			t.Errorf("read at the end: %q", got)
		}
		w.clunk(1)
		w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.BadHandle)
	})
}

func TestVersion(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(), func(s *Server) { s.MaxMsize = 1 << 16 })
	for _, c := range []struct {
		msize   uint32
		version string
		want    string
		agreed  uint32
	}{
		{8192, "9P2000", "9P2000", 8192},
		{8192, "9P2000.u", "9P2000", 8192},
		{8192, "9P2000.Lx", "9P2000", 8192},
		{8192, "9P2000.L", "9P2000.L", 8192},
		{8192, "9P2000.L.Google.7", "9P2000.L", 8192},
		{4096, "9P2000", "9P2000", 4096},
		{1 << 30, "9P2000", "9P2000", 1 << 16},
		{4095, "9P2000", "unknown", 4095}, // never more than the client said (version(5))
		{0, "9P2000.L", "unknown", 0},
		{8192, "9P1999", "unknown", 8192},
		{8192, "", "unknown", 8192},
	} {
		w := dial(t, addr)
		m := w.must(message{Type: tversion, Tag: noTag, Msize: c.msize, Version: c.version})
		if m.Version != c.want || m.Msize != c.agreed {
			t.Errorf("%q %d: got %q %d, want %q %d", c.version, c.msize, m.Version, m.Msize, c.want, c.agreed)
		}
		if c.want == "unknown" {
			w.fails(message{Type: tattach, Fid: 1, Afid: noFid}, fsys.Invalid)
			w.version(plan9, 8192) // still there, and one reply was all
			w.must(message{Type: tattach, Fid: 1, Afid: noFid})
		}
	}
}

func TestWalk(t *testing.T) {
	leaf := fsys.Const("x")
	root := fsys.NewTable(
		fsys.Entry{Name: "f", Node: leaf},
		fsys.Entry{Name: "a", Node: fsys.NewTable(
			fsys.Entry{Name: "b", Node: fsys.NewTable(fsys.Entry{Name: "f", Node: leaf})})},
	)
	both(t, func(t *testing.T, d dialect) {
		_, addr := serveTree(t, root)
		w := connect(t, addr, d, "")
		var next uint32 = 10
		for _, c := range []struct {
			names string
			got   int
			code  fsys.Code // if got is 0 and there are names
		}{
			{"[]", 0, 0}, {"[a b f]", 3, 0}, {"[a .. f]", 3, 0}, {"[.. .. a]", 3, 0},
			{"[a nothing f]", 1, 0}, {"[a b f f]", 3, 0}, {"[a b . f]", 2, 0},
			{"[nothing]", 0, fsys.NotExist}, {"[.]", 0, fsys.Invalid}, {"[a/b]", 0, fsys.Invalid},
			{"[x\x00]", 0, fsys.Invalid}, {"[" + string(make([]byte, 256)) + "]", 0, fsys.NameTooLong},
		} {
			var names []string
			if c.names != "[]" {
				names = fields(c.names)
			}
			next++
			m := w.rpc(message{Type: twalk, Fid: 0, NewFid: next, Names: names})
			if len(names) > 0 && c.got == 0 {
				if fsys.CodeOf(m.error()) != c.code || m.error() == nil {
					t.Errorf("%q: %v %s, want %v", c.names, m.Type, m.failure(), c.code)
				}
			} else if m.Type != rwalk || len(m.Qids) != c.got {
				t.Errorf("%q: %v with %d qids, want %d", c.names, m.Type, len(m.Qids), c.got)
			}
			if c.got == len(names) {
				w.clunk(next) // the new fid is there only after the whole way
			} else {
				w.fails(message{Type: tclunk, Fid: next}, fsys.BadHandle)
			}
		}
		w.fails(message{Type: twalk, Fid: 0, NewFid: next, Names: []string{""}}, fsys.Invalid)
	})
}

func fields(list string) (names []string) {
	var s string
	for _, r := range list[1:len(list)-1] + " " {
		if r == ' ' {
			names, s = append(names, s), ""
		} else {
			s += string(r)
		}
	}
	return names
}

func TestFidRules(t *testing.T) {
	both(t, func(t *testing.T, d dialect) {
		_, addr := serveTree(t, fsys.NewTable(
			fsys.Entry{Name: "f", Node: fsys.Const("x")},
			fsys.Entry{Name: "d", Node: fsys.NewTable(fsys.Entry{Name: "g", Node: fsys.Const("y")})},
		))
		w := connect(t, addr, d, "")
		w.walk(0, 1, "f")
		w.fails(message{Type: twalk, Fid: 0, NewFid: 1}, fsys.BadHandle)     // in use
		w.fails(message{Type: twalk, Fid: 9, NewFid: 2}, fsys.BadHandle)     // unknown
		w.fails(message{Type: twalk, Fid: 0, NewFid: noFid}, fsys.BadHandle) // not a fid
		w.fails(message{Type: tattach, Fid: 1, Afid: noFid}, fsys.BadHandle) // in use
		w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.BadHandle)      // not open
		w.must(openMessage(d, 1, fsys.Read))
		w.fails(openMessage(d, 1, fsys.Read), fsys.BadHandle)            // open already
		w.fails(message{Type: twalk, Fid: 1, NewFid: 1}, fsys.BadHandle) // open fids cannot be walked
		if open := (message{Type: twalk, Fid: 1, NewFid: 2}); d == plan9 {
			w.fails(open, fsys.BadHandle)
		} else {
			w.must(open)
			w.clunk(2)
		}
		w.fails(message{Type: twrite, Fid: 1, Data: []byte("x")}, fsys.BadHandle) // open for reading
		w.clunk(1)
		w.walk(0, 1, "d")
		w.walk(1, 1, "g") // newfid equal to fid
		w.must(openMessage(d, 1, fsys.Read))
		if got := w.read(1, 0, 10); got != "y" {
			t.Errorf("read %q", got)
		}
		w.walk(0, 2, "d")
		w.fails(message{Type: twalk, Fid: 2, NewFid: 2, Names: []string{"nothing"}}, fsys.NotExist)
		w.walk(2, 3, "g") // a walk that failed left fid where it was
		w.fails(openMessage(d, 3, fsys.Write), fsys.Permission)
		w.must(openMessage(d, 3, fsys.Read)) // a failed open left it unopened
	})
}

func TestTooManyFids(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(), func(s *Server) { s.MaxFids = 3 })
	w := connect(t, addr, linux, "")
	w.walk(0, 1)
	w.walk(0, 2)
	w.fails(message{Type: twalk, Fid: 0, NewFid: 3}, fsys.Busy)
	w.clunk(1)
	w.walk(0, 3)
}

func TestSessionReset(t *testing.T) {
	sp := newSpy(fsys.Stream)
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Read, "s")
	w.send(message{Type: tread, Fid: 1, Count: 10})
	await(t, sp.began, "the read to begin")
	w.version(plan9, 8192) // the read is not answered, before or after
	await(t, sp.closed, "the handle to be closed")
	if len(sp.synced) > 0 {
		t.Error("a reset is not an orderly clunk")
	}
	w.fails(message{Type: tclunk, Fid: 1}, fsys.BadHandle)
	w.must(message{Type: tattach, Fid: 1, Afid: noFid})
}

func TestTauthIsRefused(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable())
	w := connect(t, addr, plan9, "")
	if m := w.rpc(message{Type: tauth, Afid: 5}); m.Type != rerror || m.Ename != "authentication not required" {
		t.Errorf("9P2000: %v %q", m.Type, m.Ename)
	}
	w = connect(t, addr, linux, "")
	if m := w.rpc(message{Type: tauth, Afid: 5}); m.Type != rlerror || m.Ecode != 2 {
		t.Errorf("9P2000.L: %v %d", m.Type, m.Ecode)
	}
	w.fails(message{Type: tattach, Fid: 7, Afid: 5}, fsys.NotExist) // with an afid that cannot be
}

func TestQids(t *testing.T) {
	d := newDisk()
	root := fsys.NewTable(fsys.Entry{Name: "disk", Node: d}, fsys.Entry{Name: "disk2", Node: newDisk()})
	_, addr := serveTree(t, root)
	w := connect(t, addr, linux, "")
	seen := map[uint64]string{}
	qidOf := func(names ...string) qid {
		w.walk(0, 1, names...)
		defer w.clunk(1)
		return w.must(message{Type: tgetattr, Fid: 1, Valid: getBasic}).Qid
	}
	make := func(dir, name string) qid {
		w.walk(0, 1, dir)
		defer w.clunk(1)
		return w.must(message{Type: tlcreate, Fid: 1, Name: name, Flags: 1, Mode: 0o644}).Qid
	}
	first := make("disk", "a")
	for _, p := range [][]string{{}, {"disk"}, {"disk2"}, {"disk", "a"}} {
		q := qidOf(p...)
		if q.Path >= 1<<56 || seen[q.Path] != "" {
			t.Errorf("%v has path %#x, also of %v", p, q.Path, seen[q.Path])
		}
		seen[q.Path] = fmt.Sprint(p)
		if again := qidOf(p...); again != q {
			t.Errorf("%v: %v, then %v", p, q, again)
		}
	}
	if q := make("disk2", "a"); q.Path == first.Path {
		t.Error("two files share a qid path")
	}
	if q := connect(t, addr, plan9, "").walk(0, 1, "disk", "a").Qids[1]; q.Path != first.Path {
		t.Error("another connection is given another path for the same file")
	}
	w.open(1, fsys.Write, "disk", "a")
	w.must(message{Type: twrite, Fid: 1, Data: []byte("x")})
	w.clunk(1)
	if q := qidOf("disk", "a"); q.Version == first.Version || q.Path != first.Path {
		t.Errorf("after a write: %v, before %v", q, first)
	}
	w.walk(0, 1, "disk")
	w.must(message{Type: tunlinkat, DirFid: 1, Name: "a"})
	w.clunk(1)
	if q := make("disk", "a"); q.Path == first.Path {
		t.Error("a new file was given the path of one that bore its name")
	}
}
