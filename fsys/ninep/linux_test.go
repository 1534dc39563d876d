package ninep

import (
	"fmt"
	"math"
	"testing"
	"time"

	"agent9/fsys"
)

func (d *disk) add(t *testing.T, name, content string) *diskFile {
	t.Helper()
	n, h, err := d.Create(t.Context(), name, 0o644, fsys.Write)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.WriteAt(t.Context(), h, []byte(content), 0); err != nil {
		t.Fatal(err)
	}
	return n.(*diskFile)
}

func TestLinuxOpen(t *testing.T) {
	w, d := onDisk(t, linux)
	f := d.add(t, "f", "old")
	open := func(flags uint32) message {
		w.walk(0, 1, "f")
		return message{Type: tlopen, Fid: 1, Flags: flags}
	}
	w.fails(open(lDirectory), fsys.NotDir)
	w.clunk(1)
	w.fails(open(3), fsys.Invalid)
	w.clunk(1)
	m := w.must(open(1 | lAppend | 0o104000)) // O_LARGEFILE, O_NONBLOCK
	if m.Iounit != 8192-ioHeader {
		t.Errorf("iounit %d", m.Iounit)
	}
	w.must(message{Type: twrite, Fid: 1, Data: []byte("+new")}) // at offset 0
	w.clunk(1)
	if string(f.b) != "old+new" {
		t.Errorf("appended: %q", f.b)
	}
	w.must(open(lTrunc)) // O_RDONLY|O_TRUNC truncates too
	w.clunk(1)
	if len(f.b) != 0 {
		t.Errorf("truncated: %q", f.b)
	}
	w.fails(message{Type: tlopen, Fid: 0, Flags: 2}, fsys.IsDir)
	w.fails(message{Type: topen, Fid: 0}, fsys.Unsupported) // of the other dialect
	w.must(message{Type: tlopen, Fid: 0, Flags: lDirectory})
	w.fails(message{Type: tread, Fid: 0, Count: 100}, fsys.IsDir)
}

func TestLinuxCreate(t *testing.T) {
	w, d := onDisk(t, linux)
	create := func(name string, flags uint32) message {
		w.walk(0, 1)
		return message{Type: tlcreate, Fid: 1, Name: name, Flags: flags, Mode: 0o100640}
	}
	w.must(create("f", 1|lCreate|lExcl))
	w.must(message{Type: twrite, Fid: 1, Data: []byte("x")})
	w.clunk(1)
	if f := d.file(t, "f"); f.perm != 0o640 || string(f.b) != "x" {
		t.Errorf("%o %q", f.perm, f.b)
	}
	w.fails(create("f", 1|lCreate|lExcl), fsys.Exist)
	w.clunk(1)
	w.must(create("f", 2|lCreate)) // without O_EXCL it is opened
	if got := w.read(1, 0, 9); got != "x" {
		t.Errorf("read %q", got)
	}
	w.clunk(1)
	w.fails(create("..", 1), fsys.Invalid)
	w.clunk(1)

	m := w.must(message{Type: tmkdir, DirFid: 0, Name: "dir", Mode: 0o755})
	if m.Qid.Type != qtDir {
		t.Errorf("mkdir: %+v", m.Qid)
	}
	w.fails(message{Type: tmkdir, DirFid: 0, Name: "dir", Mode: 0o755}, fsys.Exist)
	w.walk(0, 1, "f")
	w.fails(message{Type: tmkdir, DirFid: 1, Name: "x", Mode: 0o755}, fsys.NotDir)
}

func TestGetattr(t *testing.T) {
	w, d := onDisk(t, linux)
	f := d.add(t, "f", "12345")
	d.files["s"] = fsys.NewTape(new(fsys.Memory))
	w.walk(0, 1, "f")
	m := w.must(message{Type: tgetattr, Fid: 1, Valid: math.MaxUint64})
	a := m.Attr
	if m.Valid != getBasic|getGen|getVers || a.Mode != modeFile|0o644 || a.Size != 5 || a.Nlink != 1 ||
		a.MtimeSec != 1000 || a.CtimeSec != 1000 || a.Blocks != 1 || a.Blksize == 0 || a.UID != 1000 || a.GID != 1000 ||
		a.Generation != f.gen {
		t.Errorf("%#x %+v", m.Valid, a)
	}
	w.must(openMessage(linux, 1, fsys.Write))
	w.must(message{Type: twrite, Fid: 1, Offset: 5, Data: []byte("6")})
	if m := w.must(message{Type: tgetattr, Fid: 1, Valid: getBasic}); m.Attr.Size != 6 || m.Valid != getBasic {
		t.Errorf("of the open fid after a write: size %d", m.Attr.Size)
	}
	if m := w.must(message{Type: tgetattr, Fid: 0, Valid: getBasic}); m.Attr.Mode != modeDir|0o755 || m.Qid.Type != qtDir {
		t.Errorf("directory: %o", m.Attr.Mode)
	}
	w.walk(0, 2, "s")
	if m := w.must(message{Type: tgetattr, Fid: 2, Valid: getBasic}); m.Attr.Mode != modeFile|0o444 || m.Qid.Type != qtAppend || m.Attr.MtimeSec == 0 {
		t.Errorf("stream: %o %+v", m.Attr.Mode, m.Qid)
	}
	if m := w.must(message{Type: tstatfs, Fid: 0}); m.Statfs.Type != 0x6969 || m.Statfs.NameLen != 255 || m.Statfs.Bsize == 0 {
		t.Errorf("statfs: %+v", m.Statfs)
	}
}

func TestSetattr(t *testing.T) {
	w, d := onDisk(t, linux)
	f := d.add(t, "f", "12345")
	d.files["rpc"] = &fsys.Call{}
	w.walk(0, 1, "f")
	set := func(valid uint64, s setAttr) message {
		return message{Type: tsetattr, Fid: 1, Valid: valid, Set: s}
	}
	w.must(set(setSize|setMtime|setCtime, setAttr{Size: 2}))
	if string(f.b) != "12" || f.mtime != time.Unix(1000, 0) {
		t.Errorf("truncated to %q, mtime %v", f.b, f.mtime)
	}
	w.must(set(setMode|setMtime|setMtimeTo, setAttr{Mode: modeFile | 0o600, MtimeSec: 5, MtimeNsec: 6}))
	if f.perm != 0o600 || !f.mtime.Equal(time.Unix(5, 6)) {
		t.Errorf("mode %o, mtime %v", f.perm, f.mtime)
	}
	before := time.Now()
	w.must(set(setMtime|setAtime, setAttr{}))
	if f.mtime.Before(before) {
		t.Errorf("touched: mtime %v", f.mtime)
	}
	w.must(set(setUID|setGID|setAtime|setAtimeTo, setAttr{UID: 1000, GID: 1000})) // the same as it is
	w.fails(set(setUID, setAttr{UID: 0}), fsys.Unsupported)
	w.fails(set(setMode, setAttr{Mode: 0o4755}), fsys.Unsupported)
	w.fails(set(setSize, setAttr{Size: math.MaxUint64}), fsys.TooLarge)
	f.full = true
	w.fails(set(setMode|setSize, setAttr{Mode: 0o777}), fsys.NoSpace)
	if f.perm != 0o600 {
		t.Errorf("mode %o after a setattr that failed", f.perm)
	}
	w.fails(message{Type: tsetattr, Fid: 0, Valid: setSize}, fsys.IsDir)
	w.walk(0, 2, "rpc") // what a shell's > sends
	w.must(message{Type: tsetattr, Fid: 2, Valid: setSize | setMtime | setCtime})
	w.fails(message{Type: tsetattr, Fid: 2, Valid: setMode, Set: setAttr{Mode: 0o600}}, fsys.Unsupported)
}

func TestReaddir(t *testing.T) {
	w, d := onDisk(t, linux)
	for i := range 50 {
		d.add(t, fmt.Sprintf("file%02d", i), "")
	}
	w.must(message{Type: tmkdir, DirFid: 0, Name: "dir", Mode: 0o755})
	w.walk(0, 1)
	w.must(openMessage(linux, 1, fsys.Read))
	list := func(off uint64, count uint32) (all []dirent) {
		for {
			m := w.must(message{Type: treaddir, Fid: 1, Offset: off, Count: count})
			if len(m.Data) == 0 {
				return all
			}
			if len(m.Data) > int(count) {
				t.Fatalf("%d bytes for a count of %d", len(m.Data), count)
			}
			for rest := m.Data; len(rest) > 0; {
				var e dirent
				var err error
				if rest, err = decodeDirent(rest, &e); err != nil {
					t.Fatalf("half an entry: %v", err)
				}
				all, off = append(all, e), e.Offset
			}
		}
	}
	all := list(0, 100)
	if len(all) != 51 || all[0].Name != "dir" || all[50].Name != "file49" {
		t.Fatalf("%d entries: %+v", len(all), all)
	}
	if all[0].Type != 4 || all[1].Type != 8 || all[0].Qid.Type != qtDir {
		t.Errorf("types: %+v, %+v", all[0], all[1])
	}
	for _, i := range []int{1, 20, 50} { // from the offset of any entry
		if got := list(all[i-1].Offset, 8000); len(got) != 51-i || got[0] != all[i] {
			t.Errorf("from entry %d: %d entries", i, len(got))
		}
	}
	for _, e := range all { // the qids are those of a walk
		if q := w.walk(0, 9, e.Name).Qids[0]; q.Path != e.Qid.Path {
			t.Errorf("%s: %v here, %v there", e.Name, e.Qid, q)
		}
		w.clunk(9)
	}
	w.fails(message{Type: treaddir, Fid: 1, Offset: 52, Count: 100}, fsys.Invalid)
	w.fails(message{Type: treaddir, Fid: 1, Offset: 0, Count: 10}, fsys.Invalid)
	w.open(2, fsys.Read, "file00")
	w.fails(message{Type: treaddir, Fid: 2, Count: 100}, fsys.NotDir)
	w.fails(message{Type: treaddir, Fid: 0, Count: 100}, fsys.BadHandle)
}

func TestRenameAndUnlink(t *testing.T) {
	w, d := onDisk(t, linux)
	d.add(t, "a", "A")
	d.add(t, "b", "B")
	w.must(message{Type: tmkdir, DirFid: 0, Name: "dir", Mode: 0o755})
	w.walk(0, 1, "dir")
	w.fails(message{Type: trenameat, Fid: 0, Name: "a", DirFid: 1, NewName: "a"}, fsys.CrossDir)
	w.fails(message{Type: trenameat, Fid: 0, Name: "x", DirFid: 0, NewName: "y"}, fsys.NotExist)
	w.fails(message{Type: trenameat, Fid: 0, Name: "a", DirFid: 0, NewName: "y/z"}, fsys.Invalid)
	w.walk(0, 2) // the same directory by another fid
	w.must(message{Type: trenameat, Fid: 0, Name: "a", DirFid: 2, NewName: "b"})
	if f := d.file(t, "b"); string(f.b) != "A" {
		t.Errorf("b holds %q", f.b)
	}
	w.walk(0, 3, "b")
	w.fails(message{Type: trename, Fid: 3, DirFid: 1, Name: "c"}, fsys.CrossDir)
	w.fails(message{Type: trename, Fid: 0, DirFid: 1, Name: "c"}, fsys.Permission)
	w.must(message{Type: trename, Fid: 3, DirFid: 0, Name: "c"})
	w.must(message{Type: trename, Fid: 3, DirFid: 0, Name: "d"}) // by its new name

	const removeDir = 0x200
	w.fails(message{Type: tunlinkat, DirFid: 0, Name: "dir"}, fsys.IsDir)
	w.fails(message{Type: tunlinkat, DirFid: 0, Name: "d", Flags: removeDir}, fsys.NotDir)
	w.fails(message{Type: tunlinkat, DirFid: 0, Name: "nothing"}, fsys.NotExist)
	w.fails(message{Type: tunlinkat, DirFid: 0, Name: ".."}, fsys.Invalid)
	w.open(4, fsys.Read, "d")
	w.must(message{Type: tunlinkat, DirFid: 0, Name: "d"}) // although it is open
	if got := w.read(4, 0, 9); got != "A" {
		t.Errorf("the removed file reads %q", got)
	}
	w.must(message{Type: tmkdir, DirFid: 1, Name: "sub", Mode: 0o755})
	w.fails(message{Type: tunlinkat, DirFid: 0, Name: "dir", Flags: removeDir}, fsys.NotEmpty)
	w.must(message{Type: tunlinkat, DirFid: 1, Name: "sub", Flags: removeDir})
	w.must(message{Type: tunlinkat, DirFid: 0, Name: "dir", Flags: removeDir})
}

func TestWhatIsNotThere(t *testing.T) {
	w, d := onDisk(t, linux)
	d.add(t, "f", "")
	w.walk(0, 1, "f")
	w.fails(message{Type: tsymlink, DirFid: 0, Name: "l", Target: "f"}, fsys.Unsupported)
	w.fails(message{Type: tlink, DirFid: 0, Fid: 1, Name: "l"}, fsys.Unsupported)
	w.fails(message{Type: tmknod, DirFid: 0, Name: "n", Mode: 0o020666}, fsys.Unsupported)
	w.fails(message{Type: treadlink, Fid: 1}, fsys.Invalid)
	w.fails(message{Type: txattrcreate, Fid: 1, Name: "user.x", Size: 1}, fsys.Unsupported)
	if m := w.rpc(message{Type: txattrwalk, Fid: 1, NewFid: 2, Name: "security.capability"}); m.Type != rlerror || m.Ecode != 61 {
		t.Errorf("an attribute: %v %d, want ENODATA", m.Type, m.Ecode)
	}
	w.fails(message{Type: tclunk, Fid: 2}, fsys.BadHandle)
	if m := w.must(message{Type: txattrwalk, Fid: 1, NewFid: 2}); m.Size != 0 {
		t.Errorf("the list has %d bytes", m.Size)
	}
	if got := w.read(2, 0, 100); got != "" {
		t.Errorf("the list reads %q", got)
	}
	w.clunk(2)
}

func TestFsync(t *testing.T) {
	sp := newSpy(fsys.Message)
	sp.syncErr = fsys.Busy
	_, addr := serveTree(t, fsys.NewTable(fsys.Entry{Name: "s", Node: sp}))
	w := connect(t, addr, linux, "")
	w.open(1, fsys.Write, "s")
	w.fails(message{Type: tfsync, Fid: 1}, fsys.Busy)
	if len(sp.synced) != 1 || len(sp.closed) != 0 {
		t.Errorf("%d synced, %d closed", len(sp.synced), len(sp.closed))
	}
	w.fails(message{Type: tfsync, Fid: 0}, fsys.BadHandle)
}
