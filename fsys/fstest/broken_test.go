package fstest_test

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agent9/fsys"
	"agent9/fsys/fstest"
)

// Each tree here breaks one rule, and the sentence is what CheckTree must say.
// A check that no broken tree trips does not belong in CheckTree.
func TestBrokenTrees(t *testing.T) {
	ok := fsys.Const("fine\n")
	for _, tc := range []struct {
		name string
		node fsys.Node
		say  string
	}{
		{"listed but not there", ghost{}, "/d/a: listed, but Walk says"},
		{"listed twice", set{list: []fsys.Entry{{Name: "a", Node: ok}, {Name: "a", Node: ok}}, walk: ok}, "/d/a: listed twice"},
		{"bad name", set{list: []fsys.Entry{{Name: "a/b", Node: ok}}, walk: ok}, `lists "a/b", which cannot be a name`},
		{"every name exists", set{walk: ok, any: true}, "Walk to a missing name"},
		{"list fails", set{err: fsys.Unavailable}, "/d: List: Remote I/O error"},
		{"kinds disagree", set{list: []fsys.Entry{{Name: "a", Node: ok}}, walk: fsys.NewTable()}, "List and Walk disagree"},
		{"writable directory", set{writable: true}, "a directory can be opened for writing"},
		{"stat fails", file{statErr: fsys.Internal}, "/d: Stat: i/o error"},
		{"walk through a file", file{walks: true}, "Walk through a file"},
		{"read-only file takes writes", file{b: "x\n", anyFlag: true}, "without write permission, opened for writing"},
		{"size lies", file{b: "x\n", size: 9}, "Stat says 9 bytes, a read finds 2"},
		{"no newline", file{b: "x"}, "does not end in a newline"},
		{"offsets ignored", file{b: "abcdefgh\n", same: true}, "reads at different offsets disagree"},
		{"reads past the end", file{b: "x\n", beyond: true}, "a read past the end returned 1 bytes"},
		{"open fails", file{openErr: fsys.Internal}, "/d: Open: i/o error"},
		{"read fails", file{b: "x\n", readErr: fsys.Unavailable}, "/d: Read: Remote I/O error"},
		{"read fails in the middle", file{b: "abcdefgh\n", readErr: fsys.Unavailable, failFrom: 1}, "Read at 4: Remote I/O error"},
		{"close fails", file{b: "x\n", closeErr: fsys.Internal}, "/d: Close: i/o error"},
		{"written while open for reading", file{b: "x\n", writes: true}, "written through a handle that is open for reading"},
		{"message with a size", file{kind: fsys.Message, size: 3}, "a message file has size 3"},
		{"message refuses >", file{kind: fsys.Message, truncErr: fsys.Invalid}, "a shell's > could not truncate it"},
		{"message that hangs", file{kind: fsys.Message, hang: true}, "a read before a request did not return"},
		{"stream that hangs", file{kind: fsys.Stream, hang: true}, "a cancelled read did not return"},
		{"stream promises too much", file{kind: fsys.Stream, size: 5}, "Stat says 5 bytes, but reads give 0"},
		{"stream differs", &fickle{}, "two readers see different bytes"},
		{"listed, and a read takes", safe{taking{ok}}, "a read takes something away"},
		{"listed, and a read waits", safe{fsys.NewTape(new(fsys.Memory))}, "a read of all of it waits"},
		{"no such kind", file{kind: 77}, "no such kind as 77"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // the ones that hang take their time
			err := fstest.CheckTree(t.Context(), fsys.NewTable(fsys.Entry{Name: "d", Node: tc.node}))
			require.ErrorContains(t, err, tc.say)
		})
	}
	require.ErrorContains(t, fstest.CheckTree(t.Context(), fsys.NewTable(), "a/b"), "/a/b: expected, but Walk says")
	require.ErrorContains(t, fstest.CheckTree(t.Context(), file{statErr: fsys.Internal}), "Stat of the root")
}

func TestCheckTreeAcceptsGoodOnes(t *testing.T) {
	var data fsys.Memory
	data.Append([]byte("one\ntwo\n"))
	tape := fsys.NewTape(&data)
	doc := "{}\n"
	tree := fsys.NewTable(
		fsys.Entry{Name: "text", Node: fsys.Const("hello\n")},
		fsys.Entry{Name: "empty", Node: fsys.Const("")},
		fsys.Entry{Name: "doc", Node: &fsys.Doc{
			Load: func(context.Context) ([]byte, error) { return []byte(doc), nil },
			Save: func(_ context.Context, b []byte) error { doc = string(b); return nil },
		}},
		fsys.Entry{Name: "new", Node: &fsys.Call{Do: func(context.Context, []byte) ([]byte, error) { return nil, nil }}},
		fsys.Entry{Name: "ctl", Node: &fsys.Ctl{
			Do:   func(context.Context, []string) ([]byte, error) { return nil, nil },
			Text: func(context.Context) ([]byte, error) { return nil, nil },
		}},
		fsys.Entry{Name: "tape", Node: tape},
		fsys.Entry{Name: "live", Node: tape.Live()},
		fsys.Entry{Name: "sub", Node: fsys.NewTable(fsys.Entry{Name: "x", Node: fsys.Const("y\n")})},
	)
	require.NoError(t, fstest.CheckTree(t.Context(), tree, "sub/x", "tape"))
	require.Equal(t, "{}\n", doc, "the check changed something")
}

// set is a directory whose parts need not agree.
type set struct {
	list     []fsys.Entry
	walk     fsys.Node
	any      bool
	err      error
	writable bool
}

func (s set) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555}, nil
}

func (s set) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) {
	if s.writable {
		return handle{}, nil
	}
	return fsys.OpenDir(f)
}

func (s set) Walk(_ context.Context, name string) (fsys.Node, error) {
	if s.walk == nil || !s.any && strings.HasPrefix(name, "no such") {
		return nil, fsys.NotExist
	}
	return s.walk, nil
}

func (s set) List(context.Context) ([]fsys.Entry, error) { return s.list, s.err }

// ghost lists what cannot be walked to.
type ghost struct{ set }

func (ghost) List(context.Context) ([]fsys.Entry, error) {
	return []fsys.Entry{{Name: "a", Node: fsys.Const("")}}, nil
}

// file misbehaves as its fields say.
type file struct {
	kind                                fsys.Kind
	b                                   string
	size                                int64
	same, beyond, anyFlag, walks, hang  bool
	writes                              bool
	failFrom                            int64
	statErr, openErr, readErr, closeErr error
	truncErr                            error
}

func (f file) Stat(context.Context) (fsys.Info, error) {
	size := f.size
	if size == 0 && f.kind == fsys.File {
		size = int64(len(f.b))
	}
	perm := fs.FileMode(0o444)
	if f.kind == fsys.Message {
		perm = 0o666
	}
	return fsys.Info{Kind: f.kind, Perm: perm, Size: size}, f.statErr
}

func (f file) Walk(context.Context, string) (fsys.Node, error) {
	if f.walks {
		return f, nil
	}
	return nil, fsys.NotDir
}

func (f file) List(context.Context) ([]fsys.Entry, error) { return nil, fsys.NotDir }
func (f file) Truncate(context.Context, int64) error      { return f.truncErr }

func (f file) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read && !f.anyFlag {
		return nil, fsys.Permission
	}
	return handle{f}, f.openErr
}

type handle struct{ file }

func (h handle) Close() error { return h.closeErr }

func (h handle) WriteAt(_ context.Context, p []byte, _ int64) (int, error) {
	if h.writes {
		return len(p), nil
	}
	return 0, fsys.BadHandle
}

func (h handle) ReadAt(_ context.Context, p []byte, off int64) (int, error) {
	switch {
	case h.hang:
		select {}
	case h.readErr != nil && off >= h.failFrom && (h.failFrom == 0 || off < int64(len(h.b))):
		return 0, h.readErr
	case h.same && off < int64(len(h.b)):
		return copy(p, h.b), nil
	case h.beyond && off > int64(len(h.b)):
		return 1, nil
	case off >= int64(len(h.b)):
		return 0, io.EOF
	}
	return copy(p, h.b[off:]), nil
}

// fickle is a stream that shows each reader something else.
type fickle struct{ opens byte }

func (f *fickle) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Stream, Perm: 0o444, Size: 4}, nil
}

func (f *fickle) Open(_ context.Context, flag fsys.Flag) (fsys.Handle, error) {
	if flag != fsys.Read {
		return nil, fsys.Permission
	}
	f.opens++
	return handle{file{b: strings.Repeat(string('a'+rune(f.opens)), 4)}}, nil
}

// safe says that it may be read by who reads everything.
type safe struct{ fsys.Node }

func (s safe) Stat(ctx context.Context) (fsys.Info, error) {
	info, err := s.Node.Stat(ctx)
	info.Ended = true
	return info, err
}

func (s safe) Takes() bool { return fsys.Takes(s.Node) }

type taking struct{ fsys.Node }

func (taking) Takes() bool { return true }
