package ninep

import (
	"context"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
)

// onDisk connects to a server of an empty disk; fid 0 is its root.
func onDisk(t *testing.T, d dialect) (*wire, *disk) {
	dk := newDisk()
	_, addr := serveTree(t, dk)
	return connect(t, addr, d, ""), dk
}

func (d *disk) file(t *testing.T, name string) *diskFile {
	t.Helper()
	n, err := d.Walk(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n.(*diskFile)
}

func TestCreate(t *testing.T) {
	w, d := onDisk(t, plan9)
	w.walk(0, 1)
	m := w.must(message{Type: tcreate, Fid: 1, Name: "f", Perm: 0o666, Mode: oWrite})
	if m.Qid.Type != qtFile || m.Iounit != 8192-ioHeader {
		t.Errorf("Rcreate %+v", m)
	}
	w.must(message{Type: twrite, Fid: 1, Data: []byte("hello")})
	w.clunk(1)
	f := d.file(t, "f")
	if string(f.b) != "hello" || f.perm != 0o644 { // the directory is 0755
		t.Errorf("%q %o", f.b, f.perm)
	}
	w.walk(0, 1)
	w.fails(message{Type: tcreate, Fid: 1, Name: "f", Perm: 0o666, Mode: oWrite}, fsys.Exist)
	w.fails(message{Type: tcreate, Fid: 1, Name: ".", Mode: oWrite}, fsys.Invalid)
	w.fails(message{Type: tcreate, Fid: 1, Name: "a/b", Mode: oWrite}, fsys.Invalid)
	w.fails(message{Type: tcreate, Fid: 1, Name: "x", Perm: dmExcl | 0o666, Mode: oWrite}, fsys.Unsupported)
	w.fails(message{Type: tcreate, Fid: 1, Name: "x", Perm: dmDir | 0o777, Mode: oWrite}, fsys.IsDir)
	m = w.must(message{Type: tcreate, Fid: 1, Name: "dir", Perm: dmDir | 0o777, Mode: oRead})
	if m.Qid.Type != qtDir {
		t.Errorf("mkdir: qid %+v", m.Qid)
	}
	if got := w.read(1, 0, 1000); got != "" { // it is open, and empty
		t.Errorf("a new directory reads %q", got)
	}
	w.walk(0, 2, "dir")
	w.must(message{Type: tcreate, Fid: 2, Name: "g", Perm: dmAppend | 0o600, Mode: oWrite})
	for range 2 {
		w.must(message{Type: twrite, Fid: 2, Data: []byte("x")})
	}
	w.walk(0, 3, "dir", "g")
	if m := w.must(message{Type: tstat, Fid: 3}); m.Stat.Length != 2 {
		t.Errorf("appended to %d bytes", m.Stat.Length)
	}
	w.walk(0, 4, "f")
	w.fails(message{Type: tcreate, Fid: 4, Name: "x", Perm: 0o600, Mode: oWrite}, fsys.NotDir)
}

func TestOpenModes(t *testing.T) {
	w, d := onDisk(t, plan9)
	_, h, err := d.Create(t.Context(), "f", 0o644, fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	fsys.WriteAt(t.Context(), h, []byte("old"), 0)
	w.walk(0, 1, "f")
	w.fails(message{Type: topen, Fid: 1, Mode: 0x80}, fsys.Invalid)
	w.must(message{Type: topen, Fid: 1, Mode: oWrite | oTrunc})
	w.fails(message{Type: tread, Fid: 1, Count: 1}, fsys.BadHandle)
	if b := d.file(t, "f").b; len(b) > 0 {
		t.Errorf("after OTRUNC: %q", b)
	}
	w.clunk(1)
	w.fails(openMessage(plan9, 0, fsys.Write), fsys.IsDir)
	w.walk(0, 1, "f")
	w.must(message{Type: topen, Fid: 1, Mode: oExec})
	w.fails(message{Type: twrite, Fid: 1, Data: []byte("x")}, fsys.BadHandle)
	w.clunk(1)
	w.walk(0, 1, "f")
	w.must(message{Type: topen, Fid: 1, Mode: oRead | oRclose})
	w.clunk(1)
	w.fails(message{Type: twalk, Fid: 0, NewFid: 1, Names: []string{"f"}}, fsys.NotExist)
}

// A file that is to be removed when it is closed goes with its connection too.
func TestRemoveOnCloseAtHangUp(t *testing.T) {
	d := newDisk()
	s, addr := serveTree(t, d)
	w := connect(t, addr, plan9, "")
	w.walk(0, 1)
	w.must(message{Type: tcreate, Fid: 1, Name: "tmp", Perm: 0o600, Mode: oRdWr | oRclose})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if list, _ := d.List(ctx); len(list) > 0 {
		t.Errorf("%s is still there", list[0].Name)
	}
}

func TestRemove(t *testing.T) {
	both(t, func(t *testing.T, dia dialect) {
		w, d := onDisk(t, dia)
		for _, name := range []string{"f", "g"} {
			if _, _, err := d.Create(t.Context(), name, 0o644, fsys.Write); err != nil {
				t.Fatal(err)
			}
		}
		w.open(1, fsys.Write, "f")
		w.walk(0, 2, "f")
		w.must(message{Type: tremove, Fid: 2}) // open elsewhere
		w.fails(message{Type: tclunk, Fid: 2}, fsys.BadHandle)
		w.must(message{Type: twrite, Fid: 1, Data: []byte("x")})
		w.fails(message{Type: tremove, Fid: 1}, fsys.NotExist)
		w.fails(message{Type: tclunk, Fid: 1}, fsys.BadHandle) // clunked although it failed
		w.walk(0, 3)
		w.fails(message{Type: tremove, Fid: 3}, fsys.Permission)
		w.open(4, fsys.Read, "g")
		w.must(message{Type: tremove, Fid: 4})
	})
}

func TestStat(t *testing.T) {
	w, d := onDisk(t, plan9)
	d.files["s"] = fsys.NewTape(new(fsys.Memory))
	d.files["m"] = &fsys.Call{}
	if _, _, err := d.Create(t.Context(), "f", 0o640, fsys.Write); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]uint32{
		"": dmDir | 0o755, "f": 0o640, "s": dmAppend | 0o444, "m": dmTmp | 0o666,
	} {
		var m message
		if name == "" {
			m, name = w.must(message{Type: tstat, Fid: 0}), "/"
		} else {
			w.walk(0, 1, name)
			m = w.must(message{Type: tstat, Fid: 1})
			w.clunk(1)
		}
		st := m.Stat
		if st.Name != name || st.Mode != mode || uint32(st.Qid.Type)<<24 != mode&^0o777 || st.UID != "glenda" || st.Mtime == 0 {
			t.Errorf("%s: %+v, want mode %o", name, st, mode)
		}
	}
}

func TestWstat(t *testing.T) {
	w, d := onDisk(t, plan9)
	_, h, err := d.Create(t.Context(), "f", 0o644, fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	fsys.WriteAt(t.Context(), h, []byte("content"), 0)
	f := d.file(t, "f")
	w.walk(0, 1, "f")
	set := func(edit func(*dir)) message {
		m := message{Type: twstat, Fid: 1, Stat: keepDir()}
		edit(&m.Stat)
		return m
	}
	w.must(set(func(d *dir) { d.Length = 3 }))
	w.must(set(func(d *dir) { d.Mode = 0o600; d.Mtime = 77; d.Atime = 99 }))
	if string(f.b) != "con" || f.perm != 0o600 || !f.mtime.Equal(time.Unix(77, 0)) {
		t.Errorf("%q %o %v", f.b, f.perm, f.mtime)
	}
	// Several fields at once, one of them impossible: nothing changes.
	for what, m := range map[string]message{
		"another owner":       set(func(d *dir) { d.Length = 0; d.UID = "rob" }),
		"a name with a slash": set(func(d *dir) { d.Length = 0; d.Name = "a/b" }),
		"to a directory":      set(func(d *dir) { d.Length = 0; d.Mode = dmDir | 0o700 }),
		"another qid":         set(func(d *dir) { d.Length = 0; d.Qid.Path = 5 }),
		"an endless length":   set(func(d *dir) { d.Mode = 0o777; d.Length = 1 << 63 }),
	} {
		if got := w.rpc(m); got.Type != rerror {
			t.Errorf("%s: %v", what, got.Type)
		}
		if string(f.b) != "con" || f.perm != 0o600 || f.name != "f" {
			t.Errorf("%s was refused, but: %q %o %s", what, f.b, f.perm, f.name)
		}
	}
	f.full = true // the service refuses the second change: the first is put back
	w.fails(set(func(d *dir) { d.Mode = 0o777; d.Length = 1000 }), fsys.NoSpace)
	if f.perm != 0o600 {
		t.Errorf("mode is %o after the failure", f.perm)
	}
	w.must(set(func(d *dir) { d.Name = "g" }))
	if m := w.must(message{Type: tstat, Fid: 1}); m.Stat.Name != "g" {
		t.Errorf("after the rename the fid is called %q", m.Stat.Name)
	}
	w.walk(0, 2, "g")
	w.must(set(func(d *dir) { d.Name = "f" })) // and again, from the new name
	w.walk(0, 3, "f")
	root := message{Type: twstat, Fid: 0, Stat: keepDir()}
	root.Stat.Name = "x"
	w.fails(root, fsys.Permission)
	root.Stat = keepDir()
	root.Stat.Length = 0
	w.fails(root, fsys.IsDir)
}

// What a shell's > sends through v9fs and 9pfuse to a file that is not stored.
func TestWstatTruncatesMessages(t *testing.T) {
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "rpc", Node: &fsys.Call{}}))
	w := connect(t, addr, plan9, "")
	w.walk(0, 1, "rpc")
	m := message{Type: twstat, Fid: 1, Stat: keepDir()}
	m.Stat.Length = 0
	w.must(m)
	m.Stat.Mtime = 5
	w.must(m)
	m.Stat.Mode = 0o600
	w.fails(m, fsys.Unsupported)
}

// mv over a file arrives as Twstat(name), and replaces it.
func TestWstatReplaces(t *testing.T) {
	w, d := onDisk(t, plan9)
	for _, name := range []string{"old", "new"} {
		_, h, err := d.Create(t.Context(), name, 0o644, fsys.Write)
		if err != nil {
			t.Fatal(err)
		}
		fsys.WriteAt(t.Context(), h, []byte(name), 0)
	}
	w.walk(0, 1, "new")
	m := message{Type: twstat, Fid: 1, Stat: keepDir()}
	m.Stat.Name = "old"
	w.must(m)
	if b := d.file(t, "old").b; string(b) != "new" {
		t.Errorf("old holds %q", b)
	}
}

func TestWstatSyncs(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.syncErr = fsys.Invalid
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, plan9, "")
	w.open(1, fsys.Write, "s")
	w.fails(message{Type: twstat, Fid: 1, Stat: keepDir()}, fsys.Invalid)
	if len(sp.synced) != 1 || len(sp.closed) != 0 {
		t.Errorf("%d synced, %d closed", len(sp.synced), len(sp.closed))
	}
}

func TestReadDirectory(t *testing.T) {
	w, d := onDisk(t, plan9)
	var want []string
	for i := range 100 {
		name := strings.Repeat("n", 1+i%200) + string(rune('a'+i%26))
		if _, _, err := d.Create(t.Context(), name, 0o644, fsys.Write); err == nil {
			want = append(want, name)
		}
	}
	w.walk(0, 1)
	w.must(openMessage(plan9, 1, fsys.Read))
	list := func(count uint32) (names []string, offsets []uint64) {
		var off uint64
		for {
			m := w.must(message{Type: tread, Fid: 1, Offset: off, Count: count})
			if len(m.Data) == 0 {
				return names, offsets
			}
			if len(m.Data) > int(count) {
				t.Fatalf("%d bytes for a count of %d", len(m.Data), count)
			}
			offsets = append(offsets, off)
			off += uint64(len(m.Data))
			for rest := m.Data; len(rest) > 0; {
				var e dir
				var err error
				if rest, err = decodeDir(rest, &e); err != nil {
					t.Fatalf("half an entry: %v", err)
				}
				names = append(names, e.Name)
			}
		}
	}
	for _, count := range []uint32{300, 1000, 8000} {
		if names, _ := list(count); len(names) != len(want) {
			t.Errorf("count %d: %d names, want %d", count, len(names), len(want))
		}
	}
	_, offsets := list(1000)
	w.fails(message{Type: tread, Fid: 1, Offset: offsets[1] + 1, Count: 1000}, fsys.Invalid)
	w.fails(message{Type: tread, Fid: 1, Offset: 0, Count: 20}, fsys.Invalid) // too small for one

	// One listing is one snapshot.
	w.must(message{Type: tread, Fid: 1, Offset: 0, Count: 300})
	if _, _, err := d.Create(t.Context(), "0-before-all", 0o644, fsys.Write); err != nil {
		t.Fatal(err)
	}
	rest := w.must(message{Type: tread, Fid: 1, Offset: offsetAfter(t, w, 300), Count: 8000})
	if strings.Contains(string(rest.Data), "0-before-all") {
		t.Error("a directory changed while it was read")
	}
	if names, _ := list(8000); names[0] != "0-before-all" {
		t.Errorf("read from 0 again it begins with %s", names[0])
	}
}

// offsetAfter reads the beginning of fid 1 again and returns where it ended.
func offsetAfter(t *testing.T, w *wire, count uint32) uint64 {
	t.Helper()
	return uint64(len(w.must(message{Type: tread, Fid: 1, Offset: 0, Count: count}).Data))
}
