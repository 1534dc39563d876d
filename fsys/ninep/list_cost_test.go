package ninep

import (
	"context"
	"fmt"
	"testing"

	"agent9/fsys"
)

// listedDir is a directory that knows what its entries are.
type listedDir struct {
	fsys.Node
	entries []fsys.Entry
}

func (d listedDir) Walk(context.Context, string) (fsys.Node, error) { return nil, fsys.NotExist }
func (d listedDir) List(context.Context) ([]fsys.Entry, error)      { return d.entries, nil }
func (d listedDir) Stat(context.Context) (fsys.Info, error) {
	return fsys.Info{Kind: fsys.Directory, Perm: 0o555}, nil
}
func (d listedDir) Open(_ context.Context, f fsys.Flag) (fsys.Handle, error) { return fsys.OpenDir(f) }

// TestListingDoesNotAskEach lists entries that came with what they are, none of
// which answers.
func TestListingDoesNotAskEach(t *testing.T) {
	info := fsys.Info{Perm: 0o444, Size: 3, Gen: 9}
	var d listedDir
	for i := range 300 {
		node := fsys.Text(func(context.Context) ([]byte, error) {
			t.Error("an entry was asked what it is")
			return nil, fsys.Internal
		})
		d.entries = append(d.entries, fsys.Entry{Name: fmt.Sprint(i), Node: node, Info: &info})
	}
	for _, dialect := range []dialect{linux, plan9} {
		_, addr := serveTree(t, d)
		w := connect(t, addr, dialect, "")
		w.open(1, fsys.Read)
		kind := tread
		if dialect == linux {
			kind = treaddir
		}
		r := w.must(message{Type: kind, Fid: 1, Count: 1 << 16})
		n, b := 0, r.Data
		for len(b) > 0 {
			var err error
			if dialect == linux {
				var e dirent
				b, err = decodeDirent(b, &e)
			} else {
				var e dir
				b, err = decodeDir(b, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n == 0 {
			t.Errorf("%v: nothing is listed", dialect)
		}
	}
}

// TestPathsTellFilesApart checks that no part of what makes a qid path is lost.
func TestPathsTellFilesApart(t *testing.T) {
	k := newPathKey()
	seen := map[uint64]string{}
	for _, dir := range []uint64{0, 1, 1 << 55} {
		for _, gen := range []uint64{0, 1, 1 << 63} {
			for _, name := range []string{"", "a", "a\x00", "0123456789abcdef", "0123456789abcdef\x00", "0123456789abcdefg"} {
				what := fmt.Sprintf("%d %d %q", dir, gen, name)
				path := k.path(dir, gen, name)
				if other, ok := seen[path]; ok || path >= 1<<56 {
					t.Errorf("%s has path %x, as has %q", what, path, other)
				}
				if again := k.path(dir, gen, name); again != path {
					t.Errorf("%s has paths %x and %x", what, path, again)
				}
				seen[path] = what
			}
		}
	}
}
