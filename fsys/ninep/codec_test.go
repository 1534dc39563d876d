package ninep

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"agent9/fsys"
)

// samples has a message of every type, with a different value in each field.
func samples() map[dialect][]message {
	q := qid{Type: qtDir, Version: 7, Path: 1<<55 + 9}
	d := dir{1, 2, q, dmDir | 0o755, 3, 4, 5, "name", "u", "g", "m"}
	lock := lockRange{1, 2, 3, 4, "client"}
	both := []message{
		{Type: tversion, Msize: 8192, Version: "9P2000"},
		{Type: rversion, Msize: 8192, Version: "9P2000"},
		{Type: tauth, Afid: 1, Uname: "u", Aname: "a", NUname: noUID},
		{Type: rauth, Qid: q},
		{Type: tattach, Fid: 1, Afid: noFid, Uname: "u", Aname: "/a", NUname: noUID},
		{Type: rattach, Qid: q},
		{Type: tflush, OldTag: 77},
		{Type: rflush},
		{Type: twalk, Fid: 1, NewFid: 2, Names: []string{"a", "..", "日本"}},
		{Type: twalk, Fid: 1, NewFid: 2, Names: []string{}},
		{Type: rwalk, Qids: []qid{q, {}, q}},
		{Type: tread, Fid: 1, Offset: 1 << 40, Count: 2},
		{Type: rread, Data: []byte("data")},
		{Type: twrite, Fid: 1, Offset: 1 << 40, Data: []byte("data")},
		{Type: rwrite, Count: 4},
		{Type: tclunk, Fid: 1}, {Type: rclunk},
		{Type: tremove, Fid: 1}, {Type: rremove},
	}
	return map[dialect][]message{
		plan9: append([]message{
			{Type: rerror, Ename: "permission denied"},
			{Type: topen, Fid: 1, Mode: 0x11}, {Type: ropen, Qid: q, Iounit: 8168},
			{Type: tcreate, Fid: 1, Name: "n", Perm: dmDir | 0o755, Mode: 1},
			{Type: rcreate, Qid: q, Iounit: 8168},
			{Type: tstat, Fid: 1}, {Type: rstat, Stat: d},
			{Type: twstat, Fid: 1, Stat: keepDir()}, {Type: rwstat},
		}, both...),
		linux: append([]message{
			{Type: rlerror, Ecode: 2},
			{Type: tattach, Fid: 1, Afid: noFid, Uname: "u", Aname: "/a", NUname: 1000},
			{Type: tstatfs, Fid: 1}, {Type: rstatfs, Statfs: statfs{1, 2, 3, 4, 5, 6, 7, 8, 9}},
			{Type: tlopen, Fid: 1, Flags: 0o1002}, {Type: rlopen, Qid: q, Iounit: 1},
			{Type: tlcreate, Fid: 1, Name: "n", Flags: 2, Mode: 3, Gid: 4}, {Type: rlcreate, Qid: q, Iounit: 1},
			{Type: tsymlink, DirFid: 1, Name: "n", Target: "t", Gid: 2}, {Type: rsymlink, Qid: q},
			{Type: tmknod, DirFid: 1, Name: "n", Mode: 2, Major: 3, Minor: 4, Gid: 5}, {Type: rmknod, Qid: q},
			{Type: trename, Fid: 1, DirFid: 2, Name: "n"}, {Type: rrename},
			{Type: treadlink, Fid: 1}, {Type: rreadlink, Target: "t"},
			{Type: tgetattr, Fid: 1, Valid: getBasic},
			{Type: rgetattr, Valid: getBasic, Qid: q, Attr: attr{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}},
			{Type: tsetattr, Fid: 1, Valid: setSize, Set: setAttr{1, 2, 3, 4, 5, 6, 7, 8}}, {Type: rsetattr},
			{Type: txattrwalk, Fid: 1, NewFid: 2, Name: "n"}, {Type: rxattrwalk, Size: 3},
			{Type: txattrcreate, Fid: 1, Name: "n", Size: 2, Flags: 3}, {Type: rxattrcreate},
			{Type: treaddir, Fid: 1, Offset: 2, Count: 3}, {Type: rreaddir, Data: []byte("x")},
			{Type: tfsync, Fid: 1, Sync: 1}, {Type: rfsync},
			{Type: tlock, Fid: 1, Flags: 1, Lock: lock}, {Type: rlock, Status: 2},
			{Type: tgetlock, Fid: 1, Lock: lock}, {Type: rgetlock, Lock: lock},
			{Type: tlink, DirFid: 1, Fid: 2, Name: "n"}, {Type: rlink},
			{Type: tmkdir, DirFid: 1, Name: "n", Mode: 2, Gid: 3}, {Type: rmkdir, Qid: q},
			{Type: trenameat, Fid: 1, Name: "n", DirFid: 2, NewName: "m"}, {Type: rrenameat},
			{Type: tunlinkat, DirFid: 1, Name: "n", Flags: 0x200}, {Type: runlinkat},
		}, both...),
	}
}

func encode(t testing.TB, d dialect, m *message) []byte {
	t.Helper()
	b, err := appendMessage(nil, d, m)
	if err != nil {
		t.Fatalf("%v %v: encode: %v", d, m.Type, err)
	}
	return b
}

// same compares two messages by what is in them, not by whose memory it is.
func same(a, b message) bool {
	a.names, a.qids, b.names, b.qids = message{}.names, message{}.qids, message{}.names, message{}.qids
	return reflect.DeepEqual(a, b)
}

func TestEveryMessageComesBack(t *testing.T) {
	for d, list := range samples() {
		seen := map[messageType]bool{}
		for _, m := range list {
			m.Tag = 0x1234
			seen[m.Type] = true
			var got message
			if err := decodeMessage(encode(t, d, &m), d, &got); err != nil {
				t.Errorf("%v %v: decode: %v", d, m.Type, err)
			} else if !same(got, m) {
				t.Errorf("%v %v:\ngot  %+v\nwant %+v", d, m.Type, got, m)
			}
		}
		for i, in := range known {
			if in[d] && !seen[messageType(i)] {
				t.Errorf("%v: no sample of %v", d, messageType(i))
			}
		}
	}
}

// Frames taken from the manual and from real clients, byte by byte: encode and
// decode share one description, so a mistake in it needs another witness.
func TestKnownFrames(t *testing.T) {
	for _, c := range []struct {
		d    dialect
		hex  string
		want message
	}{
		{plan9, "\x13\x00\x00\x00\x64\xff\xff\x00\x20\x00\x00\x06\x009P2000",
			message{Type: tversion, Tag: noTag, Msize: 8192, Version: "9P2000"}},
		{plan9, "\x13\x00\x00\x00\x68\x01\x00\x02\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
			message{Type: tattach, Tag: 1, Fid: 2, Afid: noFid, NUname: noUID}},
		{linux, "\x17\x00\x00\x00\x68\x01\x00\x02\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\xe8\x03\x00\x00",
			message{Type: tattach, Tag: 1, Fid: 2, Afid: noFid, NUname: 1000}},
		{plan9, "\x14\x00\x00\x00\x6e\x01\x00\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x01\x00a",
			message{Type: twalk, Tag: 1, Fid: 2, NewFid: 3, Names: []string{"a"}}},
		{linux, "\x0f\x00\x00\x00\x0c\x01\x00\x02\x00\x00\x00\x01\x02\x00\x00",
			message{Type: tlopen, Tag: 1, Fid: 2, Flags: 0x201}},
		{linux, "\x0b\x00\x00\x00\x32\x01\x00\x02\x00\x00\x00",
			message{Type: tfsync, Tag: 1, Fid: 2}},
		{linux, "\x0b\x00\x00\x00\x07\x01\x00\x02\x00\x00\x00",
			message{Type: rlerror, Tag: 1, Ecode: 2}},
	} {
		var got message
		if err := decodeMessage([]byte(c.hex), c.d, &got); err != nil || !same(got, c.want) {
			t.Errorf("%v %q: %v\ngot  %+v\nwant %+v", c.d, c.hex, err, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	walk := encode(t, plan9, &message{Type: twalk, Names: []string{"abc"}})
	many := encode(t, plan9, &message{Type: twalk})
	many[15] = 17
	frame := func(edit func(b []byte)) []byte {
		b := bytes.Clone(walk)
		edit(b)
		return b
	}
	write := encode(t, plan9, &message{Type: twrite, Data: []byte("x")})
	write[19] = 0xff
	stat := encode(t, plan9, &message{Type: twstat, Stat: dir{Name: "n"}})
	stat[13]--
	for name, b := range map[string][]byte{
		"empty":                    nil,
		"half a header":            walk[:5],
		"size too large":           frame(func(b []byte) { b[0]++ }),
		"size too small":           walk[:len(walk)-1],
		"bad UTF-8":                frame(func(b []byte) { b[len(b)-1] = 0xff }),
		"string longer than frame": frame(func(b []byte) { b[17] = 200 }),
		"bytes after the fields":   frame(func(b []byte) { b[17]-- }),
		"17 names":                 many,
		"unknown type":             frame(func(b []byte) { b[4] = 255 }),
		"Terror":                   frame(func(b []byte) { b[4] = 106 }),
		"of the other dialect":     frame(func(b []byte) { b[4] = byte(tlopen) }),
		"count larger than frame":  write,
		"stat with another size":   stat,
	} {
		var m message
		if err := decodeMessage(b, plan9, &m); err == nil {
			t.Errorf("%s: decoded as %+v", name, m)
		}
	}
}

func TestEncodeRefusesLongStrings(t *testing.T) {
	before := []byte("before")
	m := message{Type: tremove}
	for _, m = range []message{
		{Type: rerror, Ename: strings.Repeat("x", 1<<16)},
		{Type: rstat, Stat: dir{Name: strings.Repeat("x", 60000), UID: strings.Repeat("x", 60000)}},
	} {
		if b, err := appendMessage(before, plan9, &m); err == nil || string(b) != "before" {
			t.Errorf("%v: got %d bytes, %v", m.Type, len(b), err)
		}
	}
}

func TestDirectoryEntriesComeBack(t *testing.T) {
	d := dir{Qid: qid{Path: 5}, Name: "a", UID: "u", Length: math.MaxUint64}
	var gotDir dir
	rest, err := decodeDir(append(appendDir(nil, &d), "rest"...), &gotDir)
	if err != nil || gotDir != d || string(rest) != "rest" {
		t.Errorf("dir: %+v, %q, %v", gotDir, rest, err)
	}
	e := dirent{Qid: qid{Path: 5}, Offset: 3, Type: 4, Name: "a"}
	var gotEnt dirent
	rest, err = decodeDirent(append(appendDirent(nil, &e), "rest"...), &gotEnt)
	if err != nil || gotEnt != e || string(rest) != "rest" {
		t.Errorf("dirent: %+v, %q, %v", gotEnt, rest, err)
	}
}

func TestKindsCrossTheWire(t *testing.T) {
	for k := fsys.File; k <= fsys.Stream; k++ {
		if got := kindOf(qidType(k)); got != k {
			t.Errorf("%v became %v", k, got)
		}
	}
}

// frames of sizes around those of the reader's buffer, in pieces of every kind.
func TestFrameReader(t *testing.T) {
	var stream []byte
	var want [][]byte
	for _, n := range []int{1, 100, readBuffer - 23, readBuffer - 22, 5, 3 * readBuffer, 1 << 20, 7} {
		m := message{Type: twrite, Data: bytes.Repeat([]byte{byte(n)}, n)}
		b := encode(t, plan9, &m)
		want = append(want, b)
		stream = append(stream, b...)
	}
	for name, r := range map[string]io.Reader{
		"whole":        bytes.NewReader(stream),
		"halves":       iotest.HalfReader(bytes.NewReader(stream)),
		"bytes":        iotest.OneByteReader(bytes.NewReader(stream)),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		f := newFrameReader(r)
		var kept []*frame
		for i, w := range want {
			b, err := f.next(maxMsize)
			if err != nil || !bytes.Equal(b, w) {
				t.Fatalf("%s: frame %d: %d bytes, %v", name, i, len(b), err)
			}
			k, part := f.keep(b[23:])
			k.b = part // what is kept must survive the frames that follow
			kept = append(kept, k)
		}
		if _, err := f.next(maxMsize); err != io.EOF {
			t.Errorf("%s: at the end: %v", name, err)
		}
		for i, k := range kept {
			if !bytes.Equal(k.b, want[i][23:]) {
				t.Errorf("%s: frame %d did not keep", name, i)
			}
		}
	}
}

func TestFrameReaderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"too small":       {"\x06\x00\x00\x00\x64\x00", fsys.Invalid},
		"too large":       {"\x01\x20\x00\x00", fsys.TooLarge},
		"ends in header":  {"\x07\x00\x00\x00", io.ErrUnexpectedEOF},
		"ends in a frame": {"\x00\x20\x00\x00\x64\x00\x00", io.ErrUnexpectedEOF},
	} {
		_, err := newFrameReader(strings.NewReader(c.in)).next(8192)
		if fsys.CodeOf(err) != fsys.CodeOf(c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A size of 4 MiB with nothing behind it must not cost 4 MiB.
func TestMemoryFollowsWhatArrived(t *testing.T) {
	claim := string([]byte{0, 0, 0x40, 0, byte(twrite), 0, 0})
	r := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			if _, err := newFrameReader(strings.NewReader(claim)).next(maxMsize); err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
		}
	})
	if r.AllocedBytesPerOp() > 64<<10 {
		t.Errorf("%d bytes allocated", r.AllocedBytesPerOp())
	}
}

func FuzzDecode(f *testing.F) {
	for d, list := range samples() {
		for _, m := range list {
			f.Add(encode(f, d, &m), d == linux)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, l bool) {
		d := plan9
		if l {
			d = linux
		}
		var m, again message
		if decodeMessage(b, d, &m) != nil {
			return
		}
		out, err := appendMessage(nil, d, &m)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if err := decodeMessage(out, d, &again); err != nil || !same(m, again) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
